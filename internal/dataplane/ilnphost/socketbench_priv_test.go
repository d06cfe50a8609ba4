package ilnphost

import (
	"fmt"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"roam/wire/ip6"
)

// BenchmarkIngressWithRealNID is a datagram and a segment of a session for sockets that
// accept any peer, where the NID is not that of a real address, and where it is: with sockets
// looked up for each packet, and with no mark that says so.
func BenchmarkIngressWithRealNID(b *testing.B) {
	for _, n := range []int{1, 16000} {
		for _, proto := range []uint8{ip6.UDP, ip6.TCP} {
			for _, how := range []string{"never", "always", "marked"} {
				b.Run(fmt.Sprintf("sessions=%d/proto=%d/looked-up=%s", n, proto, how), func(b *testing.B) {
					benchmarkRealNID(b, n, proto, how)
				})
			}
		}
	}
}

func benchmarkRealNID(b *testing.B, n int, proto uint8, how string) {
	r := newRigOf(b, max(n, LeastSessions))
	r.uplink(here)
	r.change(func(s *HostSettings) { s.RealNID = how != "never" })
	for i := range n {
		r.upsert(numbered(i))
	}
	if how == "marked" {
		r.marks.Valid = 1
	}
	ip(b, "link set lo up")
	datagrams, err := net.ListenPacket("udp6", "[::]:5001")
	r.must(err)
	defer datagrams.Close()
	listener, err := net.Listen("tcp6", "[::]:443")
	r.must(err)
	defer listener.Close()
	body := udp(56)
	if proto == ip6.TCP {
		body = tcp(flagACK, 1400)
	}
	first := frame(packet(at(there, numbered(0).RemoteNID), at(here, ours), proto, body))
	alone, with := harness(b, n, first, srcNID, nil), harness(b, n, first, srcNID, r.objs.IlnpUplinkIngress)
	_, own, err := alone.Benchmark(first, 1_000_000, nil)
	r.must(err)
	_, _, err = with.Benchmark(first, 5*n, nil) // what was seen of a session is cleared
	r.must(err)
	b.ResetTimer()
	v, took, err := with.Benchmark(first, b.N, b.ResetTimer)
	r.must(err)
	if int32(v) != passOn {
		b.Fatalf("verdict %d", int32(v))
	}
	b.ReportMetric(float64((took - own).Nanoseconds()), "ns/packet")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkSweep is one search for sockets, among so many datagram sockets of which none, or
// each, is on a real address.
func BenchmarkSweep(b *testing.B) {
	for _, n := range []int{0, 10_000} {
		for _, real := range []bool{false, true} {
			if n == 0 && real {
				continue
			}
			b.Run(fmt.Sprintf("sockets=%d/real=%v", n, real), func(b *testing.B) {
				r := newRig(b)
				ip(b, "link set lo up")
				ip(b, "-6 addr add "+at(here, ours).Addr().String()+"/128 dev lo nodad")
				from := net.IPv6loopback
				if real {
					from = net.IP(at(here, ours).Addr().AsSlice())
				}
				for range n {
					c, err := net.ListenUDP("udp6", &net.UDPAddr{IP: from})
					r.must(err)
					defer c.Close()
				}
				w := r.watch(rootCgroup(b))
				var before, after unix.Rusage
				r.must(unix.Getrusage(unix.RUSAGE_THREAD, &before))
				b.ResetTimer()
				for range b.N {
					r.must(w.Sweep())
				}
				r.must(unix.Getrusage(unix.RUSAGE_THREAD, &after))
				took := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
				b.ReportMetric(float64(took)/float64(b.N)/1e6, "ms-of-cpu/op")
			})
		}
	}
}
