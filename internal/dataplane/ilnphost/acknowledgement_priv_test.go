package ilnphost

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam/wire/ip6"
)

// A segment without data that leaves soon after a packet has come acknowledges it, and needs no
// answer, on either path. One that leaves later, as a keepalive does, asks for one, and so does
// all else.
func TestAcknowledgementNeedsNoAnswer(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := entryFor(there)
	r.upsert(p)
	part := fragment(ip6.TCP, 0, true, tcp(flagACK, 0))
	stamped := tcp(flagACK, 0)
	stamped[12] = 8 << 4
	stamped = append(stamped, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2)
	for way, programs := range map[string]paths{"full": r.pathsOf(0), "compact": r.pathsOf(1)} {
		for name, c := range map[string]struct {
			proto uint8
			body  []byte
			heard time.Duration // so long ago; 0: never
			asks  bool
		}{
			"acknowledgement":       {ip6.TCP, tcp(flagACK, 0), 150 * time.Millisecond, false},
			"time stamps alone":     {ip6.TCP, stamped, 20 * time.Millisecond, false},
			"reset":                 {ip6.TCP, tcp(0x14, 0), 20 * time.Millisecond, false},
			"keepalive":             {ip6.TCP, tcp(flagACK, 0), 300 * time.Millisecond, true},
			"nothing has come":      {ip6.TCP, tcp(flagACK, 0), 0, true},
			"data":                  {ip6.TCP, tcp(flagACK, 1), 20 * time.Millisecond, true},
			"first segment":         {ip6.TCP, tcp(flagSYN|flagACK, 0), 20 * time.Millisecond, true},
			"last segment":          {ip6.TCP, tcp(flagFIN|flagACK, 0), 20 * time.Millisecond, true},
			"datagram without data": {ip6.UDP, udp(0), 20 * time.Millisecond, true},
			"fragment":              {ip6.Fragment, part, 20 * time.Millisecond, true},
		} {
			r.settle(p.Key)
			r.setLive(p.Key, func(l *noted) {
				l.LastTx, l.LastRx = 0, 0
				if c.heard != 0 {
					l.LastRx = uint32((clock(unix.CLOCK_MONOTONIC) - uint64(c.heard)) >> 20)
				}
			})
			r.run(programs.Egress, frame(toPeer(c.proto, c.body)))
			if l := r.notedAt(r.known[p.Key].Slot); l.LastTx == 0 || (l.UnansweredTx != 0) != c.asks {
				t.Errorf("%s by the %s path: last sent %d, unanswered since %d", name, way, l.LastTx,
					l.UnansweredTx)
			}
		}
	}
	r.events()
}

// TestPauseStaysCompact exchanges data, acknowledges them, and goes on after a pause: that is
// no silence, so the next segments take the compact path both ways.
func TestPauseStaysCompact(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := entryFor(there)
	r.upsert(p)
	r.settle(p.Key)
	alone := r.pathsOf(2)
	in, out := fromPeer(there, none, ip6.TCP, tcp(flagACK, 9)), toPeer(ip6.TCP, tcp(flagACK, 9))
	r.egress(out)
	r.ingress(in)
	r.egress(toPeer(ip6.TCP, tcp(flagACK, 0)))
	r.setLive(p.Key, func(l *noted) {
		for _, at := range []*uint32{&l.UnansweredTx, &l.LastTx, &l.LastRx} {
			if *at != 0 {
				*at -= ticks(time.Minute)
			}
		}
	})
	if v, _ := r.run(alone.Egress, frame(out)); v >= unsettled {
		t.Error("after a pause, a segment out takes the full path")
	}
	r.run(alone.Ingress, frame(in))
	if v, _ := r.run(alone.Ingress, frame(in)); v >= unsettled {
		t.Error("after a pause, a segment in takes the full path")
	}
	if l := r.notedAt(r.known[p.Key].Slot); l.Returned != 0 {
		t.Error("a pause counts as a silence")
	}
}
