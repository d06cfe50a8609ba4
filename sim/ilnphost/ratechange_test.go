package ilnphost

import (
	"fmt"
	"testing"
	"time"

	"roam"
)

// TestRatesChange: shares follow rates that change under a connection. It has 0.9 of the better path by the rates of
// then after 2 s, and 0.9 of both after 10 s, whenever that happens between two probes, and whether a queue gets late
// or overflows.
func TestRatesChange(t *testing.T) {
	const rtt, dataOfPacket = 20 * time.Millisecond, 0.94
	for _, c := range []struct{ a, b, link, to int }{ // Mb/s
		{50, 50, 1, 10}, {47, 47, 1, 10}, {50, 25, 1, 10}, {50, 25, 2, 5}, {50, 10, 2, 50},
	} {
		for i, lead := range []time.Duration{4000, 4040, 4120, 4000, 4040, 4120} {
			queue := []int{1000, 100}[i/3]
			t.Run(fmt.Sprint(c, lead*time.Millisecond, queue), func(t *testing.T) {
				w := bulkWorld(t, true, wire{c.a, rtt}, wire{c.b, rtt})
				for link := range roam.LinkID(2) {
					w.mobile.SetQueue(link+1, queue*1500)
				}
				b := w.mobile.Bulk(w.server)
				w.Run(lead * time.Millisecond)
				w.mobile.SetRates(roam.LinkID(c.link), c.to*125000)
				after := [2]int{c.a, c.b}
				after[c.link-1] = c.to
				w.Run(2 * time.Second)
				soon := w.goodput(b, 2*time.Second) / (dataOfPacket * float64(max(after[0], after[1])))
				w.Run(6 * time.Second)
				late := w.goodput(b, 2*time.Second) / (dataOfPacket * float64(after[0]+after[1]))
				if t.Logf("%.2f, %.2f", soon, late); soon < 0.9 || late < 0.9 {
					t.Errorf("%.2f of the better path in 2 s, %.2f of both in 10 s", soon, late)
				}
			})
		}
	}
}
