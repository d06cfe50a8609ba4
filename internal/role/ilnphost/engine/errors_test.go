package engine

import (
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/hostnet"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

const (
	ourNID  roam.NID = 0x0200_0000_0000_0001
	peerNID roam.NID = 0x0200_0000_0000_0002
	here    roam.L64 = 0x2001_0db8_000a_0000
	there   roam.L64 = 0x2001_0db8_0005_0000
)

var (
	us, them   = roam.ILV{NID: ourNID, L64: here}, roam.ILV{NID: peerNID, L64: there}
	ourNonce   = ilnp.Nonce{Len: 4, Bytes: [12]byte{1, 2, 3, 4}}
	theirNonce = ilnp.Nonce{Len: 4, Bytes: [12]byte{5, 6, 7, 8}}
	wrongNonce = ilnp.Nonce{Len: 4, Bytes: [12]byte{9}}
	sessionKey = ilnp.SessionKey{Local: ourNID, Remote: peerNID}
)

// outside records what an engine sends to the wire, by the kernel's routes and
// past them, and to its own stack.
type outside struct {
	destroyed, flushed           []netip.Addr
	sent, past, injected, resent [][]byte
	copied                       [][]byte
	fails                        error // what Send returns
	direct                       []roam.LinkID
}

func (o *outside) Send(_ roam.LinkID, p []byte) error {
	if o.fails == nil {
		o.sent = append(o.sent, p)
	}
	return o.fails
}

func (o *outside) SendTrain(_ roam.LinkID, packets [][]byte) error {
	if o.fails == nil {
		o.sent = append(o.sent, packets...)
	}
	return o.fails
}

func (o *outside) SendTo(_ roam.LinkID, _ net.HardwareAddr, p []byte) error {
	o.past = append(o.past, p)
	return nil
}

func (o *outside) Inject(_ roam.LinkID, _ net.HardwareAddr, p []byte) error {
	o.injected = append(o.injected, p)
	return nil
}

func (o *outside) Resend(_ roam.LinkID, _ net.HardwareAddr, p []byte, mark uint32) error {
	switch mark {
	case dataplane.CopyMark:
		o.copied = append(o.copied, p)
	case dataplane.HeldMark:
		o.resent = append(o.resent, p)
	}
	return nil
}

// Events and Device make it a Network too.
func (o *outside) Events() <-chan hostnet.Event { return nil }
func (o *outside) Device() hostnet.Device       { return hostnet.Device{Index: 2, PeerIndex: 3} }

// FlushPMTU remembers for whom a path MTU was forgotten.
func (o *outside) FlushPMTU(a netip.Addr) error {
	o.flushed = append(o.flushed, a)
	return nil
}

// Direct remembers the choices of an uplink for the direct route.
func (o *outside) Direct(l roam.LinkID) { o.direct = append(o.direct, l) }

// DestroySockets remembers whose sockets were destroyed.
func (o *outside) DestroySockets(a netip.Addr) error {
	o.destroyed = append(o.destroyed, a)
	return nil
}

// withSession makes an engine that does not run, with one session in a state.
func withSession(t *testing.T, state ilnp.SessionState) (*Engine, *outside) {
	t.Helper()
	core, err := ilnp.New(ilnp.Config{NIDs: []roam.NID{ourNID}, Rand: strings.NewReader("")})
	if err != nil {
		t.Fatal(err)
	}
	o := &outside{}
	e := New(Config{Core: core, Network: o, Sender: o, SessionPrefix: roam.DefaultSessionPrefix, Show: true,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	e.runsRoam = func(ilnp.SessionKey) bool { return true }
	p := ilnp.Entry{Key: sessionKey, State: state, LocalNID: ourNID, RemoteNID: peerNID, LocalNonce: ourNonce,
		Paths: []ilnp.Path{{Local: roam.LinkLocator{Link: 7, L64: here}, Remote: there}}}
	if state == ilnp.Established {
		p.RemoteNonce = theirNonce
	}
	e.entries[sessionKey] = p
	return e, o
}

func built(t *testing.T) func([]byte, error) []byte {
	return func(b []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// An ICMPv6 error of a correspondent counts with its nonce only; one of a
// router on the way has none (RFC 6741 §11.1, RFC 6744 §7).
func TestErrorsOfACorrespondent(t *testing.T) {
	ours := built(t)(ilnpwire.BuildEcho(us, them, ourNonce, true, 1, 1, make([]byte, 40)))
	router := roam.ILV{NID: 9, L64: 0x2001_0db8_ffff_0000}
	for _, c := range []struct {
		name   string
		state  ilnp.SessionState
		from   roam.ILV
		nonce  ilnp.Nonce
		passes bool
	}{
		{"right nonce", ilnp.Established, them, theirNonce, true},
		{"no nonce", ilnp.Established, them, ilnp.Nonce{}, false},
		{"wrong nonce", ilnp.Established, them, wrongNonce, false},
		{"our own nonce", ilnp.Established, them, ourNonce, false},
		{"no nonce, from another place", ilnp.Established, roam.ILV{NID: peerNID, L64: there + 1<<16}, ilnp.Nonce{}, false},
		{"router", ilnp.Established, router, ilnp.Nonce{}, true},
		{"not yet confirmed", ilnp.Initiated, them, ilnp.Nonce{}, true},
		{"plain", ilnp.Plain, them, ilnp.Nonce{}, true},
	} {
		e, o := withSession(t, c.state)
		packet := built(t)(ilnpwire.BuildError(c.from, us, c.nonce, ilnpwire.ErrorMessage{
			Type: ilnpwire.TypeUnreachable, Code: 4, Quoted: ours}))
		e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.ErrorIn, Link: 7, Key: sessionKey, Packet: packet})
		if got := len(o.injected) == 1; got != c.passes {
			t.Errorf("%s: handed to our stack: %t, refused %v", c.name, got, e.refused)
		}
		if n := e.refused[ForgedError]; (n == 1) == c.passes {
			t.Errorf("%s: refused %v", c.name, e.refused)
		}
		if last := e.LastForged(); (last.Remote == c.from && last.Local == us && last.Link == 7 && last.Type == ilnpwire.TypeUnreachable) == c.passes {
			t.Errorf("%s: last forged %+v", c.name, last)
		}
		if !c.passes {
			continue
		}
		p := built(t)(o.injected[0], nil)
		got, err := ilnpwire.ParsePacket(p)
		if err != nil || got.Dst != e.sessionAddr(ourNID) || got.Nonce.Present() {
			t.Errorf("%s: our stack sees %+v, %v", c.name, got, err)
		}
	}
}

// One that is summed over NIDs counts likewise, as its nonce permits.
func TestErrorsOverNIDs(t *testing.T) {
	ours := built(t)(ilnpwire.BuildEcho(us, them, ourNonce, true, 1, 1, make([]byte, 40)))
	for nonce, want := range map[ilnp.Nonce]int{theirNonce: 1, wrongNonce: 0} {
		e, o := withSession(t, ilnp.Established)
		packet := built(t)(ilnpwire.BuildError(them, us, nonce, ilnpwire.ErrorMessage{Type: ilnpwire.TypeUnreachable, Code: 4, Quoted: ours}))
		if err := ilnpwire.FinishOverNIDs(packet); err != nil {
			t.Fatal(err)
		}
		e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.ErrorIn, Link: 7, Key: sessionKey, Packet: packet})
		if len(o.injected) != want {
			t.Errorf("%d errors for our stack, want %d; refused %v", len(o.injected), want, e.refused)
		}
	}
	e, o := withSession(t, ilnp.Established)
	p := e.entries[sessionKey]
	p.ICMPRule = ilnp.RuleRFC6741
	e.entries[sessionKey] = p
	theirs := built(t)(ilnpwire.BuildEcho(e.sessionAddr(peerNID), e.sessionAddr(ourNID), ilnp.Nonce{}, true, 1, 1, nil))
	packet := built(t)(ilnpwire.BuildError(e.sessionAddr(ourNID), e.sessionAddr(peerNID), ilnp.Nonce{},
		ilnpwire.ErrorMessage{Type: ilnpwire.TypeUnreachable, Code: 4, Quoted: theirs}))
	e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.ErrorOut, Key: sessionKey, Packet: packet})
	if len(o.sent) != 1 {
		t.Fatalf("%d errors sent, refused %v", len(o.sent), e.refused)
	}
	if got, err := ilnpwire.ParsePacket(o.sent[0]); err != nil || !got.OverNIDs || got.Nonce != ourNonce {
		t.Errorf("sent %+v, %v", got, err)
	}
}

// An error that answers a probe is the core's: no application asked.
func TestErrorsThatAnswerProbes(t *testing.T) {
	e, o := withSession(t, ilnp.Established)
	core, err := ilnp.New(ilnp.Config{NIDs: []roam.NID{ourNID}, Rand: strings.NewReader(strings.Repeat("randomness ", 50))})
	if err != nil {
		t.Fatal(err)
	}
	e.core = core
	now := time.Now()
	core.AddPeer(now, ilnp.Peer{NID: peerNID, Locators: []ilnp.RemoteLocator{{L64: there, Lifetime: roam.Infinite}}})
	core.HandleLocator(now, roam.PrefixEvent{LinkLocator: roam.LinkLocator{Link: 7, L64: here}, Present: true, Preferred: roam.Infinite})
	core.HandleObservation(now, ilnp.Observation{Trigger: ilnp.SeenMiss, Key: sessionKey, LocalNID: ourNID})
	var probe []byte
	for out, ok := core.Poll(); ok; out, ok = core.Poll() {
		if x, is := out.(ilnp.Transmit); is {
			probe = x.Packet
		}
	}
	for _, c := range []struct {
		from  roam.ILV
		state ilnp.SessionState
	}{{roam.ILV{NID: 9, L64: there}, ilnp.Initiated}, {them, ilnp.Established}} {
		o.injected = nil
		packet := built(t)(ilnpwire.BuildError(c.from, us, theirNonce, ilnpwire.ErrorMessage{Type: ilnpwire.TypeUnreachable, Code: 4, Quoted: probe}))
		e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.ErrorIn, Link: 7, Key: sessionKey, Packet: packet})
		if got := core.Peers(now)[0].State; got != c.state || (c.state == ilnp.Established && len(o.injected) > 0) {
			t.Errorf("an error from %v: session %v, %d for our stack", c.from, got, len(o.injected))
		}
	}
}

// What our own stack reports about a packet of a session leaves with our
// nonce, and without one if the session is plain IPv6 (RFC 6744 §§6, 7).
func TestErrorsOfOurs(t *testing.T) {
	for state, want := range map[ilnp.SessionState]ilnp.Nonce{
		ilnp.Established: ourNonce, ilnp.Initiated: ourNonce, ilnp.Plain: {},
	} {
		e, o := withSession(t, state)
		theirs := built(t)(ilnpwire.BuildEcho(e.sessionAddr(peerNID), e.sessionAddr(ourNID), ilnp.Nonce{}, true, 1, 1, nil))
		packet := built(t)(ilnpwire.BuildError(e.sessionAddr(ourNID), e.sessionAddr(peerNID), ilnp.Nonce{},
			ilnpwire.ErrorMessage{Type: ilnpwire.TypeUnreachable, Code: 4, Quoted: theirs}))
		e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.ErrorOut, Key: sessionKey, Packet: packet})
		if len(o.sent) != 1 {
			t.Fatalf("state %v: %d packets sent, refused %v", state, len(o.sent), e.refused)
		}
		p, err := ilnpwire.ParsePacket(o.sent[0])
		if err != nil || p.Src != us || p.Dst != them || p.Nonce != want {
			t.Errorf("state %v: sent %+v with nonce of %d bytes, %v", state, p, p.Nonce.Len, err)
		}
	}
}

// Of two correspondents with one Identifier, an error is from the session
// address, and counts with the nonce, of the one whose session it is about.
func TestErrorsAboutCollisions(t *testing.T) {
	e, o := withSession(t, ilnp.Established)
	const elsewhere = there + 1<<16
	const handle roam.NID = 0x0200_0001_0000_0002
	second := e.entries[sessionKey]
	second.Key.Remote, second.RemoteNonce = handle, wrongNonce
	second.Paths = []ilnp.Path{{Local: roam.LinkLocator{Link: 7, L64: here}, Remote: elsewhere}}
	e.entries[second.Key] = second
	report := func(at roam.L64, key ilnp.SessionKey, n ilnp.Nonce) {
		t.Helper()
		o.injected = nil
		peer := roam.ILV{NID: peerNID, L64: at}
		ours := built(t)(ilnpwire.BuildEcho(us, peer, ourNonce, true, 1, 1, nil))
		packet := built(t)(ilnpwire.BuildError(peer, us, n, ilnpwire.ErrorMessage{Type: ilnpwire.TypeUnreachable, Code: 4, Quoted: ours}))
		e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.ErrorIn, Link: 7, Key: key, Packet: packet})
	}
	for at, c := range map[roam.L64]struct {
		nonce ilnp.Nonce
		as    roam.NID
	}{there: {theirNonce, peerNID}, elsewhere: {wrongNonce, handle}} {
		report(at, ilnp.SessionKey{Local: ourNID, Remote: c.as}, c.nonce)
		if len(o.injected) != 1 {
			t.Fatalf("at %v: not handed to our stack, refused %v", at, e.refused)
		}
		if p, err := ilnpwire.ParsePacket(o.injected[0]); err != nil || p.Src != e.sessionAddr(c.as) {
			t.Errorf("at %v: our stack sees %+v, %v, want it from %v", at, p, err, e.sessionAddr(c.as))
		}
	}
	report(elsewhere, second.Key, theirNonce)
	if len(o.injected) != 0 {
		t.Error("an error of the one counts with the nonce of the other")
	}
}

// A Parameter Problem about the nonce makes the session plain and is no news to
// the application; one about anything else is (RFC 6740 §8, RFC 6744 §6).
func TestParameterProblems(t *testing.T) {
	const option = ip6.HeaderLen + 2 // behind the header of the options
	for _, c := range []struct {
		name   string
		code   uint8
		param  uint32
		passes bool
	}{
		{"the nonce", ilnpwire.CodeUnknownOption, option, false},
		{"the byte behind its type", ilnpwire.CodeUnknownOption, option + 1, true},
		{"next header of the options", 1, ip6.HeaderLen, true},
		{"hop limit", 0, 7, true},
	} {
		e, o := withSession(t, ilnp.Initiated)
		ours := built(t)(ilnpwire.BuildEcho(us, them, ourNonce, true, 1, 1, make([]byte, 40)))
		packet := built(t)(ilnpwire.BuildError(them, us, ilnp.Nonce{}, ilnpwire.ErrorMessage{
			Type: ilnpwire.TypeParameterProblem, Code: c.code, Param: c.param, Quoted: ours}))
		e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.ErrorIn, Link: 7, Key: sessionKey, Packet: packet})
		if got := len(o.injected) == 1; got != c.passes {
			t.Errorf("%s: handed to our stack: %t, want %t; refused %v", c.name, got, c.passes, e.refused)
		}
		if told := len(e.core.RejectedInput()) == 1; told == c.passes {
			t.Errorf("%s: the core was told: %t", c.name, told)
		}
	}
}
