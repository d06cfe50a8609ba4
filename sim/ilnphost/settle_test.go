package ilnphost

import (
	"fmt"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
)

// Bounds of settling: from the last loss of state, and the calm after it. Where
// only one end holds a wrong nonce, and the other one's packets need none, data
// flows both ways, and the next look at the paths finds it (every 15 s). A question who a peer is lives on for 30 s
// while packets went both ways, with 15 s between its probes.
const (
	settleWithin = 20 * time.Second
	askedWithin  = 45 * time.Second
	settledFor   = 15 * time.Second
)

// savedAfter is how old the state may be that a killed daemon leaves.
const savedAfter = 100 * time.Millisecond

// meeting is two hosts with one or two networks each, on paths that reorder,
// whose sessions are to agree again whatever either of them has forgotten.
type meeting struct {
	*Network
	ends  [2]*Node
	lossy bool
}

func newMeeting(t *testing.T, seed uint64) *meeting {
	m := &meeting{Network: New(seed)}
	m.Acquainted = true
	r := m.Rand()
	m.lossy = r.IntN(3) == 0
	for i := range m.ends {
		h := m.AddNode(string(rune('a'+i)), ilnp.Config{
			NIDs: []roam.NID{mobileNID + roam.NID(i)}, Mode: ilnp.Mode(r.IntN(3)), Accept: ilnp.Any,
			NonceLength: uint8(4 + 8*r.IntN(2)), Silence: multipath.Normal.Timing().Silence,
			Liveness: func(string) multipath.Level { return multipath.Normal },
		})
		for link := range roam.LinkID(1 + r.IntN(2)) {
			m.connect(h, link+1)
		}
		m.ends[i] = h
	}
	showTrace(t, m.Network)
	m.know(m.ends[0], m.ends[1])
	if r.IntN(2) == 0 {
		m.know(m.ends[1], m.ends[0])
	}
	return m
}

// connect takes a host to a network of its own.
func (m *meeting) connect(h *Node, link roam.LinkID) {
	r := m.Rand()
	a := Access{Delay: time.Duration(1+r.IntN(20)) * time.Millisecond, Jitter: time.Duration(1 + r.IntN(20_000_000))}
	if m.lossy {
		a.Loss = 0.1
	}
	h.Up(link, netA+roam.L64(h.nid)<<24+roam.L64(link)<<8+roam.L64(r.IntN(4)), a, roam.Infinite)
}

// know tells a host where the other one is, as the DNS would.
func (m *meeting) know(h, o *Node) {
	var at []roam.L64
	for _, x := range o.attachments {
		at = append(at, x.l64)
	}
	h.Know(o, at...)
}

// forget has one end lose what it knows of the session, in one way or another.
func (m *meeting) forget(t *testing.T, i int) {
	h, o := m.ends[i], m.ends[1-i]
	knew := len(h.core.Peers(m.Now())) > 0
	switch m.Rand().IntN(4) {
	case 0, 1:
		h.Reboot()
	case 2:
		m.Note(h.name, "forgets")
		h.core.RemovePeer(m.Now(), o.nid)
		h.Settle()
	case 3:
		state := h.core.Export()
		m.Run(time.Duration(m.Rand().Int64N(int64(savedAfter))))
		if err := h.restart(state); err != nil {
			t.Fatal(err)
		}
	}
	if knew {
		m.know(h, o)
	}
}

// asks reports whether an end still asks who the other one is.
func (m *meeting) asks() bool {
	return m.ends[0].core.Stats().PendingPeers+m.ends[1].core.Stats().PendingPeers > 0
}

// agree reports whether each end has the session of the other.
func (m *meeting) agree() bool {
	a, b := m.ends[0], m.ends[1]
	x, y := a.plane.named(ilnp.SessionKey{Local: a.nid, Remote: b.nid}), b.plane.named(ilnp.SessionKey{Local: b.nid, Remote: a.nid})
	return x != nil && y != nil && x.State == ilnp.Established && y.State == ilnp.Established &&
		x.LocalNonce == y.RemoteNonce && y.LocalNonce == x.RemoteNonce
}

// TestSessionsSettle has both ends of a session lose their state, again and
// again, one or both, on one or two links, with packets of the state before
// still under way: however it goes, the ends agree soon afterwards, and once
// they do, neither makes its session anew. SETTLE_SEEDS is how many courses are
// looked at.
func TestSessionsSettle(t *testing.T) {
	var worst time.Duration
	for seed := range uint64(setting(t, "SETTLE_SEEDS", 300)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { worst = max(worst, settle(t, seed)) })
	}
	t.Logf("the ends agree %v after the last loss, at worst", worst.Round(time.Millisecond))
}

func settle(t *testing.T, seed uint64) (took time.Duration) {
	m := newMeeting(t, seed)
	r := m.Rand()
	flows := []*Flow{m.ends[0].Flow(m.ends[1], 20*time.Millisecond, r.IntN(2) == 0)}
	if r.IntN(2) == 0 {
		flows = append(flows, m.ends[1].Flow(m.ends[0], 20*time.Millisecond, true))
	}
	for range 2 + r.IntN(6) {
		m.Run(time.Duration(r.Int64N(int64(3 * time.Second))))
		i := r.IntN(2)
		switch r.IntN(6) {
		case 0:
			h := m.ends[i]
			m.connect(h, roam.LinkID(1+r.IntN(2)))
			m.know(m.ends[1-i], h)
		case 1, 2, 3:
			m.forget(t, i)
		default:
			m.forget(t, i)
			m.Run(time.Duration(r.Int64N(int64(300 * time.Millisecond))))
			m.forget(t, 1-i)
		}
		// A server that knew nobody is contacted by new connections.
		flows = append(flows, m.ends[0].Connect(m.ends[1]))
	}
	from := m.Elapsed()
	for !m.agree() {
		if m.Elapsed()-from > settleWithin {
			t.Fatalf("the ends do not agree %v after the last loss", settleWithin)
		}
		// Who sends nothing with a nonce has nothing that a wrong one could harm.
		flows = append(flows, m.ends[1].Connect(m.ends[0]), m.ends[0].Connect(m.ends[1]))
		m.RunUntil(5*time.Second, m.agree)
	}
	took = m.Elapsed() - from
	if !m.RunUntil(askedWithin-took, func() bool { return !m.asks() }) {
		t.Errorf("an end asks who the other one is, %v after the last loss", askedWithin)
	}
	m.Run(2 * time.Second) // what was under way
	counts := func() (n [2]int) {
		for i, h := range m.ends {
			n[i] = h.Count(ilnp.SessionReplaced)
		}
		return n
	}
	before := counts()
	m.Run(settledFor)
	if now := counts(); now != before {
		t.Errorf("sessions were replaced %v times, %v when they had agreed", now, before)
	}
	if !m.agree() || m.asks() {
		t.Error("the ends do not agree any more")
	}
	for _, f := range flows {
		if f.Opening && f.Answered == 0 {
			t.Errorf("a connection of %s was never answered", f.From.name)
		}
	}
	return took
}
