package tcpassist

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// filling is a connection of bucket 3 with a window of 100 segments, that takes 20 ms: it sends 7 MB/s.
func filling(key string, port uint16) Listed[string] {
	c := tcp(key, port)
	c.Bucket, c.Window, c.SRTT, c.MSS, c.PeerWindow, c.Control = 3, 100, 20*time.Millisecond, 1400, 1<<20, "cubic"
	return c
}

// grows is what its round trip is about to do. All paths carry 10 MB/s then.
var grows = Stretch[string]{
	Key: "a", Buckets: 1 << 3, RTT: 20 * time.Millisecond, Gap: 60 * time.Millisecond, Gain: 1.25, Rate: 10e6, Most: 8,
}

// stretch returns what comes of it, as ports and windows; of those that are asked for all are set.
func (b *bench) stretch(s Stretch[string]) (asked string, told []Stretched[string]) {
	b.HandleStretch(b.now, s)
	for o, ok := b.Poll(); ok; o, ok = b.Poll() {
		switch o := o.(type) {
		case ListConnections:
			b.HandleConnections(b.now, b.list, nil)
		case SetWindows:
			for _, w := range o.All {
				anyway := map[bool]string{true: " anyway"}[w.PaceAnyway]
				asked += fmt.Sprintf("%d: %d of %d, %d, %d%s; ", w.Remote.Port(), w.Segments, w.Least, w.Most, w.Pace, anyway)
			}
			b.HandleWindows(b.now, o.All, nil)
		case Stretched[string]:
			told = append(told, o)
		}
	}
	return asked, told
}

// A window grows with the round trip, and its connection is paced by what it sends, less what it has of a queue. Then
// it may grow up to what all paths carry in a round trip. It shrinks by what it has grown, whether its round trip is
// already shorter or not.
func TestStretch(t *testing.T) {
	type change = func(*Listed[string])
	takes := func(ms time.Duration) change {
		return func(c *Listed[string]) { c.SRTT = ms * time.Millisecond }
	}
	as := func(control string) change { return func(c *Listed[string]) { c.Control = control } }
	none := func(*Listed[string]) {}
	large := fmt.Sprintf("9: 525 of 525, 525, %d anyway; ", marked(paceMost))
	lasts, shrinks := grows, grows
	lasts.Phase, shrinks.Phase = StretchLasts, StretchEnds
	paced := lasts
	paced.Paced = true
	more := shrinks
	shrinks.Gain = 1
	// 10 MB/s, less headers, in 80 ms are 525 segments.
	grown := func(segments, pace int) string {
		return fmt.Sprintf("9: %d of 88, 525, %d; ", segments, pace&^paceBits|paceMark)
	}
	lasting := func(pace int) string { return strings.Replace(grown(100, pace), ";", " anyway;", 1) }
	for name, c := range map[string]struct {
		change change
		s      Stretch[string]
		want   string
	}{
		"it grows":                   {none, grows, grown(400, 6650000)},
		"with reno":                  {as("reno"), grows, grown(400, 6650000)},
		"with a queue":               {takes(40), grows, grown(200, 3325000*200/220)},
		"with a huge one":            {takes(400), grows, grown(20, 332500/2)},
		"for more than there is":     {takes(10), grows, grown(525, 13300000)},
		"its peer takes less":        {func(c *Listed[string]) { c.PeerWindow = 300 * 1400 }, grows, grown(300, 6650000)},
		"its peer takes too little":  {func(c *Listed[string]) { c.PeerWindow = 299 * 1400 }, grows, ""},
		"it lasts":                   {takes(80), lasts, lasting(paceMost)},
		"paced":                      {takes(80), paced, lasting(9500000)},
		"with more than there is":    {func(c *Listed[string]) { c.Window = 600 }, lasts, large},
		"it shrinks":                 {takes(80), shrinks, "9: 25 of 88, 0, 0; "},
		"its round trip has shrunk":  {none, shrinks, "9: 25 of 88, 0, 0; "},
		"it has shrunk with a queue": {takes(40), shrinks, "9: 40 of 88, 0, 0; "},
		"it shrinks with a queue":    {takes(120), shrinks, "9: 50 of 88, 0, 0; "},
		"it shrinks, and had more":   {takes(80), more, "9: 20 of 88, 0, 0; "},
		"a tiny one":                 {func(c *Listed[string]) { c.Window = 1 }, shrinks, "9: 2 of 1, 0, 0; "},
		"another session":            {func(c *Listed[string]) { c.Key = "b" }, grows, ""},
		"another bucket":             {func(c *Listed[string]) { c.Bucket = 4 }, grows, ""},
		"BBR has no use for it":      {as("bbr"), grows, ""},
		"paced by its application":   {func(c *Listed[string]) { c.Pace = 1e6 }, grows, ""},
		"it had not grown":           {func(c *Listed[string]) { c.Pace = 0 }, shrinks, ""},
		"it is closed":               {func(c *Listed[string]) { c.Open = false }, grows, ""},
		"without a round trip":       {takes(0), grows, ""},
		"with an odd one":            {takes(3600000), grows, ""},
		"without a window":           {func(c *Listed[string]) { c.Window = 0 }, grows, ""},
	} {
		l := filling("a", 9)
		if c.s.Phase != StretchBegins {
			l.Pace = paceMark
		}
		c.change(&l)
		b := newBench(t, l)
		got, told := b.stretch(c.s)
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		want := "[]"
		if c.s.Phase == StretchBegins {
			if want = "[{a []}]"; c.want != "" {
				want = fmt.Sprintf("[{a [[%v %v]]}]", l.Local, l.Remote)
			}
		}
		if fmt.Sprint(told) != want {
			t.Errorf("%s: told %v, want %s", name, told, want)
		}
	}
}

// Two connections divide what all paths carry as they do now, but none gets less than its part.
func TestStretchOfTwo(t *testing.T) {
	a, c := filling("a", 9), filling("a", 10)
	c.Window, c.SRTT = 300, 60*time.Millisecond
	a.Pace, c.Pace = paceMark, paceMark
	s := grows
	s.Phase = StretchLasts
	want := fmt.Sprintf("9: 100 of 88, 262, %d anyway; 10: 300 of 263, 394, %[1]d anyway; ", marked(paceMost))
	if got, _ := newBench(t, a, c).stretch(s); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Of more connections than there may be none is changed, and those are told whose window was set.
func TestStretchOfSeveral(t *testing.T) {
	b := newBench(t, filling("a", 9), filling("a", 10), filling("a", 11))
	s := grows
	s.Most = 2
	if asked, told := b.stretch(s); asked != "" || len(told) != 1 || len(told[0].Connections) != 0 {
		t.Errorf("of too many: %q, %v", asked, told)
	}
	b.HandleStretch(b.now, grows)
	b.Poll()
	b.HandleConnections(b.now, b.list, nil)
	o, _ := b.Poll()
	w, _ := o.(SetWindows)
	if len(w.All) != 3 {
		t.Fatalf("asked for %v", o)
	}
	b.HandleStretch(b.now, grows)
	b.HandleConnections(b.now, b.list, nil) // one that nobody has asked for
	if o, ok := b.Poll(); ok {
		t.Errorf("while windows are being set: %v", o)
	}
	b.HandleWindows(b.now, w.All[1:2], nil)
	o, _ = b.Poll()
	if told, _ := o.(Stretched[string]); len(told.Connections) != 1 || told.Connections[0][1].Port() != 10 {
		t.Errorf("told %v", o)
	}
	if _, is := next(b).(ListConnections); !is {
		t.Error("no list for the next one")
	}
}

func next(b *bench) Output {
	o, _ := b.Poll()
	return o
}

// A list that there is not, and a session that has ended.
func TestStretchInVain(t *testing.T) {
	b := newBench(t, filling("a", 9))
	b.HandleStretch(b.now, grows)
	b.Poll()
	b.HandleConnections(b.now, nil, errors.New("none"))
	if told, is := next(b).(Stretched[string]); !is || len(told.Connections) != 0 {
		t.Errorf("without a list: %v", told)
	}
	b.HandleStretch(b.now, grows)
	if b.HandleEnd("a"); next(b) != nil {
		t.Error("something is done for a session that has ended")
	}
}

// Connections that a machine before this one has left paced are so no more, by the first list; those that this one
// paces, or the application, stay so.
func TestPacedByAPredecessor(t *testing.T) {
	left, own, ours := filling("b", 9), filling("c", 10), filling("a", 11)
	left.Pace, own.Pace, ours.Pace = 4096|paceMark, 4096, 8192|paceMark
	b := newBench(t, left, own, ours)
	b.HandleStretch(b.now, grows)
	asked := ""
	for o, ok := b.Poll(); ok; o, ok = b.Poll() {
		switch o := o.(type) {
		case ListConnections:
			b.HandleConnections(b.now, b.list, nil)
		case SetWindows:
			for _, w := range o.All {
				asked += fmt.Sprintf("%d %t; ", w.Remote.Port(), w.Pace == 0 && w.Least > 1e9)
			}
			b.HandleWindows(b.now, nil, nil)
		}
	}
	if asked != "11 false; 9 true; " {
		t.Errorf("asked: %s", asked)
	}
	b.HandleConnections(b.now, b.list, nil) // as at the beginning of a machine
	if o, is := next(b).(SetWindows); !is || len(o.All) != 1 || o.All[0].Remote != netip.AddrPort(left.Remote) {
		t.Errorf("asked: %v", o)
	}
}

// What has been asked for last counts where nothing has been done yet, and a session that ends leaves nothing paced.
func TestStretchThatEndsSoon(t *testing.T) {
	b := newBench(t, filling("a", 9))
	ends := grows
	ends.Phase = StretchEnds
	b.HandleStretch(b.now, grows)
	if b.HandleStretch(b.now, ends); next(b) != nil {
		t.Error("something is done for what has ended before it began")
	}
	b.stretch(grows)
	b.list[0].Pace = paceMark
	b.HandleEnd("a")
	if _, is := next(b).(ListConnections); !is {
		t.Fatal("no list for the connections of a session that has ended")
	}
	b.HandleConnections(b.now, b.list, nil)
	if o, is := next(b).(SetWindows); !is || o.All[0].Pace != 0 || o.All[0].Most != 0 {
		t.Errorf("asked: %v", o)
	}
	b.HandleWindows(b.now, nil, errors.New("no"))
	if o := next(b); o != nil {
		t.Errorf("again and again: %v", o)
	}
}

// An application that paces its connection itself has it without a bound from then on, and with its own limit.
func TestStretchOfOneThatIsPaced(t *testing.T) {
	b := newBench(t, filling("a", 9))
	b.stretch(grows)
	b.list[0].Pace = 1e6
	lasts, shrinks := grows, grows
	lasts.Phase, shrinks.Phase = StretchLasts, StretchEnds
	want := fmt.Sprintf("9: 100 of %d, 0, %d; ", never, KeepPace)
	if got, _ := b.stretch(lasts); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, _ := b.stretch(shrinks); got != "" {
		t.Errorf("in the end %q", got)
	}
	c := newBench(t, filling("a", 9))
	c.stretch(grows)
	c.list = nil
	c.stretch(lasts)
	c.list = []Listed[string]{filling("a", 10)}
	c.stretch(shrinks)
	if n := len(c.windows.bound); n != 0 {
		t.Errorf("%d connections that are gone are remembered", n)
	}
}
