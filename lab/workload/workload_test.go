package workload

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestMain lets the test binary play the lab's own, which runs itself as a
// probe.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == AgentArg {
		os.Exit(AgentMain(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func TestRTPArgs(t *testing.T) {
	got := strings.Join(RTPOptions{Clip: "c.ts", Target: "2001:db8::1", Port: 7000}.args(), " ")
	want := "-v error -nostdin -readrate 1 -i c.ts -map 0:v -c copy -f rtp_mpegts -rtp_muxer_options seq=1 " +
		"rtp://[2001:db8::1]:7000?pkt_size=1328"
	if got != want {
		t.Errorf("arguments %q, want %q", got, want)
	}
}

func TestIperfArgs(t *testing.T) {
	got := strings.Join(IperfOptions{Target: "cn1", Port: 5, UDP: true, Mbps: 2.5, Length: 1000, Seconds: 9, Interval: 0.5,
		Reverse: true, CC: "cubic"}.args(), " ")
	if want := "-6 -c cn1 -p 5 -J -t 9 -i 0.5 -u -b 2500000 -l 1000 -R"; got != want {
		t.Errorf("arguments %q, want %q", got, want)
	}
	got = strings.Join(IperfOptions{Target: "cn1", Port: 5, Seconds: 9, CC: "cubic", Parallel: 4}.args(), " ")
	if want := "-6 -c cn1 -p 5 -J -t 9 -C cubic -P 4"; got != want {
		t.Errorf("arguments %q, want %q", got, want)
	}
}

func TestServerInterval(t *testing.T) {
	for line, want := range map[string]float64{
		"[  5]   0.50-1.00   sec  1.19 MBytes  20001 Kbits/sec                  ":        20001,
		"[  5]   1.00-1.50   sec   610 KBytes  9998 Kbits/sec  0.010 ms  0/500 (0%)  ":   9998,
		"[  5]   0.00-28.04  sec  26.8 MBytes  8003 Kbits/sec                  receiver": -1,
		"[ ID] Interval           Transfer     Bitrate":                                  -1,
		"Accepted connection from 2001:db8::1, port 5":                                   -1,
	} {
		seconds, rate, ok := serverInterval(line)
		if ok != (want >= 0) || ok && (math.Abs(rate-want) > 0.01 || seconds != 0.5) {
			t.Errorf("%q: %g s, %g, %v", line, seconds, rate, ok)
		}
	}
}

func TestIperfReport(t *testing.T) {
	r, err := IperfRecord{Client: `{"intervals":[{"sum":{"bits_per_second":8e6}}],
	 "end":{"sum_sent":{"bytes":100,"bits_per_second":9e6,"retransmits":3},"sum_received":{"bytes":90,"bits_per_second":8e6},
	 "streams":[{"sender":{},"receiver":{"bits_per_second":5e6}},{"receiver":{"bits_per_second":3e6}}],
	 "cpu_utilization_percent":{"host_total":12.5,"remote_total":7}}}`}.Report()
	if err != nil || r.Mbps != 8 || r.Bytes != 90 || r.Retransmits != 3 || r.HostCPU != 12.5 || len(r.Samples) != 1 ||
		!slices.Equal(r.Streams, []float64{5, 3}) {
		t.Errorf("report %+v, %v", r, err)
	}
	r, err = IperfRecord{`{"end":{"sum":{"bytes":100,"bits_per_second":9e6,"lost_packets":2,"packets":50}}}`}.Report()
	if err != nil || r.Mbps != 9 || r.Bytes != 100 || r.LostPackets != 2 || r.Packets != 50 {
		t.Errorf("report of datagrams %+v, %v", r, err)
	}
	if _, err = (IperfRecord{Client: `{"error":"unable to connect"}`}).Report(); err == nil ||
		!strings.Contains(err.Error(), "unable to connect") {
		t.Errorf("error %v", err)
	}
	var i Iperf
	i.collect(&i.wrote.Client, "one")
	i.collect(&i.wrote.Client, "two")
	if i.wrote != (IperfRecord{Client: "one\ntwo\n"}) {
		t.Errorf("collected %q", i.wrote)
	}
	if _, err = (IperfRecord{}).Report(); err == nil {
		t.Error("an empty report was accepted")
	}
}

func TestBound(t *testing.T) {
	table := "  sl  local_address                         remote_address                        st\n" +
		"   0: 00000000000000000000000000000000:1451 00000000000000000000000000000000:0000 0A 0\n" +
		"   1: 00000000000000000000000001000000:1452 00000000000000000000000001000000:9999 01 0\n" +
		"   2: 00000000000000000000000000000000:1453 00000000000000000000000000000000:0000 07 0\n"
	for port, want := range map[int]bool{0x1451: true, 0x1452: false, 0x1453: true, 0x451: false, 0x9999: false} {
		if bound(table, port) != want {
			t.Errorf("port %#x bound: %v", port, !want)
		}
	}
}

func TestHostPort(t *testing.T) {
	for host, want := range map[string]string{"cn1": "cn1:80", "2001:db8::1": "[2001:db8::1]:80",
		"192.0.2.1": "192.0.2.1:80"} {
		if got := hostPort(host, 80); got != want {
			t.Errorf("%s: %s", host, got)
		}
	}
}

func TestAgentMainRefuses(t *testing.T) {
	for _, args := range [][]string{nil, {"nonsense"}, {"udp-flow"}, {"tcp-flow", "--size", "1"}} {
		if AgentMain(args) == 0 {
			t.Errorf("arguments %v accepted", args)
		}
	}
}
