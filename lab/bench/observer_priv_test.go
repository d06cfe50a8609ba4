package bench

import (
	"testing"

	"roam"
	"roam/internal/testutil"
	"roam/lab/linkem"
)

// BenchmarkObserver compares hosts with an observer on MN's uplink with hosts without.
func BenchmarkObserver(b *testing.B) {
	for _, c := range []struct {
		name, says, unit string
		units            int
		slice            slicer
	}{
		{"udp", "64-byte UDP datagrams, observed / not observed", "datagram", slicePackets, udpSlice},
		{"tcp", "4 MiB by TCP, observed / not observed", "MiB", sliceBytes >> 20,
			func(b *testing.B, w *world, target roam.ILV) func(*stopwatch) error {
				return tcpSlice(b, w, target, (*connection).bulk)
			}},
	} {
		b.Run(c.name, func(b *testing.B) {
			build(b)
			var all []*contender
			for _, name := range []string{"alone", "observed"} {
				w := newNamedWorld(b, name, 1, linkem.Params{})
				if name == "observed" {
					w.more = "[role]\nrun = [\"host\", \"observer\"]\n[observer]\nlinks = [\"net1\"]\n"
				}
				w.startRoam(b, "soft", "net1")
				w.ping(b, "cn", 3)
				if name == "observed" {
					isObserved(b, w)
				}
				target := roam.ILV{NID: w.nidCN, L64: roam.DefaultSessionPrefix}
				all = append(all, &contender{name: name, slice: c.slice(b, w, target)})
			}
			f := testutil.Figure{Name: "Observer/" + c.name, Says: c.says, Op: ">=", Bound: 0.95}
			compare(b, all, []question{{f, "alone", "observed", whole, c.units, c.unit, testutil.HalfWidth}})
		})
	}
}

// isObserved fails the benchmark where the observer has not counted the echo requests.
func isObserved(b *testing.B, w *world) {
	b.Helper()
	var counts []struct {
		Protocol, Direction string
		Packets             uint64
	}
	testutil.Eventually(b, within, func() bool {
		must(b, w.mnNode.AskFor(b.Context(), &counts, "observer", "show"))
		for _, c := range counts {
			if c.Protocol == "icmpv6" && c.Direction == "out" && c.Packets >= 3 {
				return true
			}
		}
		return false
	}, "the observer to count")
}
