package links

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"roam/lab/node"
)

// settled is how long a new link is let be: the kernel looks at it, and so does the daemon.
const settled = 300 * time.Millisecond

// BenchmarkFirstAdvertisement measures from the first Router Advertisement ever on a link
// that came up a while ago to its locator being usable.
func BenchmarkFirstAdvertisement(b *testing.B) {
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
		took = append(took, w.firstAdvertisement(fmt.Sprint("up", i), 10+i, usable))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "median_ms")
	b.ReportMetric(float64(took[len(took)*9/10].Microseconds())/1000, "p90_ms")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "most_ms")
}

// firstAdvertisement plugs a new link in, lets it be for a while, and advertises a prefix
// on it.
func (w *world) firstAdvertisement(link string, n int, usable <-chan string) time.Duration {
	w.t.Helper()
	w.veth(w.mn, link, "to"+link)
	w.route("to"+link, numbered(n))
	tick := time.NewTicker(settled)
	<-tick.C
	tick.Stop()
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
