package observer

import (
	"testing"

	"github.com/cilium/ebpf"

	"roam/wire/ip6"
)

// BenchmarkObserve is what the programs take of a packet: one of UDP, one with a nonce
// before it, and a Locator Update.
func BenchmarkObserve(b *testing.B) {
	p := alone(b)
	for name, packet := range map[string][]byte{
		"udp": ipv6(ip6.UDP, datagram...), "nonce": ipv6(ip6.DestOpts, nonced...), "update": ipv6(ip6.DestOpts, update...),
	} {
		for direction, prog := range map[string]*ebpf.Program{"in": p.objs.ObserverIngress, "out": p.objs.ObserverEgress} {
			b.Run(name+"/"+direction, func(b *testing.B) {
				v, took, err := prog.Benchmark(frame(packet), b.N, b.ResetTimer)
				if err != nil || v != passOn {
					b.Fatalf("verdict %#x, %v", v, err)
				}
				b.ReportMetric(float64(took.Nanoseconds()), "ns/packet")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
