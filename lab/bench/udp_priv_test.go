package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/workload"
	"roam/lab/workload/udpblast"
)

const (
	blastFor  = 700 * time.Millisecond // the window that is counted
	blastSize = 64
	sendCore  = 0
	takeCore  = 1
)

// blast sends datagrams from MN as fast as its core can, and returns what
// arrived at CN, on another core.
func (w *world) blast(b *testing.B, target string, port int) udpblast.Result {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), within)
	defer cancel()
	argv, err := workload.Agent("udp-blast", "--listen", fmt.Sprintf("[::]:%d", port), "--cpu", fmt.Sprint(takeCore),
		"--for", blastFor.String())
	must(b, err)
	take := w.cn.AppCommand(ctx, argv...)
	out, err := take.StdoutPipe()
	must(b, err)
	must(b, take.Start())
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		b.Fatalf("receiver of datagrams says %q: %v", lines.Text(), take.Wait())
	}
	argv, err = workload.Agent("udp-blast", "--to", net.JoinHostPort(target, fmt.Sprint(port)),
		"--cpu", fmt.Sprint(sendCore),
		"--for", (blastFor + 400*time.Millisecond).String(), "--size", fmt.Sprint(blastSize))
	must(b, err)
	if msg, err := w.mn.AppCommand(ctx, argv...).CombinedOutput(); err != nil {
		b.Fatalf("send datagrams to %s: %v: %s", target, err, msg)
	}
	var r udpblast.Result
	for lines.Scan() {
		must(b, json.Unmarshal(lines.Bytes(), &r))
	}
	must(b, take.Wait())
	if r.Packets == 0 {
		b.Fatalf("no datagrams from %s: %+v", target, r)
	}
	return r
}

// sums adds up what several runs of one kind measured.
type sums struct{ rate, cpu, sender, taker, dropped float64 }

func (s *sums) add(r udpblast.Result) (rate, cpu float64) {
	rate = float64(r.Packets) / r.Seconds
	busy := 0.0
	for _, share := range r.Busy {
		busy += share
	}
	cpu = busy / rate * 1e9
	s.rate, s.cpu, s.dropped = s.rate+rate, s.cpu+cpu, s.dropped+float64(r.Dropped)
	s.sender, s.taker = s.sender+r.Busy[sendCore], s.taker+r.Busy[takeCore]
	return rate, cpu
}

// BenchmarkUDPPackets compares datagrams of 64 bytes a second between session
// addresses with those between the hosts' own addresses, through one router,
// in pairs A B, B A ... The sender's core forwards too, and saturates first,
// which its busy share shows.
func BenchmarkUDPPackets(b *testing.B) {
	testutil.NeedKernel(b, "two cores", runtime.NumCPU() > 1)
	w := newWorld(b, 1, linkem.Params{})
	w.startRoam(b, "soft", "net1")
	plain := w.cnPlain.String()
	w.blast(b, plain, 5701) // neighbours resolved
	w.blast(b, "cn", 5702)
	var ratios, cpus []float64
	var roam, ipv6 sums
	for b.Loop() {
		for n := 0; n < pairsMost; n++ {
			var r, p, rc, pc float64
			if n%2 == 0 {
				r, rc = roam.add(w.blast(b, "cn", 5703))
				p, pc = ipv6.add(w.blast(b, plain, 5704))
			} else {
				p, pc = ipv6.add(w.blast(b, plain, 5704))
				r, rc = roam.add(w.blast(b, "cn", 5703))
			}
			ratios, cpus = append(ratios, r/p), append(cpus, rc/pc)
			if _, half := interval(ratios); n+1 >= pairsLeast && half <= halfWidth {
				break
			}
		}
	}
	mean, half := interval(ratios)
	cpu, cpuHalf := interval(cpus)
	n := float64(len(ratios))
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(mean, "ratio")
	b.ReportMetric(half, "ratio±")
	b.ReportMetric(cpu, "cpu-ratio")
	b.ReportMetric(cpuHalf, "cpu-ratio±")
	b.ReportMetric(n, "pairs")
	for name, s := range map[string]sums{"roam": roam, "ipv6": ipv6} {
		b.ReportMetric(s.rate/n, "packets/s-"+name)
		b.ReportMetric(1e9/(s.rate/n), "ns/packet-"+name)
		b.ReportMetric(s.cpu/n, "cpu-ns/packet-"+name)
		b.ReportMetric(s.sender/n, "sender-busy-"+name)
		b.ReportMetric(s.taker/n, "receiver-busy-"+name)
	}
}
