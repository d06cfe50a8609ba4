package ilnphost

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/dataplane"
	"roam/wire/ip6"
)

// exchange is a settled session that exchanges datagrams of 100 bytes of data.
type exchange struct {
	*rig
	p ilnp.Entry
}

func newExchange(t *testing.T) exchange {
	x := exchange{newRig(t), entryFor(there)}
	x.uplink(here)
	x.upsert(x.p)
	return x
}

const exchanged = ip6.HeaderLen + 8 + 100 // bytes of each datagram

func (x exchange) out() { x.t.Helper(); x.send(ip6.UDP, udp(100)) }

func (x exchange) in(from roam.L64, n ilnp.Nonce) {
	x.t.Helper()
	if v, _ := x.ingress(fromPeer(from, n, ip6.UDP, udp(100))); v != passOn {
		x.t.Fatalf("from %v: verdict %d", from, v)
	}
}

func (x exchange) traffic() Traffic {
	x.t.Helper()
	n, err := x.Traffic(x.p.Key)
	x.must(err)
	n.Path = ilnp.Path{}
	return n
}

// What a line counts goes into the totals of its session, with each window of sending unless
// that is little, and when a word is half full, and nothing is lost or counted twice.
func TestCountersMove(t *testing.T) {
	const (
		nothing = iota
		all
		either // depends on the moment
	)
	x := newExchange(t)
	want := Traffic{}
	sent, came := uint64(0), uint64(0)
	for step, c := range []struct {
		what   string
		before func(*noted)
		out    int
		moves  int // of what was before the last packets
	}{
		{"the first ones", func(*noted) {}, 3, nothing},
		{"the next window after little", func(l *noted) { l.LastTx -= 300 }, 1, nothing},
		{"many windows later after little", func(l *noted) { l.LastTx -= 30000 }, 2, nothing},
		{"the next window after just less than a rate", func(l *noted) {
			l.Tx, l.LastTx = l.Tx&^(1<<tallyPackets-1)|(slow-1), l.LastTx-300
		}, 1, nothing},
		{"the next window after a rate", func(l *noted) {
			l.Tx, l.LastTx = l.Tx&^(1<<tallyPackets-1)|slow, l.LastTx-300
		}, 1, all},
		{"a pause after that", func(l *noted) { l.LastTx -= 300 }, 1, all},
		{"the next window after more", func(l *noted) { l.Tx, l.LastTx = l.Tx+2*slow, l.LastTx-300 }, 1, all},
		{"the next window after a rate and little", func(l *noted) { l.LastTx -= 300 }, 1, all},
		{"the next window again", func(l *noted) { l.LastTx -= 300 }, 1, nothing},
		{"another one after more", func(l *noted) { l.Tx, l.LastTx = l.Tx+2*slow, l.LastTx-300 }, 1, all},
		{"many windows later", func(l *noted) { l.LastTx -= 30000 }, 2, all},
		{"a word nearly half full of bytes", func(l *noted) {
			l.Tx, l.Rx = l.Tx+7<<tallyPackets+1<<34,
				l.Rx&^(1<<tallyPackets-1)|(1<<35-1)
		}, 1, either},
		{"the same, a window later", func(l *noted) { l.LastTx -= 300 }, 1, all},
		{"a word nearly half full of packets", func(l *noted) { l.Rx |= (1<<26 - 1) << tallyPackets }, 0, either},
	} {
		had := uint64(0)
		x.setLive(x.p.Key, func(l *noted) {
			tx, rx := l.Tx, l.Rx
			c.before(l)
			sent += l.Tx>>tallyPackets - tx>>tallyPackets
			had = l.Tx &^ tallyRated >> tallyPackets
			came += l.Rx>>tallyPackets - rx>>tallyPackets
			want.TxBytes += l.Tx&(1<<tallyPackets-1) - tx&(1<<tallyPackets-1)
			want.RxBytes += l.Rx&(1<<tallyPackets-1) - rx&(1<<tallyPackets-1)
		})
		for range c.out {
			x.out()
		}
		x.in(there, none)
		x.in(there, none) // before which a word that the first has made large is moved
		sent, came = sent+uint64(c.out), came+2
		want.TxPackets, want.RxPackets = sent, came
		want.TxBytes += uint64(c.out) * exchanged
		want.RxBytes += 2 * exchanged
		l := x.notedAt(x.known[x.p.Key].Slot)
		if got := x.traffic(); got != want {
			t.Fatalf("%d, %s: %+v, want %+v\n%+v", step, c.what, got, want, l)
		}
		in := l.Tx &^ tallyRated >> tallyPackets
		if c.moves == all && in != uint64(c.out) || c.moves == nothing && in != had+uint64(c.out) {
			t.Errorf("%s: the line has %d packets out, of %d before and %d since", c.what, in, had, c.out)
		}
		if l.Rx&(1<<62|1<<35) != 0 {
			t.Errorf("%s: the line has %x in", c.what, l.Rx)
		}
	}
}

// The rate of sending is that of the last window, and there is none after a pause, or of less
// than 1,024 bytes. What may be from windows before counts for none.
func TestRateOfTheLastWindow(t *testing.T) {
	const (
		little = 3<<tallyPackets | 3*exchanged
		more   = 30<<tallyPackets | 30*exchanged
		rate   = 30 * exchanged
	)
	x := newExchange(t)
	for _, c := range []struct {
		ticks     uint32 // since the packets before
		tx        uint64
		was, want uint32
	}{
		{280, tallyRated | more, 99, rate},
		{500, tallyRated | more, 99, rate},
		{530, tallyRated | more, 99, 0},
		{90000, tallyRated | more, 99, 0},
		{280, more, 0, rate - slow},
		{280, slow - 1, 0, 0},
		{280, 2*slow - 1, 0, 0}, // but the window that begins is counted whole
		{280, tallyRated | (2*slow - 1), 0, 2*slow - 1},
		{280, 2 * slow, 0, slow},
		{530, more, 0, 0},
		{280, little, 0, 0},
		{280, tallyRated | little, 99, 0},
		{280, tallyRated, 99, 0},
	} {
		x.out()
		x.setLive(x.p.Key, func(l *noted) { // in one window, whenever that was
			l.Tx, l.RateLast = c.tx, c.was
			l.LastTx = uint32(dataplane.Monotonic(time.Now())>>20) - c.ticks
		})
		x.out()
		l := x.notedAt(x.known[x.p.Key].Slot)
		rated := c.tx&(1<<tallyPackets-1) >= slow && c.ticks < 512
		if l.RateLast != c.want || l.Tx&tallyRated != 0 != rated {
			t.Errorf("%d ticks after %x: rate %d, word %x, want %d", c.ticks, c.tx, l.RateLast, l.Tx, c.want)
		}
	}
}

// A session with other nonces is another one, also in the same slot: nothing of the one
// before counts for it, and its first packets take the full path.
func TestNewBirthBeginsAnew(t *testing.T) {
	for _, same := range []bool{true, false} {
		t.Run(fmt.Sprint("same session ", same), func(t *testing.T) {
			x := newExchange(t)
			x.out()
			x.in(else1, theirNonce)
			x.in(there, none)
			x.out()
			x.wantKinds("the session before", LocatorSeen, More)
			slot := x.known[x.p.Key].Slot
			if !same {
				x.must(x.Delete(x.p.Key))
				x.slotsRested()
			}
			x.p.LocalNonce, x.p.RemoteNonce = ourNonce, ilnp.Nonce{Len: 4, Bytes: [12]byte{9, 9, 9, 9}}
			if same {
				x.p.Seq++
			}
			x.upsert(x.p)
			if got := x.known[x.p.Key].Slot; got != slot {
				t.Fatalf("slot %d, not %d", got, slot)
			}
			if got := x.traffic(); got != (Traffic{}) {
				t.Errorf("before its first packet: %+v", got)
			}
			x.setLive(x.p.Key, func(l *noted) { l.UnansweredTx = 1 })
			if got := x.send(ip6.UDP, udp(100)); got.Dst.L64 != there {
				t.Errorf("the first packet goes to %v", got.Dst.L64)
			}
			x.wantKinds("the first packet")
			if got := x.traffic(); got != (Traffic{TxPackets: 1, TxBytes: exchanged}) {
				t.Errorf("after its first packet: %+v", got)
			}
		})
	}
}

// A state holds for one edition of the entry only. The daemon takes another number where the
// edition would be the one that the programs have left.
func TestEditionsDiffer(t *testing.T) {
	x := newExchange(t)
	x.settle(x.p.Key)
	row := x.known[x.p.Key]
	x.setLive(x.p.Key, func(l *noted) { l.State += 5 << stateEdition })
	x.p.Seq = row.Seq + 5
	x.p.NonceUntil = time.Now().Add(time.Minute)
	x.upsert(x.p)
	if got := x.known[x.p.Key].Seq; got != row.Seq+6 {
		t.Errorf("number %d, want %d", got, row.Seq+6)
	}
	if got := x.send(ip6.UDP, udp(100)); got.Nonce != ourNonce {
		t.Errorf("the nonce is due, and the packet has %v", got.Nonce)
	}
}

// The first packet of a session takes the full path, and has the next ones take the compact
// path, in its own direction at least.
func TestFirstPacketSettles(t *testing.T) {
	for _, out := range []bool{true, false} {
		t.Run(fmt.Sprint("out ", out), func(t *testing.T) {
			x := newExchange(t)
			alone := x.pathsOf(2)
			taken := func() bool {
				prog, b := alone.Ingress, fromPeer(there, none, ip6.UDP, udp(100))
				if out {
					prog, b = alone.Egress, toPeer(ip6.UDP, udp(100))
				}
				v, _ := x.run(prog, frame(b))
				return v < unsettled
			}
			if taken() {
				t.Error("the first packet takes the compact path")
			}
			if out {
				x.out()
			} else {
				x.in(there, none)
			}
			if !taken() {
				t.Error("the second packet does not take the compact path")
			}
		})
	}
}

// No NID is zero: an address that ends so is that of all routers of its link.
func TestNoNIDIsZero(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.change(func(s *HostSettings) { s.AcceptAny = true })
	b := packet(at(there, theirs), at(here, 0), ip6.DestOpts, with(theirNonce, ip6.UDP, udp(9)))
	if v, got := r.ingress(b); v != passOn || !bytes.Equal(got, b) {
		t.Errorf("verdict %d, packet %x", v, got)
	}
	r.wantKinds("a packet to NID zero")
}

// While a line is being written, packets take the full path; a successor mends what was left
// so.
func TestLineUnwritten(t *testing.T) {
	x := newExchange(t)
	x.settle(x.p.Key)
	alone := x.pathsOf(2)
	takes := func() bool {
		v, _ := x.run(alone.Egress, frame(toPeer(ip6.UDP, udp(100))))
		return v < unsettled
	}
	slot := x.known[x.p.Key].Slot
	if !takes() {
		t.Error("a settled session does not take the compact path")
	}
	x.lines.shut(slot)
	if takes() {
		t.Error("an unwritten line lets a packet by")
	}
	x.out()
	x.close()
	x.open()
	x.in(there, none) // reopening may have taken long enough for a silence
	if alone = x.pathsOf(2); !takes() {
		t.Error("a successor has not mended the line")
	}
}
