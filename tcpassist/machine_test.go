package tcpassist

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
	"time"

	"roam"
	"roam/wire/ip6"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// bench is a machine on a bench, with the connections of a host whose sessions are
// named by strings.
type bench struct {
	*Machine[string]
	t        *testing.T
	now      time.Time
	list     []Listed[string]
	lists    int // that were asked for
	resyncs  []Resync[string]
	ours     [][]byte // to our own stack
	resynced []Resynced[string]
}

func newBench(t *testing.T, list ...Listed[string]) *bench {
	return &bench{Machine: New[string](), t: t, now: epoch, list: list}
}

// tcp is a connection of a session, open and at rest.
func tcp(key string, port uint16) Listed[string] {
	return Listed[string]{Key: key, Resyncs: true, Connection: Connection{
		Local: netip.AddrPortFrom(netip.MustParseAddr("fd69::1"), 22), Remote: netip.AddrPortFrom(netip.MustParseAddr("fd69::2"), port),
		Open: true, Next: 1000, Unacked: 1000, Wanted: 77, Arrived: 5,
	}}
}

// drain carries out what the machine wants; it gets its lists at once.
func (b *bench) drain() {
	for o, ok := b.Poll(); ok; o, ok = b.Poll() {
		switch o := o.(type) {
		case ListConnections:
			b.lists++
			b.HandleConnections(b.now, b.list, nil)
		case Inject:
			b.ours = append(b.ours, o.Packet)
		case Resync[string]:
			b.resyncs = append(b.resyncs, o)
		case Resynced[string]:
			b.resynced = append(b.resynced, o)
		}
	}
}

func (b *bench) change(key string, why roam.PathChange) {
	b.HandlePaths(b.now, Change[string]{Key: key, Why: why, Resync: true})
	b.drain()
}

// pass lets time pass, with every timer at its time; between calls it before each.
func (b *bench) pass(d time.Duration, between func()) {
	end := b.now.Add(d)
	for at, ok := b.PollTimeout(); ok && !at.After(end); at, ok = b.PollTimeout() {
		if at.Before(b.now) {
			b.t.Fatalf("the time %v is over", at)
		}
		b.now = at
		between()
		b.HandleTimeout(b.now)
		b.drain()
	}
	b.now = end
}

// told counts the packets to our own stack: errors, and segments.
func (b *bench) told() (unreachable, segments int) {
	for _, p := range b.ours {
		c, err := ip6.Walk(p)
		if err != nil || ip6.Checksum(c.Header.Src, c.Header.Dst, c.Upper, p[c.UpperOffset:c.End]) != 0 {
			b.t.Fatalf("packet to our stack: %+v, %v", c, err)
		}
		switch c.Upper {
		case ip6.ICMPv6:
			unreachable++
		case ip6.TCP:
			segments++
		}
	}
	b.ours = nil
	return unreachable, segments
}

// TestWake: connections of a session that returns are told, each as often as it has
// doubled its time-out, and their peers what has arrived; those of other sessions are
// not. Nor is anybody told of a change that helps nobody.
func TestWake(t *testing.T) {
	stalled := tcp("a", 4001)
	stalled.Backoff = 3
	once, beginning, other := tcp("a", 4002), tcp("a", 4003), tcp("b", 4004)
	once.Backoff, beginning.Backoff, other.Backoff = 1, 1, 5
	beginning.Open = false
	rested := tcp("a", 4005)
	rested.Rest = time.Minute
	for name, c := range map[string]struct {
		why         roam.PathChange
		told, acked int
	}{
		"moved":                   {roam.PathsAdded | roam.PathsLost, 5, 0},
		"a path gone":             {roam.PathsLost, 5, 0},
		"another one first":       {roam.PathsReordered, 5, 0},
		"gathered":                {roam.FlowsGathered, 5, 0},
		"returned":                {roam.PathsReturned, 5, 3},
		"returned elsewhere":      {roam.PathsReturned | roam.PathsAdded, 5, 3},
		"moved off a dead path":   {roam.PathsAdded | roam.PathsLost | roam.PathsDied, 5, 2},
		"a path of a rule died":   {roam.PathsDied, 5, 2},
		"died and returned":       {roam.PathsDied | roam.PathsReturned, 5, 3},
		"the last one died":       {roam.PathsDied | roam.PathsDown, 0, 0},
		"no network":              {roam.PathsLost | roam.PathsDown, 0, 0},
		"found dead":              {roam.PathsDown, 0, 0},
		"a dead one's locators":   {roam.PathsAdded | roam.PathsDown, 0, 0},
		"connections elsewhere":   {roam.FlowsRehashed, 0, 0},
		"nothing that we know of": {0, 0, 0},
	} {
		b := newBench(t, stalled, once, beginning, other, rested)
		b.change("a", c.why)
		for _, p := range b.ours {
			if p[6] != ip6.ICMPv6 {
				continue
			}
			if port := binary.BigEndian.Uint16(p[2*ip6.HeaderLen+8+2:]); port == 4004 || port == 4005 {
				t.Errorf("%s: told the connection to port %d", name, port)
			}
		}
		if told, acked := b.told(); told != c.told || acked != c.acked {
			t.Errorf("%s: told %d times, acknowledged %d, want %d, %d", name, told, acked, c.told, c.acked)
		}
		lists := b.lists
		if b.drain(); b.lists != lists || len(b.ours) > 0 {
			t.Errorf("%s: once is not enough", name)
		}
	}
}

// TestWakeWaitsForValidation: connections are told nothing while their segments would be
// dropped, and everything once these may leave: that there was an outage, too.
func TestWakeWaitsForValidation(t *testing.T) {
	stalled := tcp("a", 4001)
	stalled.Backoff = 3
	const held, returned = roam.PathsAdded | roam.PathsUnvalidated, roam.PathsReturned | roam.PathsUnvalidated
	for name, c := range map[string]struct {
		changes     []roam.PathChange
		told, acked int
	}{
		"moved":          {[]roam.PathChange{held, roam.PathsValidated}, 3, 0},
		"returned":       {[]roam.PathChange{returned, roam.PathsValidated}, 3, 1},
		"and moved":      {[]roam.PathChange{returned, held, roam.PathsValidated}, 3, 1},
		"and moved back": {[]roam.PathChange{returned, roam.PathsAdded}, 3, 1},
		"died":           {[]roam.PathChange{held | roam.PathsDied, roam.PathsValidated}, 3, 1},
		"gone again":     {[]roam.PathChange{returned, roam.PathsDown}, 0, 0},
		"never held":     {[]roam.PathChange{roam.PathsValidated}, 0, 0},
	} {
		b := newBench(t, stalled)
		for i, why := range c.changes {
			if n := len(b.ours); n > 0 {
				t.Errorf("%s: told %d times before change %d", name, n, i)
			}
			b.change("a", why)
		}
		if told, acked := b.told(); told != c.told || acked != c.acked {
			t.Errorf("%s: told %d times, acknowledged %d, want %d, %d", name, told, acked, c.told, c.acked)
		}
		if b.change("a", roam.PathsValidated); len(b.ours) > 0 && name != "gone again" {
			t.Errorf("%s: once is not enough", name)
		}
	}
	b := newBench(t, stalled)
	b.HandlePaths(b.now, Change[string]{Key: "a", Why: roam.PathsReturned})
	b.Poll() // a list is on its way
	b.HandlePaths(b.now, Change[string]{Key: "a", Why: roam.PathsUnvalidated})
	if b.HandleConnections(b.now, b.list, nil); len(b.out) > 0 {
		t.Errorf("told %d times, by a list from before", len(b.out))
	}
	b.change("a", roam.PathsValidated)
	if told, acked := b.told(); told != 3 || acked != 1 {
		t.Errorf("a list from before: told %d times, acknowledged %d", told, acked)
	}
	b.change("a", roam.PathsAdded|roam.PathsUnvalidated)
	b.HandleEnd("a")
	if b.change("a", roam.PathsValidated); len(b.ours) > 0 {
		t.Error("a session that has ended is woken")
	}
}

// TestOneListForAll: what has come in by the time of a list shares it, and an outage of
// a session is remembered over a move that follows it.
func TestOneListForAll(t *testing.T) {
	a, c := tcp("a", 1), tcp("b", 2)
	a.Backoff, c.Backoff = 1, 1
	b := newBench(t, a, c)
	b.HandlePaths(b.now, Change[string]{Key: "a", Why: roam.PathsReturned})
	b.HandlePaths(b.now, Change[string]{Key: "a", Why: roam.PathsAdded})
	b.HandlePaths(b.now, Change[string]{Key: "b", Why: roam.PathsAdded})
	b.drain()
	if told, acked := b.told(); b.lists != 1 || told != 2 || acked != 1 {
		t.Errorf("%d lists, told %d times, acknowledged %d", b.lists, told, acked)
	}
}

// TestUnreachable: what TCP looks for in an error is where it looks.
func TestUnreachable(t *testing.T) {
	c := tcp("a", 4000).Connection
	c.Unacked = 0xfeed_beef
	p, err := unreachable(c)
	if err != nil {
		t.Fatal(err)
	}
	outer, err := ip6.Walk(p)
	if err != nil || outer.Header.Src != c.Remote.Addr() || outer.Header.Dst != c.Local.Addr() || p[ip6.HeaderLen] != 1 || p[ip6.HeaderLen+1] != 0 {
		t.Errorf("%+v, %v", outer, err)
	}
	q := p[ip6.HeaderLen+8:]
	inner, err := ip6.Walk(q)
	if err != nil || inner.Upper != ip6.TCP || inner.Header.Src != c.Local.Addr() || inner.Header.Dst != c.Remote.Addr() {
		t.Fatalf("quoted %+v, %v", inner, err)
	}
	segment := q[ip6.HeaderLen:]
	if binary.BigEndian.Uint16(segment) != 22 || binary.BigEndian.Uint16(segment[2:]) != 4000 || binary.BigEndian.Uint32(segment[4:]) != c.Unacked {
		t.Errorf("segment % x", segment)
	}
}

// TestSlowList: while a list is on its way no other one is asked for, and no timer runs;
// what comes in meanwhile is for the next one. A session that ends is not woken.
func TestSlowList(t *testing.T) {
	a, c := tcp("a", 1), tcp("b", 2)
	a.Backoff, c.Backoff = 1, 1
	b := newBench(t, a, c)
	ask := func(want bool) {
		t.Helper()
		o, ok := b.Poll()
		if _, is := o.(ListConnections); ok && !is {
			t.Fatalf("output %+v", o)
		}
		if ok != want {
			t.Fatalf("asks for a list: %t", ok)
		}
	}
	b.HandlePaths(b.now, Change[string]{Key: "a", Why: roam.PathsAdded, Resync: true})
	ask(true)
	if _, ok := b.PollTimeout(); ok {
		t.Error("a timer runs")
	}
	b.HandlePaths(b.now, Change[string]{Key: "b", Why: roam.PathsAdded})
	b.HandleTimeout(b.now.Add(time.Hour))
	ask(false)
	b.HandleConnections(b.now, b.list, nil)
	if o, _ := b.Poll(); o.(Inject).Packet == nil {
		t.Error("the first one is not woken")
	}
	ask(true)
	b.HandleEnd("b")
	b.HandleConnections(b.now, b.list, nil)
	ask(false)
	if at, ok := b.PollTimeout(); !ok || !at.Equal(b.now.Add(compareFirst)) {
		t.Errorf("next time %v, %t", at, ok)
	}
	b.HandleTimeout(b.now.Add(time.Hour))
	ask(true)
	b.HandlePaths(b.now, Change[string]{Key: "a", Why: roam.FlowsRehashed, Resync: true})
	b.HandleConnections(b.now, b.list, nil)
	ask(false) // that one has shown what there is to compare with
	b.HandleEnd("a")
	if _, ok := b.PollTimeout(); ok {
		t.Error("a timer runs for a session that has ended")
	}
}

// TestNoList: without a list nothing is done, and nothing hangs.
func TestNoList(t *testing.T) {
	b := newBench(t, tcp("a", 1))
	b.HandlePaths(b.now, Change[string]{Key: "a", Why: roam.PathsAdded | roam.PathsReturned, Resync: true})
	if _, ok := b.Poll(); !ok {
		t.Fatal("no list asked for")
	}
	b.HandleConnections(b.now, nil, errors.New("no memory"))
	if o, ok := b.Poll(); ok {
		t.Errorf("output %+v", o)
	}
	if _, ok := b.PollTimeout(); ok {
		t.Error("a timer runs")
	}
	b.change("a", roam.PathsReturned)
	if _, acked := b.told(); acked != 1 {
		t.Errorf("%d acknowledged the next time", acked)
	}
}

// TestOtherAddresses: a connection that is none of IPv6 is left alone.
func TestOtherAddresses(t *testing.T) {
	c := tcp("a", 1)
	c.Local, c.Remote, c.Backoff = netip.MustParseAddrPort("192.0.2.1:1"), netip.MustParseAddrPort("192.0.2.2:2"), 3
	b := newBench(t, c)
	if b.change("a", roam.PathsReturned); len(b.ours) != 0 {
		t.Errorf("%d packets to our stack", len(b.ours))
	}
}
