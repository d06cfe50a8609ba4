package yanagida

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"roam"
	"roam/lab/node"
	"roam/lab/packets"
	"roam/lab/scene"
	"roam/lab/stats"
)

const (
	bucket    = 500 * time.Millisecond // of the throughput series (§5.3.3)
	longGap   = 50 * time.Millisecond  // least length of recorded gaps
	window    = 500 * time.Millisecond // in which the longest gap is taken
	settle    = 700 * time.Millisecond // after a change of the set, before shares count
	numberAt  = 8                      // where iperf3 has the number of a datagram
	fewest    = 50                     // least packets for a share
	floor     = 100_000                // bytes: a TCP connection with less is iperf3's own
	awayGrace = 50 * time.Millisecond  // for packets past the link at the cut
)

// seen holds the captures of one pass.
type seen struct {
	cell   cell
	trace  *scene.Trace
	prefix map[string]string // network to link
	mn, cn []packets.Packet
	queued []packets.Packet // those that the emulator had no room for
}

// judge fills in the outcome.
func (s *seen) judge(o *outcome) {
	o.Changes, o.HandoffsMeant, o.Drops = s.cell.plan.changes, s.cell.plan.handoffs, s.trace.Drops
	for _, d := range s.trace.Steps {
		if d.Name != "" {
			o.Marks = append(o.Marks, mark{s.trace.Rel(d.At), d.Name})
		}
	}
	out := func(p packets.Packet) bool { return s.data(p) && p.DstPort == portOut }
	in := func(p packets.Packet) bool { return s.data(p) && p.SrcPort == portIn }
	s.way(&o.Out, packets.Select(s.mn, out), packets.Select(s.cn, out), packets.Select(s.queued, out),
		func(p packets.Packet) string {
			return s.linkOf(p.SourceL64())
		})
	s.way(&o.In, packets.Select(s.cn, in), packets.Select(s.mn, in), packets.Select(s.queued, in),
		func(p packets.Packet) string { return p.Where })
	s.signalling(o)
	s.newLocators(o)
	s.removals(o)
	s.sources(o)
	s.away(o)
	own := s.fromMobile()
	for _, d := range s.trace.Steps {
		if d.Op != scene.Attach {
			continue
		}
		if i := slices.IndexFunc(own, func(p packets.Packet) bool { return p.Where == d.Link && !p.At.Before(d.At) }); i >= 0 {
			o.BringUpMs = append(o.BringUpMs, stats.Millis(own[i].At.Sub(d.At)))
		}
		if at, ok := node.Added(s.trace.Events["mn"], d.Link, d.At); ok {
			o.DaemonBringUpMs = append(o.DaemonBringUpMs, stats.Millis(at.Sub(d.At)))
		}
	}
}

// data reports whether a packet carries payload of the protocol under test.
func (s *seen) data(p packets.Packet) bool {
	want := map[bool]uint8{true: packets.TCP, false: packets.UDP}[s.cell.tcp]
	return p.Proto == want && p.Payload > 0
}

func (s *seen) linkOf(l roam.L64) string {
	return s.prefix[roam.ILV{L64: l}.Addr().String()]
}

// way counts one direction within the schedule. A packet that the emulator had no room for is
// lost, but not Roam's.
func (s *seen) way(w *way, sent, got, queued []packets.Packet, which func(packets.Packet) string) {
	from, to := s.trace.Start, s.trace.End
	// Packets sent at the very end are still in flight when the schedule ends.
	within := func(end time.Time) func(packets.Packet) bool {
		return func(p packets.Packet) bool { return !p.At.Before(from) && p.At.Before(end) }
	}
	last := to.Add(-s.cell.rtt - 500*time.Millisecond)
	count := func(got []packets.Packet) packets.Counts {
		if s.cell.tcp {
			return packets.Segments(packets.Select(sent, within(last)), got, floor)
		}
		return packets.Datagrams(packets.Select(sent, within(last)), got, numberAt)
	}
	came := packets.Select(got, within(to.Add(2*time.Second)))
	c := count(came)
	if len(queued) > 0 {
		w.ByQueues = c.Lost - count(slices.Concat(came, queued)).Lost
	}
	w.Sent, w.Got, w.Bytes, w.Lost, w.Resent, w.Doubled, w.Misorders = c.Sent, c.Got, c.Bytes, c.Lost,
		c.Resent, c.Doubled, c.Misorders
	got = packets.Select(got, within(to))
	w.Mbps = rate(got, from)
	w.LateMbps = rate(got, from.Add(min(10*time.Second, to.Sub(from)/4)))
	for _, g := range packets.Gaps(got, from, to, longGap) {
		w.LongGapsMs = append(w.LongGapsMs, stats.Millis(g.Length()))
	}
	for at := from; at.Add(window).Before(to); at = at.Add(window) {
		w.WindowsMs = append(w.WindowsMs, stats.Millis(packets.Longest(got, at, at.Add(window))))
	}
	w.Buckets = packets.Buckets(got, from, bucket, int(to.Sub(from)/bucket), which)
	for _, p := range s.cell.plan.phases {
		w.Shares = append(w.Shares, s.shares(p, got, which))
	}
}

// rate is the throughput after a time in the thesis's definition: bytes of IPv6 payload
// over the time from the first packet to the last, in Mb/s.
func rate(got []packets.Packet, from time.Time) float64 {
	got = packets.Select(got, func(p packets.Packet) bool { return !p.At.Before(from) })
	if len(got) < 2 {
		return 0
	}
	sum := 0
	for _, p := range got[1:] {
		sum += p.Length
	}
	return float64(sum) * 8e-6 / got[len(got)-1].At.Sub(got[0].At).Seconds()
}

// shares returns each link's share of a phase, in per cent, from a while after the first use of its
// newest link. If few packets come after that, or that link is never used, it is the share from that
// while after the beginning of the phase. It omits phases with few packets even then.
func (s *seen) shares(p phase, got []packets.Packet, which func(packets.Packet) string) map[string]float64 {
	from, to := s.trace.At(p.from), s.trace.At(p.to)
	got = packets.Select(got, func(g packets.Packet) bool { return !g.At.Before(from) && g.At.Before(to) })
	since := func(used time.Time) []packets.Packet {
		return packets.Select(got, func(g packets.Packet) bool { return g.At.Sub(used) > settle+s.cell.rtt })
	}
	counted := since(from)
	if i := slices.IndexFunc(got, func(g packets.Packet) bool { return which(g) == p.added }); p.added != "" && i >= 0 {
		if later := since(got[i].At); len(later) >= fewest {
			counted = later
		}
	}
	out := map[string]float64{}
	if len(counted) < fewest {
		return out
	}
	sum, total := map[string]int{}, 0
	for _, g := range counted {
		sum[which(g)] += g.Length
		total += g.Length
	}
	for _, l := range links {
		out[l] = 100 * float64(sum[l]) / float64(max(total, 1))
	}
	return out
}

// signalling lists the Locator Updates, and counts how often the preferred
// locator changed.
func (s *seen) signalling(o *outcome) {
	prefer := ""
	var changes, handoffs []time.Time
	for _, e := range packets.Exchanges(s.mn, scene.NID("mn"), scene.NID("cn1")) {
		if e.Sent.At.Before(s.trace.Start) {
			prefer = s.preferred(e.Update)
			continue // belongs to the set-up
		}
		x := exchange{
			T:        s.trace.Rel(e.Sent.At),
			Set:      s.setOf(e.Update),
			Messages: e.Messages,
			Acks:     len(e.Acks),
			Refresh:  e.Refresh,
			Repeat:   e.Repeat,
			Early:    e.Early,
		}
		if len(e.Acks) > 0 {
			x.RTTMs = stats.Millis(e.Acks[0].At.Sub(e.Sent.At))
		}
		o.Exchanges = append(o.Exchanges, x)
		if !e.Refresh {
			changes = append(changes, e.Sent.At)
		}
		if now := s.preferred(e.Update); now != prefer {
			handoffs = append(handoffs, e.Sent.At)
			prefer = now
		}
	}
	o.Handoffs = len(handoffs)
	o.ChangesOff = offScript(s.trace.Steps, changes, func(scene.Done) bool { return true })
	o.HandoffsOff = offScript(s.trace.Steps, handoffs, func(d scene.Done) bool {
		return d.Op == scene.Attach && d.From != ""
	})
}

// moves are the steps that change the set of locators.
var moves = []scene.Op{scene.Attach, scene.Detach, scene.Cut, scene.Swap, scene.Disable, scene.Enable}

// offScript returns how many of the changes at some moments are beyond or short of the script:
// one after each step of the network that wanted reports, and none after another. A change too
// many makes up for none that is missing at another step.
func offScript(steps []scene.Done, at []time.Time, wanted func(scene.Done) bool) (n int) {
	want, from := 0, time.Time{}
	until := func(to time.Time) {
		got := 0
		for _, t := range at {
			if !t.Before(from) && (to.IsZero() || t.Before(to)) {
				got++
			}
		}
		n += max(got-want, want-got)
	}
	for _, d := range steps {
		if !slices.Contains(moves, d.Op) {
			continue
		}
		until(d.At)
		want, from = 0, d.At
		if wanted(d) {
			want = 1
		}
	}
	until(time.Time{})
	return n
}

// preferred names the links with the least preference value, which the correspondent must
// use.
func (s *seen) preferred(u packets.Update) string {
	least := slices.MinFunc(u.Locators, func(a, b packets.Locator) int {
		return int(a.Preference) - int(b.Preference)
	}).Preference
	set := map[string]bool{}
	for _, l := range u.Locators {
		if l.Preference == least {
			set[s.linkOf(l.L64)] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(set)), "+")
}

func (s *seen) setOf(u packets.Update) string {
	var names []string
	for _, l := range u.Locators {
		names = append(names, fmt.Sprintf("%s (%d)", s.linkOf(l.L64), l.Preference))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// newLocators checks each first use of a link (A2, A3): the update that lists it, the first
// data from it, the acknowledgement.
func (s *seen) newLocators(o *outcome) {
	own := s.fromMobile()
	list := packets.Exchanges(s.mn, scene.NID("mn"), scene.NID("cn1"))
	for _, d := range s.trace.Steps {
		if d.Op != scene.Attach && d.Op != scene.Enable || !s.cell.arm.Traits().Updates {
			continue
		}
		i := slices.IndexFunc(list, func(e packets.Exchange) bool {
			return !e.Sent.At.Before(d.At) && s.lists(e.Update, d.Link)
		})
		if i < 0 {
			continue
		}
		o.NewLocators++
		first := time.Time{}
		for _, p := range own {
			if p.Where != d.Link || p.At.Before(d.At) {
				continue
			}
			if p.At.Before(list[i].Sent.At) {
				lead := list[i].Sent.At.Sub(p.At)
				o.BeforeLU = append(o.BeforeLU, early{T: s.trace.Rel(p.At), Link: d.Link, Ms: stats.Millis(lead), What: p.String()})
				continue
			}
			first = p.At
			break
		}
		if acks := list[i].Acks; !first.IsZero() && len(acks) > 0 && first.Before(acks[0].At) {
			o.BeforeAck++
		}
	}
}

// fromMobile returns the mobile host's TCP and UDP packets.
func (s *seen) fromMobile() []packets.Packet {
	return packets.Select(s.mn, func(p packets.Packet) bool {
		return (p.Proto == packets.TCP || p.Proto == packets.UDP) && p.SourceNID() == scene.NID("mn")
	})
}

// removals counts data that arrived on a withdrawn link after the withdrawal was
// acknowledged (A13).
func (s *seen) removals(o *outcome) {
	list := packets.Exchanges(s.mn, scene.NID("mn"), scene.NID("cn1"))
	for i, d := range s.trace.Steps {
		if d.Op != scene.Disable || !s.cell.arm.Traits().Updates {
			continue
		}
		until := s.trace.End
		for _, later := range s.trace.Steps[i+1:] {
			if later.Op == scene.Enable && later.Link == d.Link {
				until = later.At
				break
			}
		}
		// A refresh may leave between the command and the removal.
		e := slices.IndexFunc(list, func(e packets.Exchange) bool {
			return !e.Sent.At.Before(d.At) && len(e.Acks) > 0 && !s.lists(e.Update, d.Link)
		})
		if e < 0 {
			o.AfterRemoval++ // without acknowledgement it is no removal
			continue
		}
		acked := list[e].Acks[0].At
		for _, p := range s.mn {
			if s.data(p) && p.Where == d.Link && p.SourceNID() == scene.NID("cn1") && p.At.After(acked) && p.At.Before(until) {
				o.AfterRemoval++
				o.AfterRemovalMs = max(o.AfterRemovalMs, stats.Millis(p.At.Sub(acked)))
			}
		}
		o.AfterRemovalSent += s.sentAfter(d.Link, d.At, until)
	}
}

// lists reports whether an update has a locator on a link.
func (s *seen) lists(u packets.Update, link string) bool {
	return slices.ContainsFunc(u.Locators, func(l packets.Locator) bool { return s.linkOf(l.L64) == link })
}

// sentAfter counts data that the correspondent sent to a withdrawn link after its
// acknowledgement of that left.
func (s *seen) sentAfter(link string, from, until time.Time) (n int) {
	acked := false
	for _, p := range s.cn {
		if p.SourceNID() != scene.NID("cn1") || p.At.Before(from) || !p.At.Before(until) {
			continue
		}
		if u, ok := p.Update(); ok && u.Ack && !s.lists(u, link) {
			acked = true
		}
		if acked && s.data(p) && s.linkOf(p.DestL64()) == link {
			n++
		}
	}
	return n
}

// sources counts packets that left by a link with another network's source (A17).
func (s *seen) sources(o *outcome) {
	for _, p := range s.mn {
		if p.SourceNID() == scene.NID("mn") && p.Src.IsGlobalUnicast() && s.linkOf(p.SourceL64()) != p.Where {
			o.WrongSource++
		}
	}
}

// away counts the arrivals, without Roam, from the cut of the first network until it was
// attached again.
func (s *seen) away(o *outcome) {
	var from, to time.Time
	for _, d := range s.trace.Steps {
		switch {
		case d.Op == scene.Detach && d.Link == links[0]:
			from = d.At.Add(awayGrace)
		case d.Op == scene.Attach && d.Link == links[0] && !from.IsZero() && to.IsZero():
			to = d.At
		}
	}
	if from.IsZero() {
		return
	}
	if to.IsZero() {
		to = s.trace.End
	}
	o.AwayS = to.Sub(from).Seconds()
	for _, p := range append(slices.Clone(s.cn), s.mn...) {
		received := p.DstPort == portOut && p.Where == "eth0" || p.SrcPort == portIn && p.Where != "eth0"
		if s.data(p) && received && p.At.After(from) && p.At.Before(to) {
			o.Away += p.Payload
		}
	}
}
