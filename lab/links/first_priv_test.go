package links

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"roam/lab/node"
)

// BenchmarkFirstAdvertisement measures from the first Router Advertisement ever on a link
// to its locator being usable: on a link that came up a while ago, and on one that has come
// up just now, with the kernel's first look at it.
func BenchmarkFirstAdvertisement(b *testing.B) {
	for name, pause := range map[string]time.Duration{"later": 300 * time.Millisecond, "at once": 0} {
		b.Run(name, func(b *testing.B) { firstAdvertisements(b, pause) })
	}
}

func firstAdvertisements(b *testing.B, pause time.Duration) {
	w := emptyWorld(b, "first")
	w.plug("net1", 1)
	w.mn.start(mnNID, "")
	usable := make(chan string, 1)
	if err := w.mn.Monitor(b.Context(), func(e node.Event) {
		for _, l := range e.To {
			if e.Kind == "locator-added" && l.Link != "net1" {
				select {
				case usable <- l.Link:
				default:
				}
			}
		}
	}); err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		took = append(took, w.firstAdvertisement(fmt.Sprint("up", i), 10+i, pause, usable))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "median_ms")
	b.ReportMetric(float64(took[len(took)*9/10].Microseconds())/1000, "p90_ms")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "most_ms")
}

// firstAdvertisement plugs a new link in, lets it be for a while, and advertises a prefix
// on it.
func (w *world) firstAdvertisement(link string, n int, pause time.Duration, usable <-chan string) time.Duration {
	w.t.Helper()
	w.veth(w.mn, link, "to"+link)
	w.route("to"+link, numbered(n))
	if pause > 0 {
		tick := time.NewTicker(pause)
		<-tick.C
		tick.Stop()
	}
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	began := time.Now()
	w.advertise("to"+link, lasting(numbered(n)))
	for {
		select {
		case which := <-usable:
			if which != link {
				continue // an event of the link before
			}
			took := time.Since(began)
			w.unplug(link)
			return took
		case <-deadline.C:
			w.t.Fatalf("no locator on %s within %v", link, patience)
		}
	}
}
