package yanagida

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"roam/lab/result"
	"roam/lab/stats"
)

// outcome holds all results of one pass that the report needs.
type outcome struct {
	Arm           string // its title
	RTTMs         float64
	Alive         bool   // iperf3 ended well both ways
	Why           string // or why not
	Out, In       way
	Marks         []mark
	Exchanges     []exchange
	Changes       int // of the set, by the schedule
	Handoffs      int // changes of the preferred locator
	HandoffsMeant int
	ChangesOff    int // changes of the set beyond or short of one after each step
	HandoffsOff   int // changes of the preferred locator beyond or short of the script's
	NewLocators   int // first uses of a link
	BeforeLU      []early
	BeforeAck     int // of NewLocators: data left before the acknowledgement arrived
	AfterRemoval  int // data packets on a withdrawn link after the acknowledgement
	// Of AfterRemoval: the longest time after it, and the number that the correspondent
	// sent after its acknowledgement; the others were in flight.
	AfterRemovalMs   float64
	AfterRemovalSent int
	WrongSource      int       // packets with a source outside the network of their link
	BringUpMs        []float64 // from carrier to the first data on the link
	DaemonBringUpMs  []float64 // from carrier to locator, as the daemon says
	Away             int       // bytes of payload that arrived while the only network was away
	AwayS            float64   // duration of that
	Drops            map[string]uint64
	CaptureDropped   int
	BufferErrors     int
}

// way is one direction of the traffic.
type way struct {
	Mbps       float64 // IPv6 payload received, over the whole pass
	LateMbps   float64 // likewise without the beginning
	Sent, Got  int
	Bytes      int
	Lost       int // packets of UDP, bytes of TCP
	ByQueues   int // the part of Lost for which the emulator had no room
	Resent     int // bytes of TCP
	Doubled    int
	Misorders  int
	AppLost    int // as iperf3 reports it, UDP
	AppSent    int
	Overflows  int       // datagrams that full buffers of the receiving host dropped
	LongGapsMs []float64 // between arrivals, over 50 ms
	WindowsMs  []float64 // longest gap of each window of the pass
	Buckets    map[string][]float64
	Shares     []map[string]float64 // per phase, in per cent
}

// mark is a step of the schedule as it was done.
type mark struct {
	T     float64
	Label string
}

// exchange is one Locator Update.
type exchange struct {
	T        float64
	Set      string
	Messages int
	Acks     int
	RTTMs    float64 // to the first acknowledgement; 0 without one
	Refresh  bool
	Repeat   bool
	Early    bool
}

// kind says what an update is for: a repeat renews nothing, as its sender suspects a path.
func (e exchange) kind() string {
	switch {
	case e.Repeat:
		return "repeat"
	case e.Refresh:
		return "refresh"
	}
	return "change"
}

// early is a packet from a new locator before the update that lists it.
type early struct {
	T    float64
	Link string
	Ms   float64 // to the update
	What string
}

func (o *outcome) ways() [2]*way { return [2]*way{&o.Out, &o.In} }

// loss says whose the lost datagrams are. Of those that arrived at the host and not at iperf3,
// its sockets own as many as full buffers dropped.
func (w *way) loss(what string) result.Loss {
	return result.Loss{What: what, Sent: w.Sent, Lost: max(w.Lost, w.AppLost), Emulator: w.ByQueues,
		Sockets: min(w.Overflows, max(0, w.AppLost-w.Lost))}
}

// told counts Locator Updates.
type told struct {
	changes, messages         int // exchanges that announce a change, and their messages
	refreshes, repeats, early int
}

func (o *outcome) updates() (n told) {
	for _, e := range o.Exchanges {
		switch {
		case e.Repeat:
			n.repeats++
		case e.Early:
			n.early++
			n.refreshes++
		case e.Refresh:
			n.refreshes++
		default:
			n.changes++
			n.messages += e.Messages + e.Acks
		}
	}
	return n
}

// flows reports whether data arrived in both directions until the end: in the last two
// whole buckets at least half of the usual amount.
func (o *outcome) flows() bool {
	for _, w := range o.ways() {
		b := inner(w.total())
		if len(b) < 4 || stats.Mean(b[len(b)-2:]) < stats.Median(b)/2 {
			return false
		}
	}
	return true
}

// gapsOver counts the gaps of both directions that exceed the control's longest by a limit.
func (o *outcome) gapsOver(limitMs float64, control *outcome) (n int, longest float64) {
	for i, w := range o.ways() {
		for _, g := range w.LongGapsMs {
			above := g - control.controlGap(i)
			longest = max(longest, above)
			if above > limitMs {
				n++
			}
		}
	}
	return n, longest
}

// controlGap is the median of the longest gap over the windows of a pass without events:
// the machine's own share.
func (o *outcome) controlGap(i int) float64 {
	if o == nil || len(o.ways()[i].WindowsMs) == 0 {
		return 0
	}
	return stats.Median(o.ways()[i].WindowsMs)
}

// total returns the sum of all links' buckets. It adds them in one order: in the random
// order of a map the last digits would differ from run to run.
func (w *way) total() []float64 {
	var sum []float64
	for _, l := range slices.Sorted(maps.Keys(w.Buckets)) {
		b := w.Buckets[l]
		if sum == nil {
			sum = make([]float64, len(b))
		}
		for i, v := range b {
			sum[i] += v
		}
	}
	return sum
}

// deviation is the standard deviation of the buckets of the links in use, about
// the mean of each link in each phase: how unevenly each link was used in time.
func (w *way) deviation(phases []phase, width float64) float64 {
	var sum float64
	n := 0
	for _, p := range phases {
		from, to := int(math.Ceil((p.from.Seconds()+1.5)/width)), int(p.to.Seconds()/width)
		for _, l := range p.links {
			b := w.Buckets[l]
			if to > len(b) || to-from < 2 {
				continue
			}
			m := stats.Mean(b[from:to])
			for _, v := range b[from:to] {
				sum += (v - m) * (v - m)
				n++
			}
		}
	}
	return math.Sqrt(sum / float64(max(n, 1)))
}

// field reads a number from a file of "name value" lines.
func field(text, name string) int {
	for line := range strings.Lines(text) {
		var n int
		var k string
		if _, err := fmt.Sscan(line, &k, &n); err == nil && k == name {
			return n
		}
	}
	return 0
}
