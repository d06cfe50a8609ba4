package sbr

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/wire/ilnp"
)

const (
	coalesce = 20 * time.Millisecond
	port     = 6740
	maxFlows = 65536
)

var (
	origin   = time.Unix(1_000_000, 0)
	inward   = ilnp.Nonce{Len: 4, Bytes: [12]byte{1, 2, 3, 4}}
	outward  = ilnp.Nonce{Len: 4, Bytes: [12]byte{5, 6, 7, 8}}
	key      = FlowKey{insideNID, outsideNID}
	seenFlow = FlowSeen{FlowKey: key, Internal: internal, Link: 9, Remote: remote, Inward: inward, Outward: outward,
		Sent: origin}
	theProbe = Probe{ID: 77, Token: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, Secret: [16]byte{9, 8, 7}}
	ownILV   = roam.ILV{L64: internal, NID: 1} // the border's own
	bothUp   = []Site{{siteA, 1, true}, {siteB, 2, true}}
)

func testPolicy(a, b int) Policy {
	p, err := ParsePolicy(fmt.Appendf(nil, "%v 50 0 vlb 1 2\n%v %d 0 none 2\n%v %d 0 none 2\n",
		internal.Prefix(), siteA.Prefix(), a, siteB.Prefix(), b))
	if err != nil {
		panic(err)
	}
	return p
}

// border is a core whose outputs are kept.
type border struct {
	*Core
	*testing.T
	now       time.Time
	sent      []Transmit
	announced []Announced
	refused   []Refusal
	installs  []Install
	renewed   []Renewed

	// Where the inside node is: quiet ones only answer, those that are gone do not.
	quiet, gone bool
	lastSent    time.Time // by the inside node
	asked       int       // questions to it
}

func newBorder(t *testing.T) *border {
	b := &border{Core: New(coalesce, port, maxFlows, theProbe), T: t, now: origin}
	b.HandleOwn(map[roam.LinkID]roam.ILV{9: ownILV})
	b.HandlePolicy(b.now, testPolicy(20, 80))
	b.HandleSites(b.now, bothUp)
	b.drain()
	return b
}

func (b *border) drain() {
	for o, ok := b.Poll(); ok; o, ok = b.Poll() {
		switch o := o.(type) {
		case Transmit:
			if !b.answersQuestion(o) {
				b.sent = append(b.sent, o)
			}
		case Look:
			if !b.quiet && !b.gone {
				b.lastSent = b.now
			}
			b.HandleSeen(b.now, o.FlowKey, b.lastSent)
		case Announced:
			b.announced = append(b.announced, o)
		case Refused:
			b.refused = append(b.refused, o.Why)
		case Install:
			b.installs = append(b.installs, o)
		case Renewed:
			b.renewed = append(b.renewed, o)
		}
	}
}

// answersQuestion has the inside node answer the border's question to it. false: this is none.
func (b *border) answersQuestion(t Transmit) bool {
	b.Helper()
	m, err := ilnp.ParseControl(t.Packet, port)
	if err != nil || m.Type != ilnp.TypeEchoRequest || m.Src != ownILV {
		return false
	}
	b.asked++
	e, err := ilnp.ParseEcho(m.Payload)
	if err != nil || t.Link != 9 || m.Nonce.Present() {
		b.Fatalf("a question on link %d is %+v, %v", t.Link, m, err)
	}
	answer, err := ilnp.BuildEcho(m.Dst, m.Src, ilnp.Nonce{}, false, e.ID, e.Seq, e.Data)
	if err != nil {
		b.Fatal(err)
	}
	if !b.gone {
		b.HandlePacket(b.now, Packet{Bytes: answer, Link: 9, Inside: true})
	}
	return true
}

// until lets time pass.
func (b *border) until(end time.Time) {
	for at, ok := b.PollTimeout(); ok && !at.After(end); at, ok = b.PollTimeout() {
		b.now = at
		b.HandleTimeout(at)
		b.drain()
	}
	b.now = end
}

// take returns the one packet that was sent, and forgets it.
func (b *border) take(link roam.LinkID) (ilnp.Packet, ilnp.LocatorUpdate) {
	b.Helper()
	if len(b.sent) != 1 || b.sent[0].Link != link {
		b.Fatalf("%d packets sent, want one on link %d: %+v; refused %v", len(b.sent), link, b.sent, b.refused)
	}
	m, err := ilnp.ParseControl(b.sent[0].Packet, port)
	if err != nil {
		b.Fatal(err)
	}
	u, err := ilnp.ParseLocatorUpdate(m.Payload)
	if err != nil {
		b.Fatal(err)
	}
	b.sent = nil
	return m, u
}

func (b *border) handle(inside bool, src, dst roam.ILV, n ilnp.Nonce, u ilnp.LocatorUpdate) {
	b.Helper()
	packet, err := ilnp.BuildUpdate(src, dst, n, u)
	if err != nil {
		b.Fatal(err)
	}
	b.HandlePacket(b.now, Packet{Bytes: packet, Inside: inside})
	b.drain()
}

// siteSet is the body of updates that announce both locators to spread over.
var siteSet = []ilnp.LocatorEntry{
	{L64: siteA, Preference: 20, Lifetime: siteLifetime}, {L64: siteB, Preference: 20, Lifetime: siteLifetime},
}

// The border announces the site's locators of a new flow until they are acknowledged, and
// only then reports them; a link that goes is withdrawn from the flow at once.
func TestAnnounces(t *testing.T) {
	b := newBorder(t)
	b.HandleFlow(b.now, seenFlow, nil)
	b.drain()
	m, u := b.take(1)
	if m.Src != (roam.ILV{L64: siteA, NID: insideNID}) || m.Dst != theirs || m.Nonce != outward ||
		!announces(u, siteSet) {
		t.Errorf("announces %+v %+v", m, u)
	}
	b.until(b.now.Add(firstRetry))
	if m, _ := b.take(1); !m.Encapsulated {
		t.Error("the repetition does not go in UDP")
	}
	if len(b.announced) != 0 {
		t.Errorf("without acknowledgement: %+v", b.announced)
	}
	b.handle(false, theirs, roam.ILV{L64: siteA, NID: insideNID}, inward, u.Ack())
	if len(b.announced) != 1 || !sameSet(b.announced[0].Locators, []roam.L64{siteA, siteB}) || len(b.sent) != 0 {
		t.Errorf("acknowledged: %+v, sent %+v, refused %v", b.announced, b.sent, b.refused)
	}
	b.until(b.now.Add(time.Hour))
	if len(b.sent) != 0 {
		t.Errorf("%d updates after the acknowledgement", len(b.sent))
	}
	changed := b.now
	b.HandleSites(b.now, []Site{{siteA, 1, false}, {siteB, 2, true}})
	b.until(b.now.Add(coalesce - time.Millisecond))
	if len(b.sent) != 0 {
		t.Error("a change is announced before others can join it")
	}
	b.until(changed.Add(coalesce))
	if m, u = b.take(2); m.Src.L64 != siteB || len(u.Locators) != 1 || u.Locators[0].L64 != siteB {
		t.Errorf("a link went: %+v", u)
	}
	if a := b.announced[len(b.announced)-1]; !slices.Equal(a.Locators, []roam.L64{siteB}) {
		t.Errorf("a link went: announced %+v", a)
	}
}

// An update that nobody acknowledges is given up.
func TestGivesUp(t *testing.T) {
	b := newBorder(t)
	b.HandleFlow(b.now, seenFlow, nil)
	b.drain()
	b.until(b.now.Add(time.Hour))
	if len(b.sent) != retries+1 || len(b.announced) != 0 {
		t.Errorf("%d updates, announced %+v", len(b.sent), b.announced)
	}
}

// An update from inside lists the site's locators outside, and its sender finds its own
// body in the acknowledgement; in all forms.
func TestUpdateFromInside(t *testing.T) {
	const unknown roam.L64 = 0xfd00_0000_0099_0000
	for _, form := range []ilnp.Form{ilnp.FormRFC, ilnp.FormDraft, ilnp.FormLinux} {
		b := newBorder(t)
		b.HandleFlow(b.now, seenFlow, []roam.L64{siteA, siteB})
		own := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Form: form, Locators: []ilnp.LocatorEntry{
			{L64: internal, Preference: 10, Lifetime: 100}, {L64: unknown, Preference: 10, Lifetime: 100}}}
		if form == ilnp.FormDraft {
			own.Code = ilnp.CodeReplaceSoft
		}
		b.handle(true, mine, theirs, outward, own)
		m, u := b.take(1)
		want := []ilnp.LocatorEntry{
			{L64: siteA, Preference: 20, Lifetime: 100}, {L64: siteB, Preference: 20, Lifetime: 100},
		}
		if m.Src.L64 != siteA || m.Nonce != outward || u.Form != form || u.Code != own.Code ||
			!slices.Equal(u.Locators, want) {
			t.Errorf("%v: outside %+v %+v", form, m, u)
		}
		b.handle(false, theirs, roam.ILV{L64: siteB, NID: insideNID}, inward, u.Ack())
		m, u = b.take(9)
		if m.Dst != mine || m.Src != theirs || u.Operation != ilnp.Acknowledgement ||
			!slices.Equal(u.Locators, own.Locators) {
			t.Errorf("%v: the acknowledgement is %+v %+v", form, m, u)
		}
		b.handle(false, theirs, roam.ILV{L64: siteB, NID: insideNID}, inward, u)
		if len(b.sent) != 0 || !slices.Equal(b.refused, []Refusal{UnknownAck}) {
			t.Errorf("%v: a second acknowledgement: %+v, %v", form, b.sent, b.refused)
		}
	}
}

// A correspondent's update passes to the inside with its body, and its acknowledgement back.
func TestUpdateFromOutside(t *testing.T) {
	b := newBorder(t)
	b.HandleFlow(b.now, seenFlow, []roam.L64{siteA, siteB})
	list := []ilnp.LocatorEntry{{L64: remote, Preference: 1, Lifetime: 9}}
	u := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: list}
	b.handle(false, theirs, roam.ILV{L64: siteB, NID: insideNID}, inward, u)
	if m, in := b.take(9); m.Dst != mine || !slices.Equal(in.Locators, u.Locators) {
		t.Errorf("inside %+v %+v", m, in)
	}
	if f := b.Flows(); len(f) != 1 || !slices.Equal(f[0].Remotes, []roam.L64{remote}) {
		t.Errorf("flows %+v", f)
	}
	b.handle(true, mine, theirs, outward, u.Ack())
	if m, out := b.take(1); m.Src.L64 != siteA || !slices.Equal(out.Locators, list) ||
		out.Operation != ilnp.Acknowledgement {
		t.Errorf("outside %+v %+v", m, out)
	}
}

// The border's own updates bear the inside node's nonce, so they go where that node sends: to another
// locator of the outside node only once it has acknowledged an update from there.
func TestUpdatesFollowInsideNode(t *testing.T) {
	b := newBorder(t)
	b.HandleFlow(b.now, seenFlow, []roam.L64{siteA, siteB})
	moved := roam.ILV{L64: 0x2001_0db8_00ee_0000, NID: outsideNID}
	u := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: []ilnp.LocatorEntry{{L64: moved.L64, Lifetime: 9}}}
	wantTo := func(when string, l roam.L64, sites ...Site) {
		t.Helper()
		b.sent = nil
		b.HandleSites(b.now, sites)
		b.until(b.now.Add(coalesce))
		if m, _ := b.take(sites[0].Link); m.Dst.L64 != l || m.Nonce != outward {
			t.Errorf("%s: announced to %v, want %v", when, m.Dst.L64, l)
		}
	}
	b.handle(false, moved, roam.ILV{L64: siteB, NID: insideNID}, inward, u)
	wantTo("before an acknowledgement", remote, bothUp[0])
	b.handle(true, mine, moved, outward, u.Ack())
	wantTo("after one", moved.L64, bothUp[1])
}

// What must not pass is refused with a reason, and changes nothing.
func TestRefused(t *testing.T) {
	update := func(l roam.L64) ilnp.LocatorUpdate {
		return ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: []ilnp.LocatorEntry{{L64: l}}}
	}
	site, other := roam.ILV{L64: siteA, NID: insideNID}, roam.ILV{L64: 0x20010db800dd0000, NID: insideNID}
	for name, c := range map[string]struct {
		inside   bool
		src, dst roam.ILV
		nonce    ilnp.Nonce
		update   ilnp.LocatorUpdate
		want     Refusal
	}{
		"unknown locators":            {true, mine, theirs, outward, update(remote), UnknownLocators},
		"another source":              {true, other, theirs, outward, update(internal), UnknownLocators},
		"another destination":         {false, theirs, other, inward, update(remote), UnknownLocators},
		"this site's, from outside":   {false, theirs, site, inward, update(siteB), ForeignLocators},
		"internal ones, from outside": {false, theirs, site, inward, update(internal), ForeignLocators},
		"multicast, from outside":     {false, theirs, site, inward, update(0xff02 << 48), ForeignLocators},
		"acknowledges nothing":        {false, theirs, site, inward, update(siteA).Ack(), UnknownAck},
	} {
		b := newBorder(t)
		b.HandleFlow(b.now, seenFlow, []roam.L64{siteA, siteB})
		b.handle(c.inside, c.src, c.dst, c.nonce, c.update)
		if len(b.sent) != 0 || !slices.Equal(b.refused, []Refusal{c.want}) || len(b.announced) != 0 {
			t.Errorf("%s: sent %d, refused %v, want %v", name, len(b.sent), b.refused, c.want)
		}
	}
}

// With all links down nothing is announced, and updates are refused; a policy that changes
// announces anew.
func TestLinksAndPolicy(t *testing.T) {
	b := newBorder(t)
	b.HandleFlow(b.now, seenFlow, []roam.L64{siteA, siteB})
	b.HandleSites(b.now, nil)
	b.until(b.now.Add(time.Minute))
	if a := b.announced; len(b.sent) != 0 || len(a) != 1 || len(a[0].Locators) != 0 {
		t.Errorf("all links down: sent %d, announced %+v", len(b.sent), a)
	}
	b.handle(true, mine, theirs, outward, ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: siteSet[:1]})
	if !slices.Equal(b.refused, []Refusal{NoLink}) {
		t.Errorf("all links down: refused %v", b.refused)
	}
	b.HandleSites(b.now, bothUp)
	b.HandlePolicy(b.now, testPolicy(90, 10))
	b.until(b.now.Add(coalesce))
	if i := b.installs[len(b.installs)-1]; i.Renamed != 0 {
		t.Error("other preferences change the indices")
	}
	if m, u := b.take(2); m.Src.L64 != siteB || u.Locators[0].L64 != siteB || u.Locators[0].Preference != 10 {
		t.Errorf("another policy: %+v", u)
	}
	b.HandleIdle(key)
	if b.until(b.now.Add(time.Minute)); len(b.Flows()) != 0 || len(b.sent) != 0 {
		t.Errorf("a flow without packets stays: %+v", b.Flows())
	}
}

// A packet that is too big for its link is answered with what it was.
func TestTooBig(t *testing.T) {
	b := newBorder(t)
	sent := datagram(t, make([]byte, 200)...)
	own := roam.ILV{L64: internal, NID: 1}
	b.HandleTooBig(Packet{Bytes: sent, Inside: true, Link: 9}, 1280, own)
	if b.drain(); len(b.sent) != 1 || b.sent[0].Link != 9 || !bytes.HasSuffix(b.sent[0].Packet, sent) {
		t.Fatalf("%+v", b.sent)
	}
	m, err := ilnp.ParsePacket(b.sent[0].Packet)
	e, fault := ilnp.ParseError(m.Payload)
	if err != nil || fault != nil || m.Src != own || m.Dst != mine || e.Type != ilnp.TypePacketTooBig || e.Param != 1280 {
		t.Errorf("%+v %+v, %v, %v", m, e, err, fault)
	}
	b.HandleTooBig(Packet{Bytes: sent[:20]}, 1280, own)
	if b.drain(); !slices.Equal(b.refused, []Refusal{Malformed}) {
		t.Errorf("refused %v", b.refused)
	}
}

// Nodes that begin anew, with other nonces, know nothing of what was announced; the same ones
// again change nothing.
func TestNewNonces(t *testing.T) {
	b := newBorder(t)
	b.HandleFlow(b.now, seenFlow, []roam.L64{siteA, siteB})
	b.HandleFlow(b.now, seenFlow, nil)
	if b.drain(); len(b.sent)+len(b.announced) != 0 || !b.Knows(seenFlow) || b.Knows(FlowSeen{}) {
		t.Errorf("the same flow again: sent %d, announced %+v", len(b.sent), b.announced)
	}
	anew := seenFlow
	anew.Outward = inward
	known := b.Knows(anew)
	b.HandleFlow(b.now, anew, nil)
	b.drain()
	if m, _ := b.take(1); m.Nonce != anew.Outward || known {
		t.Errorf("announced with %v, known before that %v", m.Nonce, known)
	}
	if a := b.announced; len(a) != 1 || len(a[0].Locators) != 0 {
		t.Errorf("announced stays %+v", a)
	}
}

// A core has a bounded number of flows, and takes another one when one has ended.
func TestManyFlows(t *testing.T) {
	b := newBorder(t)
	one := seenFlow
	for i := range roam.NID(maxFlows + 1) {
		one.Outside = outsideNID + i
		b.HandleFlow(b.now, one, []roam.L64{siteA, siteB})
	}
	if n := len(b.Flows()); n != maxFlows || b.Knows(one) {
		t.Errorf("%d flows", n)
	}
	b.HandleIdle(key)
	if b.HandleFlow(b.now, one, nil); !b.Knows(one) {
		t.Error("no space for another flow")
	}
	b.drain() // after a change their updates go out one after the other
	b.sent = nil
	b.HandleSites(b.now, bothUp[:1])
	if b.until(b.now.Add(coalesce + 50*time.Millisecond)); len(b.sent) < 400 || len(b.sent) > 600 {
		t.Errorf("%d updates in 50 ms, want 500", len(b.sent))
	}
}

// An error of the inside node leaves by the site locator to which the packet came that it quotes, by the
// preferred one where that is not known or not up.
func TestErrorOut(t *testing.T) {
	b := newBorder(t)
	b.HandleFlow(b.now, seenFlow, []roam.L64{siteA, siteB})
	for _, c := range []struct{ came, want roam.L64 }{{siteB, siteB}, {siteA, siteA}, {0, siteA}, {remote, siteA}} {
		quoted, err := ilnp.BuildEcho(theirs, mine, ilnp.Nonce{}, true, 1, 1, make([]byte, 20))
		if err != nil {
			t.Fatal(err)
		}
		e, err := ilnp.BuildError(mine, theirs, outward, ilnp.ErrorMessage{Type: ilnp.TypePacketTooBig, Quoted: quoted})
		if err != nil {
			t.Fatal(err)
		}
		b.sent = nil
		b.HandlePacket(b.now, Packet{Bytes: e, Inside: true, Came: c.came})
		if b.drain(); len(b.sent) != 1 {
			t.Fatalf("%+v, refused %v", b.sent, b.refused)
		}
		m, err := ilnp.ParsePacket(b.sent[0].Packet)
		if err != nil {
			t.Fatal(err)
		}
		was, err := ilnp.ParseError(m.Payload)
		if err != nil {
			t.Fatal(err)
		}
		q, err := ilnp.ParseQuoted(was.Quoted)
		if err != nil || m.Src.L64 != c.want || q.Dst.L64 != c.want {
			t.Errorf("came to %v: from %v, quotes %v, want %v; %v", c.came, m.Src, q.Dst, c.want, err)
		}
	}
}

// An error about a packet of the flow reaches the inside node as its own packet; one about
// another error does not.
func TestErrors(t *testing.T) {
	b := newBorder(t)
	b.HandleFlow(b.now, seenFlow, []roam.L64{siteA, siteB})
	sent := datagram(t, 1, 2, 3)
	outside, err := Rewrite(sent, Source, siteB, RuleIPv6)
	if err != nil {
		t.Fatal(err)
	}
	m := ilnp.ErrorMessage{Type: ilnp.TypePacketTooBig, Param: 1400, Quoted: outside}
	e, err := ilnp.BuildError(theirs, roam.ILV{L64: siteB, NID: insideNID}, ilnp.Nonce{}, m)
	if err != nil {
		t.Fatal(err)
	}
	b.HandlePacket(b.now, Packet{Bytes: e})
	b.drain()
	if len(b.sent) != 1 || b.sent[0].Link != 9 || !bytes.HasSuffix(b.sent[0].Packet, sent) {
		t.Errorf("%+v, refused %v", b.sent, b.refused)
	}
	m.Quoted = e
	again, err := ilnp.BuildError(theirs, roam.ILV{L64: siteB, NID: insideNID}, ilnp.Nonce{}, m)
	if err != nil {
		t.Fatal(err)
	}
	b.sent = nil
	b.HandlePacket(b.now, Packet{Bytes: again})
	b.drain()
	if len(b.sent) != 0 || !slices.Equal(b.refused, []Refusal{Malformed}) {
		t.Errorf("an error about an error: %+v, refused %v", b.sent, b.refused)
	}
}

// A host that has been told the locators of its site lists them itself, also without a key: those
// that are up pass as they are, others do not pass.
func TestUpdateListsToldLocators(t *testing.T) {
	b := newBorder(t)
	b.HandleFlow(b.now, seenFlow, []roam.L64{siteA, siteB})
	own := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: []ilnp.LocatorEntry{
		{L64: siteB, Preference: 7, Lifetime: 100}, {L64: siteA, Preference: 8, Lifetime: 100}, {L64: internal, Preference: 9, Lifetime: 100},
	}}
	b.handle(true, mine, theirs, outward, own)
	_, u := b.take(1)
	if !slices.Equal(u.Locators, own.Locators[:2]) {
		t.Errorf("outside %+v, refused %v", u.Locators, b.refused)
	}
	b.handle(false, theirs, roam.ILV{L64: siteA, NID: insideNID}, inward, u.Ack())
	if _, u = b.take(9); !slices.Equal(u.Locators, own.Locators) {
		t.Errorf("the acknowledgement has %+v", u.Locators)
	}
	b.HandleSites(b.now, []Site{{siteA, 1, false}, {siteB, 2, true}})
	b.until(b.now.Add(time.Second))
	b.sent = nil
	own.Locators = []ilnp.LocatorEntry{{L64: siteA, Preference: 1, Lifetime: 100}}
	b.handle(true, mine, theirs, outward, own)
	if len(b.sent) != 0 || !slices.Equal(b.refused, []Refusal{UnknownLocators}) {
		t.Errorf("a locator that is down: %+v, refused %v", b.sent, b.refused)
	}
}
