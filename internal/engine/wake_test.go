package engine

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// What TCP looks for in the quoted segment is where it looks.
func TestQuote(t *testing.T) {
	s := dataplane.Connection{
		Local: netip.MustParseAddrPort("[fd69::1]:22"), Remote: netip.MustParseAddrPort("[fd69::2]:4000"), Unacked: 0xfeed_beef, Backoff: 3,
	}
	q, err := ilnpwire.ParseQuoted(quote(s))
	if err != nil {
		t.Fatal(err)
	}
	if q.Src.Addr() != s.Local.Addr() || q.Dst.Addr() != s.Remote.Addr() {
		t.Errorf("from %v to %v", q.Src, q.Dst)
	}
	b := quote(s)[40:]
	if binary.BigEndian.Uint16(b) != 22 || binary.BigEndian.Uint16(b[2:]) != 4000 || binary.BigEndian.Uint32(b[4:]) != s.Unacked {
		t.Errorf("segment % x", b)
	}
}

// host is a data plane with connections.
type host struct {
	*table
	list []dataplane.Connection
}

func (h *host) Connections(roam.L64) ([]dataplane.Connection, error) { return h.list, nil }

// lookNow is a look whose end is waited for.
func (e *Engine) lookNow(now time.Time) {
	e.tend(now)
	if e.looking {
		e.looked(now, <-e.looks)
	}
}

// Connections are told of the end of an outage if it is that of their session,
// each as often as it has doubled its time-out.
func TestWakeIsForSessionsThatReturn(t *testing.T) {
	e, o := withSession(t, ilnp.Established)
	h := &host{table: &table{entries: map[ilnp.SessionKey]ilnp.Entry{}}}
	e.cfg.Plane = h
	stall := func(local, remote roam.NID, port uint16, backoff int) {
		h.list = append(h.list, dataplane.Connection{
			Local: netip.AddrPortFrom(e.sessionAddr(local).Addr(), port), Remote: netip.AddrPortFrom(e.sessionAddr(remote).Addr(), 443),
			Unacked: uint32(port), Backoff: backoff,
		})
	}
	stall(ourNID, peerNID, 4001, 3)
	stall(ourNID, peerNID+1, 4002, 5) // of another session
	stall(peerNID, ourNID, 4003, 5)   // the other way round
	stall(ourNID, peerNID, 4004, 1)
	stall(ourNID, peerNID, 4005, 0) // waits for nothing
	up := e.entries[sessionKey]
	up.Seq = 1
	e.entries[sessionKey] = up
	dead, away, moved := up, up, up
	dead.Dead, away.Paths = true, nil
	moved.Paths = []ilnp.Path{{Local: roam.LinkLocator{Link: 8, L64: here + 1<<16}, Remote: there}}
	fresh := up
	fresh.Key.Remote += 7 // a session that was not there before
	for _, c := range []struct {
		name  string
		entry ilnp.Entry
		told  int // packets to our own stack
	}{
		{"nothing new", up, 0}, {"found dead", dead, 0}, {"heard again", up, 4}, {"no network", away, 0},
		{"a network", up, 4}, {"another network", moved, 4}, {"a new session", fresh, 0},
	} {
		o.injected = nil
		e.upsert(c.entry)
		told := 0
		for range 2 { // once is enough
			e.lookNow(time.Now())
		}
		for _, b := range o.injected {
			if b[6] != ip6.ICMPv6 {
				continue
			}
			told++
			if port := binary.BigEndian.Uint16(b[ip6.HeaderLen+8+ip6.HeaderLen:]); port != 4001 && port != 4004 {
				t.Errorf("%s: told the connection from port %d", c.name, port)
			}
		}
		if told != c.told {
			t.Errorf("%s: told %d times, want %d", c.name, told, c.told)
		}
	}
}

// slow is a data plane whose looks take as long as the test wants.
type slow struct {
	host
	begun, done chan struct{}
}

func (s *slow) Connections(n roam.L64) ([]dataplane.Connection, error) {
	s.begun <- struct{}{}
	<-s.done
	return s.host.Connections(n)
}

// What moves while a look is under way is looked at by the next one, and no
// timer runs for it meanwhile.
func TestNothingWaitsForALook(t *testing.T) {
	e, o := withSession(t, ilnp.Established)
	s := &slow{host: host{table: &table{entries: map[ilnp.SessionKey]ilnp.Entry{}}}, begun: make(chan struct{}), done: make(chan struct{})}
	s.list = []dataplane.Connection{{
		Local: netip.AddrPortFrom(e.sessionAddr(ourNID).Addr(), 4001), Remote: netip.AddrPortFrom(e.sessionAddr(peerNID).Addr(), 443), Backoff: 1,
	}}
	e.cfg.Plane, e.cfg.Show = s, true
	o.injected = nil
	e.back[sessionKey] = false
	e.opener.watch(e.entries[sessionKey], false)
	e.tend(time.Now())
	<-s.begun
	e.back[sessionKey] = false
	e.tend(time.Now()) // no second look, or the test would stand still
	timer := time.NewTimer(time.Hour)
	e.arm(timer)
	select {
	case <-timer.C:
		t.Error("the engine spins while it looks")
	default:
	}
	s.done <- struct{}{}
	e.looked(time.Now(), <-e.looks)
	if len(o.injected) != 1 {
		t.Errorf("told %d times, want once", len(o.injected))
	}
	e.tend(time.Now())
	<-s.begun
	delete(e.entries, sessionKey) // the session ends meanwhile
	s.done <- struct{}{}
	e.looked(time.Now(), <-e.looks)
	if len(o.injected) != 1 {
		t.Errorf("a session that has ended was told")
	}
}
