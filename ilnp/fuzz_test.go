package ilnp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// FuzzRestore gives a core the state file of a predecessor that somebody has
// damaged. It is refused whole, or makes a core that works and that a further
// successor can follow. The file is that of a host with a keyed session, too: what
// becomes of it takes no update without a MAC, and no key stands in an error or in what is shown.
func FuzzRestore(f *testing.F) {
	b := newBench(&testing.T{})
	b.prefix(1, netA, roam.Infinite)
	b.prefix(2, netB, time.Minute)
	b.open(netP)
	f.Add(b.Export())
	p := newProofBench(&testing.T{})
	p.open()
	f.Add(p.a.Export())
	f.Add(p.b.Export())
	f.Add(bytes.Replace(p.a.Export(), []byte(`"keyed":true`), []byte(`"keyed":true,"retired":true`), -1))
	f.Fuzz(func(t *testing.T, state []byte) {
		b := newBench(t, func(c *Config) { c.Key = &p.keys[0] })
		before := b.Stats()
		if err := b.Restore(b.now, state); err != nil {
			if b.Stats() != before {
				t.Errorf("refused, and yet it left %+v", b.Stats())
			}
			wantNoRoots(t, state, err.Error())
			return
		}
		b.drain()
		b.prefix(1, netA, roam.Infinite)
		q := *p
		q.t = t
		q.know(b, 0)
		wantNoRoots(t, state, fmt.Sprintf("%+v %+v", b.Peers(b.now), b.events))
		b.refusesUnsealed(t)
		b.passAtMost(time.Minute, 10_000)
		again := newBench(t, func(c *Config) { c.Key = &p.keys[0] })
		if err := again.Restore(b.now, b.Export()); err != nil {
			t.Errorf("what was restored cannot be restored again: %v", err)
		}
	})
}

// wantNoRoots wants nothing in a text of what keys derive from in a state, as far as that can be read.
func wantNoRoots(t *testing.T, state []byte, text string) {
	t.Helper()
	var st savedState
	_ = json.Unmarshal(state, &st) // it holds what was read before the fault
	for _, v := range st.Sessions {
		root := v.MACRoot
		for _, form := range []string{
			base64.StdEncoding.EncodeToString(root), fmt.Sprintf("%x", root), fmt.Sprint(root), string(root),
		} {
			if len(root) >= 16 && strings.Contains(text, form) {
				t.Errorf("a root of keys stands in %q", text)
			}
		}
	}
}

// refusesUnsealed sends each keyed session an update with the right nonce and without a MAC.
func (b *bench) refusesUnsealed(t *testing.T) {
	for _, s := range b.sorted() {
		if s.keys == nil || !s.remoteNonce.Present() || len(s.entry.Paths) == 0 {
			continue
		}
		list := []ilnpwire.LocatorEntry{entry(netS, 0, 100)}
		lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Locators: list}
		path := s.entry.Paths[0]
		packet, err := ilnpwire.BuildUpdate(roam.ILV{NID: s.remoteNID, L64: path.Remote},
			roam.ILV{NID: s.localNID, L64: path.Local.L64}, s.remoteNonce, lu)
		if err != nil {
			continue
		}
		before := s.remotes.find(netS) != nil
		b.HandlePacket(b.now, path.Local.Link, packet)
		if b.drain(); s.remotes.find(netS) != nil && !before {
			t.Errorf("an update without a MAC counts in the keyed session %v", s.key)
		}
	}
}

// passAtMost lets time pass; a core that asks to be called more often than that
// would keep its machine busy.
func (b *bench) passAtMost(d time.Duration, calls int) {
	b.t.Helper()
	end := b.now.Add(d)
	for at, ok := b.PollTimeout(); ok && !at.After(end); at, ok = b.PollTimeout() {
		if calls--; calls < 0 {
			b.t.Fatalf("timers without end at %v", at)
		}
		if at.After(b.now) {
			b.now = at
		}
		b.HandleTimeout(b.now)
		b.drain()
	}
	b.now = end
}

// FuzzObservation lets the data plane report anything at all: no order of
// observations stops the core, and what it holds stays bounded.
func FuzzObservation(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 2, 1, 5, 0, 6, 0})
	f.Add(bytes.Repeat([]byte{7, 3, 1, 200}, 8))
	f.Fuzz(func(t *testing.T, course []byte) {
		b := newBench(t)
		b.prefix(1, netA, roam.Infinite)
		b.open(netP)
		for ; len(course) >= 2; course = course[2:] {
			b.observeAnything(course[0], course[1])
		}
		b.passAtMost(time.Minute, 10_000)
		b.pass(time.Hour)
		if l := b.Stats(); l.PendingPeers+l.Probes > 0 {
			t.Errorf("after an hour of silence it still holds %+v", l)
		}
	})
}

// observeAnything makes an observation, or lets time pass, out of two bytes.
func (b *bench) observeAnything(what, detail byte) {
	o := Observation{Trigger: Trigger(what % 16), Key: theKey, LocalNID: ownNID, Local: roam.LinkLocator{Link: 1, L64: netA}, Found: FoundRule(detail % 4)}
	o.Remote.NID, o.Remote.L64 = peerNID, netP
	if detail&1 != 0 {
		o.Remote.L64 = netQ
	}
	if detail&2 != 0 {
		o.Key.Remote, o.Remote.NID = peerNID+1, peerNID+1
	}
	o.Nonce, o.OwnNonce = peerNonce, Nonce{Len: 4, Bytes: [12]byte{9, 9, 9, 9}}
	if detail&4 != 0 {
		o.Nonce = Nonce{Len: 4, Bytes: [12]byte{detail}}
	}
	if detail&8 != 0 {
		o.Nonce = Nonce{}
	}
	if what >= 0xf0 {
		b.passAtMost(time.Duration(detail)*time.Second, 10_000)
		return
	}
	b.HandleObservation(b.now, o)
	b.drain()
}
