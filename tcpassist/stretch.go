package tcpassist

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Whoever gives connections another round trip by intent can have their windows follow it: TCP would take seconds to
// grow one, or overflow a queue by the one that it has. A window that is multiplied by the round trip sends no more a
// second than before. As the acknowledgements that let a sender go on stop while the round trip grows, the connection
// is paced then, by less than what it has sent where it has a queue, which is to be gone.
const (
	paceMark  = 0xa17       // the low bits of a limit that is ours: an application's hardly has them
	paceBits  = 0xfff       // these
	paceSure  = 0.95        // of what a connection seems to send: it is to build no queue
	paceSlow  = 0.5         // and with a queue not less than this part of it
	paceLeast = 64 << 10    // bytes a second
	paceMost  = 1 << 30     // and at most: no limit but for its mark
	never     = 1 << 30     // a window is never so large
	most      = 1 << 20     // segments of a window
	longest   = time.Minute // a round trip may be

	peerTakes = 0.75 // the part of a window that its peer takes at least
	clampPart = 0.92 // of what a path carries: data, without headers, and no queue
	pacePart  = 0.95 // of that, at any moment: bursts overflow a short queue
)

// Phase is how far a change of the round trip is.
type Phase uint8

// The phases.
const (
	StretchBegins Phase = iota // the round trip is about to get longer
	StretchLasts               // it is longer now, and windows may grow up to Rate
	StretchEnds                // it gets shorter again about now
)

// Stretch says that the round trip of connections changes.
type Stretch[K comparable] struct {
	Key     K
	Phase   Phase
	Buckets uint64        // which connections of the session: bit Listed.Bucket
	Most    int           // if there are more of them, none is changed
	RTT     time.Duration // their round trip before, without queues
	Gap     time.Duration // by how much it is longer then
	Gain    float64       // what they may send a second then, over what they send
	Rate    float64       // and how many bytes all paths carry then: no window is to make a queue
	Paced   bool          // nor any burst, while it lasts
}

// Window is a congestion window that a connection shall have.
type Window struct {
	Local, Remote netip.AddrPort
	Segments      int  // the window
	Least         int  // it is set only if the connection has this window or a larger one, and repairs no loss
	Most          int  // the largest that its congestion control may make of it; 0: without limit, also if it is not set
	Pace          int  // bytes a second at most, if the window is set; 0: without limit, set or not; or KeepPace
	PaceAnyway    bool // Pace is set though the window is not
}

// KeepPace leaves the limit of a connection as it is.
const KeepPace = -1

func (w Window) ends() ends { return ends{w.Local, w.Remote} }

// SetWindows asks for congestion windows. HandleWindows is to be told which were set.
type SetWindows struct{ All []Window }

// Stretched says which connections have the window of a Stretch that begins, each by its local and its remote end.
type Stretched[K comparable] struct {
	Key         K
	Connections [][2]netip.AddrPort
}

func (SetWindows) output()   {}
func (Stretched[K]) output() {}

// windows is what is remembered of those that were asked for.
type windows[K comparable] struct {
	asked   bool
	waiting []Stretched[K] // to be told once they are set
	held    map[K]bool     // sessions with connections that have our mark
	rescue  bool           // connections have it whose session has ended
	bound   map[ends]bool  // connections whose windows are bounded
}

// HandleStretch takes that connections get another round trip.
func (m *Machine[K]) HandleStretch(_ time.Time, s Stretch[K]) {
	next := &m.next.stretches
	begins := func(o Stretch[K]) bool { return o.Key == s.Key && o.Phase == StretchBegins }
	if s.Phase == StretchEnds && slices.ContainsFunc(*next, begins) { // nothing has been done yet
		*next = slices.DeleteFunc(*next, func(o Stretch[K]) bool { return o.Key == s.Key })
		return
	}
	*next = append(*next, s)
}

// HandleWindows takes which windows were set of those that were asked for, or why that was not possible. Then nobody
// knows which are set: the next list shows those that have our mark.
func (m *Machine[K]) HandleWindows(_ time.Time, done []Window, err error) {
	if err != nil {
		clear(m.windows.held)
	}
	set := make(map[ends]bool)
	for _, w := range done {
		set[w.ends()] = true
		if w.Most > 0 {
			m.windows.bound[w.ends()] = true
		}
	}
	for _, s := range m.windows.waiting {
		s.Connections = slices.DeleteFunc(s.Connections, func(c [2]netip.AddrPort) bool { return !set[ends{c[0], c[1]}] })
		m.out = append(m.out, s)
	}
	m.windows.asked, m.windows.waiting = false, nil
}

// stretch asks for windows of connections by a list of them.
func (m *Machine[K]) stretch(stretches []Stretch[K], all []Listed[K]) {
	if m.windows.asked {
		return // it is no list that stretches wait for
	}
	var ask []Window
	for _, s := range stretches {
		told := Stretched[K]{Key: s.Key}
		windows := s.windows(all)
		for _, w := range windows {
			told.Connections = append(told.Connections, [2]netip.AddrPort{w.Local, w.Remote})
		}
		ask = append(ask, windows...)
		if delete(m.windows.held, s.Key); s.Phase != StretchEnds && len(windows) > 0 {
			m.windows.held[s.Key] = true
		}
		if s.Phase == StretchBegins {
			m.windows.waiting = append(m.windows.waiting, told)
		}
	}
	ask = append(ask, m.freed(ask, all)...)
	for _, w := range ask {
		if w.Most == 0 {
			delete(m.windows.bound, w.ends())
		}
	}
	if len(ask) == 0 {
		m.HandleWindows(time.Time{}, nil, nil)
		return
	}
	m.windows.asked = true
	m.out = append(m.out, SetWindows{ask})
}

// freed returns the windows of connections that are not to be bounded any more: a machine before this one has marked
// them, or their application paces them itself by now.
func (m *Machine[K]) freed(ask []Window, all []Listed[K]) (freed []Window) {
	there := make(map[ends]bool)
	for _, c := range all {
		w := Window{Local: c.Local, Remote: c.Remote, Segments: c.Window, Least: never}
		there[w.ends()] = true
		switch isAsked := slices.ContainsFunc(ask, func(o Window) bool { return o.ends() == w.ends() }); {
		case isAsked:
		case c.isHeld() && !m.windows.held[c.Key]:
			freed = append(freed, w)
		case !c.isHeld() && m.windows.bound[w.ends()]:
			w.Pace = KeepPace
			freed = append(freed, w)
		}
	}
	maps.DeleteFunc(m.windows.bound, func(e ends, _ bool) bool { return len(all) > 0 && !there[e] })
	return freed
}

// windows returns those of the connections that it is about.
func (s Stretch[K]) windows(all []Listed[K]) (windows []Window) {
	var of []Connection
	sum := 0
	for _, c := range all {
		isOf := c.Key == s.Key && s.Buckets>>(c.Bucket&63)&1 != 0 && c.follows()
		if isOf && (s.Phase == StretchBegins || c.isHeld()) {
			of = append(of, c.Connection)
			sum += c.Window
		}
	}
	if s.Phase == StretchBegins && len(of) > s.Most {
		return nil
	}
	for _, c := range of {
		part := max(float64(c.Window)/float64(sum), 1/float64(len(of)))
		if w, ok := s.windowOf(c, part); ok {
			windows = append(windows, w)
		}
	}
	return windows
}

// isHeld reports whether a connection has our mark.
func (c Connection) isHeld() bool { return c.Pace != 0 && c.Pace&paceBits == paceMark }

// follows reports whether the window of a connection can be changed: its congestion control has one that lasts, and its
// application has it not paced.
func (c Connection) follows() bool {
	known := c.Open && c.Window > 0 && c.MSS > 0 && c.SRTT > 0 && c.SRTT < longest
	return known && (c.Control == "cubic" || c.Control == "reno") && (c.Pace == 0 || c.isHeld())
}

// windowOf returns the window of a connection that has this part of what all paths carry; false: its peer would not
// take as much.
func (s Stretch[K]) windowOf(c Connection, part float64) (w Window, ok bool) {
	trip := s.RTT + s.Gap
	w = Window{Local: c.Local, Remote: c.Remote, Segments: c.Window, Least: c.Window - c.Window/8, Pace: marked(paceMost)}
	if s.Rate > 0 {
		largest := clampPart * part * s.Rate * trip.Seconds()
		w.Most = max(int(min(largest/float64(c.MSS), most)), 2)
	}
	switch s.Phase {
	case StretchBegins:
		w.Segments = c.times(trip.Seconds() / c.SRTT.Seconds())
		queue, lasts := c.SRTT-s.RTT, 2*s.RTT+3*s.Gap // a round trip of the long path, and one of the connection then
		sends := float64(c.Window*c.MSS) / c.SRTT.Seconds()
		w.Pace = marked(sends * paceSure * min(max(1-queue.Seconds()/lasts.Seconds(), paceSlow), 1))
	case StretchLasts:
		if w.PaceAnyway = true; s.Paced {
			w.Pace = marked(pacePart * part * s.Rate)
		}
	case StretchEnds:
		from, to := c.SRTT, c.SRTT-s.Gap
		if c.SRTT < s.RTT+3*s.Gap/4 { // it is shorter already
			from, to = c.SRTT+s.Gap, c.SRTT
		}
		w.Segments = c.times(to.Seconds() / from.Seconds() / s.Gain)
		w.Pace, w.Most = 0, 0
	}
	if w.Most > 0 {
		w.Segments = min(w.Segments, w.Most)
	}
	if s.Phase == StretchBegins { // a peer's window grows with what it gets in a round trip
		takes := c.PeerWindow / c.MSS
		ok = float64(takes) >= peerTakes*float64(w.Segments)
		w.Segments = min(w.Segments, takes)
		return w, ok
	}
	return w, true
}

// times returns so many windows of a connection.
func (c Connection) times(x float64) int { return int(max(min(float64(c.Window)*x, most), 2)) }

// marked returns a limit with our mark.
func marked(pace float64) int { return int(max(min(pace, paceMost), paceLeast))&^paceBits | paceMark }
