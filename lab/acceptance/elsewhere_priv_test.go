package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"roam/lab/workload/udpflow"
)

// foundWithin bounds the time from the change of the hosts files to the first datagram that
// was sent afterwards.
const foundWithin = 2 * time.Second

// hostsAt returns hosts files that name each host at one of its networks only.
func (w *world) hostsAt(number int) string {
	var b strings.Builder
	for _, name := range w.names() {
		fmt.Fprintf(&b, "nid=%s l64=%s,10 %s\n", w.nid(name), w.prefix(name, number), name)
	}
	return b.String()
}

// TestBothMoveElsewhere has two hosts lose their only networks at once, twice, and find others
// that nobody has named. Nothing that either sends can reach the other one. Then the hosts files
// are changed, and data flow both ways within foundWithin.
func TestBothMoveElsewhere(t *testing.T) {
	w := newWorld(t, "elsewhere", 5*time.Millisecond, place{"m1", 3, true}, place{"m2", 3, true})
	nodes := []*host{w.newHost("m1", settings{hosts: w.hostsAt(1)}), w.newHost("m2", settings{hosts: w.hostsAt(1)})}
	for _, n := range nodes {
		w.cable(n.name, "net2", false)
		w.cable(n.name, "net3", false)
		n.start()
		n.becomes("net1")
	}
	u := w.udp(t, "m1", "m2", "m2", 7040, 500)
	nodes[0].reaches("m2", "established")
	var changed []time.Time
	for number := 2; number <= 3; number++ {
		cables(w, nodes, fmt.Sprintf("net%d", number-1), false)
		cables(w, nodes, fmt.Sprintf("net%d", number), true)
		for _, n := range nodes {
			n.becomes(fmt.Sprintf("net%d", number))
		}
		for _, n := range nodes {
			n.write(settings{hosts: w.hostsAt(number)})
		}
		changed = append(changed, time.Now())
		flows(t, u, 500)
		bothOn(t, w, nodes, fmt.Sprintf("net%d", number), number)
	}
	up, down, err := u.Stop(w.within(patience), drain)
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range changed {
		for name, f := range map[string]*udpflow.Flow{"up": up, "down": down} {
			first, ok := f.FirstAfter(at, at)
			t.Logf("move %d, %s: the first datagram sent since came after %v", i+1, name, first.Sub(at).Round(time.Millisecond))
			if !ok {
				t.Errorf("move %d, %s: nothing has come", i+1, name)
			} else if first.Sub(at) > foundWithin {
				tooLate(t, "move %d, %s: later than after %v", i+1, name, foundWithin)
			}
		}
	}
	noLeak(t, nodes...)
}
