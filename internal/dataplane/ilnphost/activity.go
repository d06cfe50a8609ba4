package ilnphost

import (
	"fmt"
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/dataplane"
)

// Traffic is what passed in one session since it began.
type Traffic struct {
	TxPackets, TxBytes, RxPackets, RxBytes uint64
	// Path is the one that most of the latest bytes took; zero: none that the
	// entry still has.
	Path ilnp.Path
}

// sentOn is how far the path counters of a session had come when they were
// last read.
type sentOn struct {
	birth, seq uint32 // of the counters; others count from zero
	bytes      [ilnp.MaxPaths]uint32
	latest     int       // index of the path in use, -1: none
	path       ilnp.Path // the last one that was in use
}

// advance takes a reading: the path whose counter grew the most since the last
// one is in use. The counters wrap, a difference does not.
func (s sentOn) advance(l bpfSessionDetails) sentOn {
	if s.birth != l.Birth || s.seq != l.Seq {
		s = sentOn{birth: l.Birth, seq: l.Seq, latest: -1, path: s.path}
	}
	most := uint32(0)
	for i, n := range l.Turns.Bytes {
		if d := n - s.bytes[i]; d > most {
			most, s.latest = d, i
		}
	}
	s.bytes = l.Turns.Bytes
	return s
}

// counted is how much traffic a session had when it was last looked at.
type counted struct {
	birth                                  uint32
	txPackets, txBytes, rxPackets, rxBytes uint64
}

// atLeast takes a reading. What a program moves at this moment is missing there, and the
// counters of a session never go down.
func (c counted) atLeast(l seen) counted {
	if c.birth != l.Birth {
		c = counted{birth: l.Birth}
	}
	c.txPackets, c.txBytes = max(c.txPackets, l.TxPackets), max(c.txBytes, l.TxBytes)
	c.rxPackets, c.rxBytes = max(c.rxPackets, l.RxPackets), max(c.rxBytes, l.RxBytes)
	return c
}

// Activity reads what was seen of the sessions that have had packets since it was called last, and
// of others by their keys.
func (p *Plane) Activity(others []ilnp.SessionKey) ([]ilnp.Activity, error) {
	if err := p.ticks.check(time.Now()); err != nil {
		return nil, err
	}
	slots := p.changed.take(p.lines)
	for _, k := range others {
		if row, there := p.known[k]; there {
			slots = append(slots, row.Slot)
		}
	}
	slices.Sort(slots)
	slots = slices.Compact(slots)
	now := dataplane.Monotonic(time.Now())
	acts := make([]ilnp.Activity, 0, len(slots))
	for _, slot := range slots {
		a, err := p.activity(p.changed.keys[slot], now)
		if err != nil {
			p.changed.putBack(slots) // those that were read are lost, too
			return nil, fmt.Errorf("read activity of session: %w", err)
		}
		acts = append(acts, a)
	}
	return acts, nil
}

// activity reads what was seen of one session.
func (p *Plane) activity(k ilnp.SessionKey, now uint64) (ilnp.Activity, error) {
	row := p.known[k]
	l, _, err := p.look(k, row)
	return ilnp.Activity{
		Key: k, LastRx: momentOf(l.lastRx, now), LastTx: momentOf(l.lastTx, now), LastNonceRx: momentOf(l.LastNonceRx, now),
		NonceAt: roam.L64(l.NonceAt.uint64()), WithNonce: l.WithNonce, WithoutNonce: uint32(l.Bare),
		Asks: l.Asks != 0, AsksPerFlow: bpfAsked(l.Asks)&bpfAskedASKED_PER_FLOW != 0,
		AsksCounts: bpfAsked(l.Asks)&bpfAskedASKED_COUNTS != 0, AsksAnswers: bpfAsked(l.Asks)&bpfAskedASKED_ANSWERS != 0,
		Flows: p.tables.sent(row),
	}, err
}

// Traffic reads what has passed in a session; nothing if there is none of that key.
func (p *Plane) Traffic(k ilnp.SessionKey) (Traffic, error) {
	row, there := p.known[k]
	if !there {
		return Traffic{}, nil
	}
	_, t, err := p.look(k, row)
	if err != nil {
		return Traffic{}, fmt.Errorf("read traffic of session: %w", err)
	}
	return t, nil
}

// look reads what was noted of a session, and brings its traffic up to date.
func (p *Plane) look(k ilnp.SessionKey, row bpfSessionEntry) (seen, Traffic, error) {
	l, err := p.live(row.Slot)
	if err != nil {
		return seen{}, Traffic{}, err
	}
	if l.Birth != row.Birth {
		l = seen{} // nothing yet
	}
	t := p.counted[k].atLeast(l)
	p.counted[k] = t
	return l, Traffic{
		TxPackets: t.txPackets, TxBytes: t.txBytes, RxPackets: t.rxPackets, RxBytes: t.rxBytes,
		Path: p.inUse(k, row, l),
	}, nil
}

// LastHeard reads when the correspondents of sessions were last heard.
func (p *Plane) LastHeard(keys []ilnp.SessionKey) ([]ilnp.Activity, error) {
	now := dataplane.Monotonic(time.Now())
	acts := make([]ilnp.Activity, 0, len(keys))
	for _, k := range keys {
		row, there := p.known[k]
		if !there {
			continue
		}
		l, err := p.live(row.Slot)
		if err != nil {
			return nil, fmt.Errorf("read when a session last received: %w", err)
		}
		if l.Birth == row.Birth {
			acts = append(acts, ilnp.Activity{Key: k, LastRx: momentOf(l.lastRx, now)})
		}
	}
	return acts, nil
}

// inUse returns the path that the session's last packets took, as long as the
// entry still has it.
func (p *Plane) inUse(k ilnp.SessionKey, row bpfSessionEntry, l seen) ilnp.Path {
	s := p.sent[k].advance(l.bpfSessionDetails)
	paths := p.uplinks.pathsOf(row)
	if len(paths) == 1 && l.TxPackets > 0 {
		return paths[0] // of a single path nothing is counted
	}
	if s.seq == row.Seq && s.latest >= 0 && s.latest < len(paths) {
		s.path = paths[s.latest]
	}
	if p.sent == nil {
		p.sent = make(map[ilnp.SessionKey]sentOn)
	}
	p.sent[k] = s
	if l.Birth == 0 || !slices.Contains(paths, s.path) {
		return ilnp.Path{}
	}
	return s.path
}

// pathsOf returns the paths of an entry as the core names them.
func (t *uplinkTable) pathsOf(row bpfSessionEntry) []ilnp.Path {
	out := make([]ilnp.Path, 0, row.N_paths)
	for _, way := range row.Paths[:min(int(row.N_paths), len(row.Paths))] {
		remote := row.Remote[int(way)%len(row.Remote)]
		out = append(out, ilnp.Path{Local: t.owner[way>>4], Remote: roam.L64(remote.uint64())})
	}
	return out
}
