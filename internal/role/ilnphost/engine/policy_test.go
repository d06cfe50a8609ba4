package engine

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/hostnet"
	ilnpwire "roam/wire/ilnp"
)

// rulebook obstructs what leaves from or goes to listed locators.
type rulebook struct {
	from, to map[roam.L64]bool
	all      map[roam.L64]bool // everything from there, but for to
	spared   map[roam.L64]bool // destinations that all does not hold for
	asked    int
}

func (b *rulebook) Obstruction(f hostnet.Flow) string {
	b.asked++
	src, dst := roam.ILVFromAddr(f.Src).L64, roam.ILVFromAddr(f.Dst).L64
	if b.from[src] || b.to[dst] || b.all[src] && !b.spared[dst] {
		return "the rulebook"
	}
	return ""
}

func (b *rulebook) Everything(f hostnet.Flow) string {
	f.Dst = netip.MustParseAddr("2000::1")
	return b.Obstruction(f)
}

// book is a data plane that keeps what is obstructed.
type book struct {
	table
	obstructed map[dataplane.Obstruction]bool
	ever       map[ilnp.Path]bool // that any entry had
}

func (p *book) Upsert(e ilnp.Entry, turn dataplane.Turn) error {
	for _, path := range append(slices.Clone(e.Paths), e.Reserve...) {
		p.ever[path] = true
	}
	return p.table.Upsert(e, turn)
}

func (p *book) SetObstructed(t map[dataplane.Obstruction]bool) error {
	p.obstructed = maps.Clone(t)
	return nil
}

func (p *book) Delete(k ilnp.SessionKey) error {
	delete(p.entries, k)
	return nil
}

const second roam.L64 = 0x2001_0db8_000b_0000

// obeying is an engine with two uplinks and a correspondent, whose host has policies.
func obeying(t *testing.T, b *rulebook) (*Engine, *book, *outside, []byte) {
	t.Helper()
	p := &book{table: table{entries: make(map[ilnp.SessionKey]ilnp.Entry)}, ever: make(map[ilnp.Path]bool)}
	e, o, first := attached(t, &p.table, nil)
	e.cfg.Plane, e.cfg.Policy, e.cfg.NID = p, b, ourNID
	e.handleNetwork(time.Now(), hostnet.PolicyChanged{Armed: true})
	e.handleNetwork(time.Now(), hostnet.UplinkChanged{Uplink: hostnet.Uplink{Link: 8, Name: "net8", Up: true, Routed: true, HasMAC: true}})
	e.handleNetwork(time.Now(), hostnet.LocatorChanged{PrefixEvent: roam.PrefixEvent{LinkLocator: roam.LinkLocator{Link: 8, L64: second}, Present: true, Preferred: time.Hour}})
	e.drain(time.Now())
	return e, p, o, first
}

// sources returns where an entry sends from, and where what was sent came from.
func sources(t *testing.T, p *book, o *outside) (data, control []roam.L64) {
	t.Helper()
	for _, path := range p.entries[sessionKey].Paths {
		data = append(data, path.Local.L64)
	}
	for _, b := range append(slices.Clone(o.sent), o.past...) {
		q, err := ilnpwire.ParsePacket(b)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(control, q.Src.L64) {
			control = append(control, q.Src.L64)
		}
	}
	return data, control
}

// TestEngineObeysPolicies: neither an entry nor a control message uses an obstructed
// path from the first packet on, and all is as before once the policy is gone.
func TestEngineObeysPolicies(t *testing.T) {
	for name, c := range map[string]struct {
		book rulebook
		want []roam.L64
	}{
		"none":       {rulebook{}, []roam.L64{second}},
		"the newest": {rulebook{from: map[roam.L64]bool{second: true}}, []roam.L64{here}},
		"both":       {rulebook{from: map[roam.L64]bool{second: true, here: true}}, nil},
		"the peer":   {rulebook{to: map[roam.L64]bool{there: true}}, nil},
		"everything": {rulebook{all: map[roam.L64]bool{second: true, here: true}}, nil},
	} {
		e, p, o, first := obeying(t, &c.book)
		e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.Miss, Key: sessionKey, Packet: first})
		e.policy.writeAt = time.Time{} // its time has come, however long the first write took
		e.drain(time.Now())
		data, control := sources(t, p, o)
		if !slices.Equal(data, c.want) || len(control) > 0 && !slices.Equal(control, c.want) || len(c.want) == 0 && len(control) > 0 {
			t.Errorf("%s: data from %v, control from %v, want %v", name, data, control, c.want)
		}
		for path := range p.ever {
			if c.book.Obstruction(hostnet.Flow{Src: roam.ILV{L64: path.Local.L64}.Addr(), Dst: roam.ILV{L64: path.Remote}.Addr()}) != "" {
				t.Errorf("%s: an entry had %v for a moment", name, path)
			}
		}
		if shown := p.obstructed; (len(shown) > 0) == (name == "none") {
			t.Errorf("%s: the data plane knows %v", name, shown)
		}
		c.book = rulebook{}
		e.handleNetwork(time.Now(), hostnet.PolicyChanged{Armed: false})
		e.policy.writeAt = time.Time{} // its time has come
		e.drain(time.Now())
		if data, _ := sources(t, p, o); !slices.Equal(data, []roam.L64{second}) || len(p.obstructed) > 0 {
			t.Errorf("%s, gone: data from %v, obstructed %v", name, data, p.obstructed)
		}
	}
}

// TestExceptionsFromEverything: where nothing may leave from a locator but what goes to
// one correspondent, the programs go on answering that one.
func TestExceptionsFromEverything(t *testing.T) {
	b := &rulebook{all: map[roam.L64]bool{second: true}, spared: map[roam.L64]bool{there: true}}
	e, p, _, first := obeying(t, b)
	e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.Miss, Key: sessionKey, Packet: first})
	e.drain(time.Now())
	e.policy.writeAt = time.Time{}
	e.drain(time.Now())
	want := map[dataplane.Obstruction]bool{{From: second}: true, {From: second, To: them}: false}
	if !maps.Equal(p.obstructed, want) {
		t.Errorf("the data plane knows %v, want %v", p.obstructed, want)
	}
}

// TestPolicyIsAskedOnce: a path is asked about once until policies change, and never on
// a host without any.
func TestPolicyIsAskedOnce(t *testing.T) {
	b := &rulebook{from: map[roam.L64]bool{second: true}}
	e, p, _, first := obeying(t, b)
	e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.Miss, Key: sessionKey, Packet: first})
	e.drain(time.Now())
	before := b.asked
	for range 100 {
		e.upsert(time.Now(), e.permitted(time.Now(), p.entries[sessionKey]))
	}
	if b.asked != before {
		t.Errorf("asked %d times more", b.asked-before)
	}
	e.handleNetwork(time.Now(), hostnet.PolicyChanged{Armed: false})
	e.drain(time.Now())
	before = b.asked
	e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.Miss, Key: sessionKey, Packet: first})
	e.drain(time.Now())
	if b.asked != before {
		t.Errorf("asked %d times without any policy", b.asked-before)
	}
}

// TestManyPeersAndAPolicy: with very many sessions, a change of policy does not keep
// the engine from its other work for long.
func TestManyPeersAndAPolicy(t *testing.T) {
	const peers = 10_000
	b := &rulebook{}
	e, p, _, _ := obeying(t, b)
	list := make(map[roam.L64]bool)
	for i := range peers {
		list[there+roam.L64(i)] = true
		nid := peerNID + roam.NID(i)
		entry := ilnp.Entry{Key: ilnp.SessionKey{Local: ourNID, Remote: nid}, State: ilnp.Established, LocalNID: ourNID, RemoteNID: nid,
			Accept: []roam.L64{there + roam.L64(i)}, Paths: []ilnp.Path{{Local: roam.LinkLocator{Link: 8, L64: second}, Remote: there + roam.L64(i)}}}
		e.entries[entry.Key] = entry
	}
	b.to = list
	before := b.asked
	e.handleNetwork(time.Now(), hostnet.PolicyChanged{Armed: true})
	if n := b.asked - before; n > 4*policyBatch {
		t.Errorf("%d questions at once", n)
	}
	turns := 0
	for ; !e.policy.due().IsZero() && turns < 2*peers; turns++ {
		e.handleTimer(time.Now())
		e.drain(time.Now())
		e.policy.writeAt = time.Time{}
	}
	if len(e.Obstructed()) != peers || len(p.obstructed) != 2*peers {
		t.Errorf("%d correspondents checked in %d turns, %d known to the data plane, want %d", len(e.Obstructed()), turns, len(p.obstructed), peers)
	}
	if turns > peers/policyBatch+10 {
		t.Errorf("it took %d turns", turns)
	}
}

// TestManyLiteralsAndAPolicy: with very many known peers, neither the real addresses of all nor a change of policies or
// of our locators keeps the engine from its other work for long. What was known holds until it is checked.
func TestManyLiteralsAndAPolicy(t *testing.T) {
	const peers = 1000
	b := &rulebook{to: make(map[roam.L64]bool)}
	e, _, _, _ := obeying(t, b)
	listed := make(map[roam.ILV]roam.NID) // as in the data plane: a predecessor has left half of them
	at := func(i int) roam.ILV { return roam.ILV{L64: there + roam.L64(i), NID: peerNID + roam.NID(i)} }
	for i := range peers / 2 {
		listed[at(i)] = at(i).NID
	}
	tick := func(what string) {
		t.Helper()
		want, before := make(map[roam.ILV]roam.NID), b.asked
		for i := range peers {
			want[at(i)] = at(i).NID
		}
		e.OmitObstructed(want, func(at roam.ILV) bool { return listed[at] != 0 })
		if n := b.asked - before; n > 3*policyBatch {
			t.Errorf("%s: %d questions at once", what, n)
		}
		listed = want
	}
	turns := func(what string) {
		t.Helper()
		n := 0
		for ; !e.policy.due().IsZero() && n < peers; n++ {
			before := b.asked
			e.handleTimer(time.Now())
			if n := b.asked - before; n > 3*policyBatch {
				t.Errorf("%s: %d questions at once", what, n)
			}
			e.drain(time.Now())
			e.policy.writeAt = time.Time{}
		}
		if n > peers/policyBatch+10 {
			t.Errorf("%s: took %d turns", what, n)
		}
	}
	if tick("at first"); len(listed) < peers/2 || len(listed) > peers/2+policyBatch {
		t.Errorf("%d listed before they are checked, %d were", len(listed), peers/2)
	}
	if turns("at first"); len(listed) == peers {
		t.Error("nothing was left to check")
	}
	if tick("checked"); len(listed) != peers {
		t.Errorf("%d listed, want all", len(listed))
	}
	for i := range peers / 4 {
		b.to[at(i).L64] = true
	}
	before := b.asked
	e.handleNetwork(time.Now(), hostnet.PolicyChanged{Armed: true})
	if n := b.asked - before; n > 4*policyBatch {
		t.Errorf("a change of policies: %d questions at once", n)
	}
	if tick("changed"); len(listed) < peers-policyBatch {
		t.Errorf("%d listed before they are checked anew", len(listed))
	}
	turns("changed")
	if tick("checked anew"); len(listed) != peers-peers/4 {
		t.Errorf("%d listed, want those that no policy obstructs", len(listed))
	}
	clear(b.to)
	e.handleNetwork(time.Now(), hostnet.LocatorChanged{PrefixEvent: roam.PrefixEvent{
		LinkLocator: roam.LinkLocator{Link: 8, L64: second + 1}, Present: true, Preferred: time.Hour}})
	tick("another locator")
	turns("another locator")
	if tick("from another locator"); len(listed) != peers {
		t.Errorf("%d listed, want all: nothing obstructs the new locator", len(listed))
	}
	e.handleNetwork(time.Now(), hostnet.PolicyChanged{Armed: false})
	if tick("no policy"); len(e.literals.obstructed) > 0 || len(listed) != peers {
		t.Errorf("without policies: %d verdicts, %d listed", len(e.literals.obstructed), len(listed))
	}
}

// TestFewLiteralsAndAPolicy: with few known peers all is followed at once, and forgotten peers are not kept.
func TestFewLiteralsAndAPolicy(t *testing.T) {
	b := &rulebook{}
	e, _, _, _ := obeying(t, b)
	omits := func() bool {
		want := map[roam.ILV]roam.NID{them: peerNID}
		e.OmitObstructed(want, func(roam.ILV) bool { return false })
		return len(want) == 0
	}
	if omits() {
		t.Error("omitted without an obstacle")
	}
	b.to = map[roam.L64]bool{there: true}
	e.handleNetwork(time.Now(), hostnet.PolicyChanged{Armed: true})
	if !omits() {
		t.Error("listed, and obstructed")
	}
	before := b.asked
	if omits(); b.asked != before {
		t.Error("asked again without a change")
	}
	locator := func(l roam.LinkLocator, present bool) {
		e.handleNetwork(time.Now(), hostnet.LocatorChanged{PrefixEvent: roam.PrefixEvent{
			LinkLocator: l, Present: present, Preferred: time.Hour}})
	}
	locals := slices.Collect(maps.Keys(e.uplinks.locals))
	for _, l := range locals {
		locator(l, false)
	}
	b.to = nil
	e.handleNetwork(time.Now(), hostnet.PolicyChanged{Armed: true})
	for _, l := range locals {
		locator(l, true)
	}
	if omits() {
		t.Errorf("omitted for a policy that went while there was none of our locators %v", locals)
	}
	e.OmitObstructed(nil, nil)
	if len(e.literals.obstructed) > 0 {
		t.Error("a peer that nobody knows is kept")
	}
}

// TestCorrespondentsOfOneNID: two that claim one NID, at different locators, do not
// make the engine replace what is obstructed without end.
func TestCorrespondentsOfOneNID(t *testing.T) {
	b := &rulebook{from: map[roam.L64]bool{second: true}}
	e, _, _, _ := obeying(t, b)
	entry := func(handle roam.NID, at roam.L64) ilnp.Entry {
		return ilnp.Entry{Key: ilnp.SessionKey{Local: ourNID, Remote: handle}, LocalNID: ourNID, RemoteNID: peerNID, Accept: []roam.L64{at}}
	}
	one, other := entry(peerNID, there), entry(peerNID+1<<32, there+1)
	for range 3 {
		e.permitted(time.Now(), one)
		e.permitted(time.Now(), other)
	}
	if n := len(e.Obstructed()[peerNID]); n != 2 {
		t.Errorf("%d obstructed paths, want those to both", n)
	}
	for i := range 2 * policyPaths {
		e.permitted(time.Now(), entry(peerNID, there+roam.L64(i)))
	}
	if n := len(e.Obstructed()[peerNID]); n > policyPaths {
		t.Errorf("%d obstructed paths are kept for one node", n)
	}
	e.entries[one.Key] = one
	e.forgetPolicy(time.Now(), one.Key)
	if n := len(e.Obstructed()); n != 0 {
		t.Errorf("%d correspondents are left, want none", n)
	}
}
