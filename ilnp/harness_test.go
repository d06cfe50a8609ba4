package ilnp

import (
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/multipath"
	ilnpwire "roam/wire/ilnp"
)

const (
	ownNID  roam.NID = 0x0200_0000_0000_0001
	peerNID roam.NID = 0x0200_0000_0000_0002

	netA roam.L64 = 0x2001_0db8_000a_0000
	netB roam.L64 = 0x2001_0db8_000b_0000
	netC roam.L64 = 0x2001_0db8_000c_0000
	netP roam.L64 = 0x2001_0db8_0001_0000
	netQ roam.L64 = 0x2001_0db8_0002_0000
	netR roam.L64 = 0x2001_0db8_0003_0000
	netS roam.L64 = 0x2001_0db8_0004_0000
)

var (
	epoch  = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	theKey = SessionKey{ownNID, peerNID}
)

// seeded is a source of randomness that repeats itself.
type seeded struct{ *rand.Rand }

func (s seeded) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(s.Uint32())
	}
	return len(b), nil
}

// bench is a core on a bench: time passes when the test says so.
type bench struct {
	*Core
	t       testing.TB
	now     time.Time
	events  []Event
	sent    []Transmit
	entries map[SessionKey]Entry
	other   []Output // all others

	delivered func(time.Time) multipath.Traffic // on each path, as reports say; nil: they do not
}

func newBench(t testing.TB, change ...func(*Config)) *bench {
	t.Helper()
	cfg := Config{NIDs: []roam.NID{ownNID}, Accept: Any, Rand: seeded{rand.New(rand.NewPCG(1, 2))}}
	for _, f := range change {
		f(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{Core: c, t: t, now: epoch, entries: make(map[SessionKey]Entry)}
}

func inMode(m Mode) func(*Config) { return func(c *Config) { c.Mode = m } }

// drain takes what the core wants done.
func (b *bench) drain() {
	for {
		o, ok := b.Poll()
		if !ok {
			return
		}
		switch o := o.(type) {
		case Transmit:
			b.sent = append(b.sent, o)
		case Upsert:
			b.entries[o.Entry.Key] = o.Entry
		case Notify:
			b.events = append(b.events, o.Event)
		case Delete:
			delete(b.entries, o.Key)
			b.other = append(b.other, o)
		default:
			b.other = append(b.other, o)
		}
	}
}

// forget drops what was recorded so far.
func (b *bench) forget() { b.events, b.sent, b.other = nil, nil, nil }

// pass lets time pass, with every timer at its time.
func (b *bench) pass(d time.Duration) {
	end := b.now.Add(d)
	for {
		at, ok := b.PollTimeout()
		if !ok || at.After(end) {
			break
		}
		if at.After(b.now) {
			b.now = at
		}
		b.HandleTimeout(b.now)
		b.drain()
	}
	b.now = end
}

func (b *bench) prefix(link roam.LinkID, l roam.L64, preferred time.Duration) {
	b.HandleLocator(b.now, roam.PrefixEvent{LinkLocator: roam.LinkLocator{Link: link, L64: l}, Present: true, Preferred: preferred})
	b.drain()
}

func (b *bench) withdraw(link roam.LinkID, l roam.L64) {
	b.HandleLocator(b.now, roam.PrefixEvent{LinkLocator: roam.LinkLocator{Link: link, L64: l}})
	b.drain()
}

func (b *bench) see(o Observation) {
	b.HandleObservation(b.now, o)
	b.drain()
}

func (b *bench) receive(link roam.LinkID, packet []byte) {
	b.HandlePacket(b.now, link, packet)
	b.drain()
}

func (b *bench) count(kind EventKind) int {
	n := 0
	for _, e := range b.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// states returns the states of the host's locators.
func (b *bench) states() map[roam.L64]LocatorState {
	m := make(map[roam.L64]LocatorState)
	for _, l := range b.Locals(b.now) {
		m[l.L64] = l.State
	}
	return m
}

// updates returns the Locator Updates sent, acknowledgements left out.
func (b *bench) updates() []ilnpwire.LocatorUpdate { return b.messages(ilnpwire.Advertisement) }

func (b *bench) messages(op ilnpwire.Operation) []ilnpwire.LocatorUpdate {
	b.t.Helper()
	var list []ilnpwire.LocatorUpdate
	for _, s := range b.sent {
		p := b.parse(s)
		if p.Type != ilnpwire.TypeLocatorUpdate {
			continue
		}
		lu, err := ilnpwire.ParseLocatorUpdate(p.Payload)
		if err != nil {
			b.t.Fatal(err)
		}
		if lu.Operation == op {
			list = append(list, lu)
		}
	}
	return list
}

func (b *bench) parse(s Transmit) ilnpwire.Packet {
	b.t.Helper()
	p, err := ilnpwire.ParsePacket(s.Packet)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// probesSent returns the echo requests sent.
func (b *bench) probesSent() []ilnpwire.Packet {
	var list []ilnpwire.Packet
	for _, s := range b.sent {
		if p := b.parse(s); p.Type == ilnpwire.TypeEchoRequest {
			list = append(list, p)
		}
	}
	return list
}

// peerNonce is what the correspondent of the tests shows.
var peerNonce = Nonce{Len: 4, Bytes: [12]byte{1, 2, 3, 4}}

// open sets up a session as initiator, with a correspondent that runs Roam at the
// given locators; the first one has answered.
func (b *bench) open(at ...roam.L64) {
	b.t.Helper()
	b.openOther(at...)
	b.sessions[theKey].asks = true
}

// openOther is open with a correspondent that runs another stack.
func (b *bench) openOther(at ...roam.L64) {
	b.t.Helper()
	p := Peer{NID: peerNID, Names: []string{"peer"}}
	for _, l := range at {
		p.Locators = append(p.Locators, RemoteLocator{L64: l, Preference: 10, Lifetime: roam.Infinite})
	}
	b.AddPeer(b.now, p)
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	b.see(Observation{Trigger: SeenNonce, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: at[0]}, Nonce: peerNonce})
	if b.entries[theKey].State != Established {
		b.t.Fatalf("session is %v after the correspondent's nonce, want established", b.entries[theKey].State)
	}
	b.answerProbes()
}

// answerProbes has the correspondent answer every probe sent, after 20 ms.
func (b *bench) answerProbes() {
	b.now = b.now.Add(20 * time.Millisecond)
	for _, p := range b.probesSent() {
		b.reply(p, peerNonce)
	}
	b.forget()
}

// answerProbesTo answers those to one locator only.
func (b *bench) answerProbesTo(l roam.L64, n Nonce) {
	b.t.Helper()
	for _, p := range b.probesSent() {
		if p.Dst.L64 == l {
			b.reply(p, n)
		}
	}
}

// reply answers one probe.
func (b *bench) reply(p ilnpwire.Packet, n Nonce) {
	b.t.Helper()
	e, err := ilnpwire.ParseEcho(p.Payload)
	if err != nil {
		b.t.Fatal(err)
	}
	packet, err := ilnpwire.BuildEcho(p.Dst, p.Src, n, false, e.ID, e.Seq, e.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	b.receive(1, packet)
}

// entry makes a locator of an update.
func entry(l roam.L64, preference uint16, lifetime uint32) ilnpwire.LocatorEntry {
	return ilnpwire.LocatorEntry{L64: l, Preference: uint32(preference), Lifetime: lifetime}
}

// update makes a packet with a Locator Update of the correspondent.
func (b *bench) update(from roam.L64, n Nonce, lu ilnpwire.LocatorUpdate) []byte {
	b.t.Helper()
	if lu.Operation == 0 {
		lu.Operation = ilnpwire.Advertisement
	}
	packet, err := ilnpwire.BuildUpdate(roam.ILV{NID: peerNID, L64: from}, roam.ILV{NID: ownNID, L64: netA}, n, lu)
	if err != nil {
		b.t.Fatal(err)
	}
	return packet
}

// acknowledgeLast has the correspondent acknowledge the last update.
func (b *bench) acknowledgeLast() {
	b.t.Helper()
	list := b.updates()
	if len(list) == 0 {
		b.t.Fatal("no update to acknowledge")
	}
	b.receive(1, b.update(netP, peerNonce, list[len(list)-1].Ack()))
}

// remotes returns the locators that the session's entry sends to.
func (b *bench) targets() []roam.L64 {
	var ls []roam.L64
	for _, p := range b.entries[theKey].Paths {
		if !slices.Contains(ls, p.Remote) {
			ls = append(ls, p.Remote)
		}
	}
	slices.Sort(ls)
	return ls
}

// sources returns the locators that the session's entry sends from.
func (b *bench) sources() []roam.L64 {
	var ls []roam.L64
	for _, p := range b.entries[theKey].Paths {
		if !slices.Contains(ls, p.Local.L64) {
			ls = append(ls, p.Local.L64)
		}
	}
	slices.Sort(ls)
	return ls
}

func (b *bench) wantTargets(want ...roam.L64) {
	b.t.Helper()
	if got := b.targets(); !slices.Equal(got, want) {
		b.t.Errorf("sends to %v, want %v", got, want)
	}
}

var _ io.Reader = seeded{}

func updateOf(list ...ilnpwire.LocatorEntry) ilnpwire.LocatorUpdate {
	return ilnpwire.LocatorUpdate{Locators: list}
}
