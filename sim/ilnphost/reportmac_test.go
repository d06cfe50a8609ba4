package ilnphost

import (
	"math/rand/v2"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	"roam/nidkey"
	ilnpwire "roam/wire/ilnp"
)

// withProofs has both hosts of a world prove who they are.
func withProofs(t *testing.T) func(*world) {
	return func(w *world) {
		t.Helper()
		p := &proving{world: w, keys: make(map[*Node]*nidkey.Key)}
		for i, h := range []*Node{w.mobile, w.server} {
			k, err := nidkey.New(bytesOf{rand.New(rand.NewPCG(9, uint64(i)))})
			if err != nil {
				t.Fatal(err)
			}
			p.keys[h], h.cfg.Key = &k, &k
		}
		p.know(t, w.mobile, w.server, netS)
		p.know(t, w.server, w.mobile, netA, netB)
	}
}

// withKeys gives both hosts the other one's key. Their session begins without a proof, and so says nothing of reports.
func withKeys(t *testing.T) func(*world) {
	return func(w *world) { w.pair(t) }
}

// TestReportsSuppressedForAWhile: somebody on all paths of a session suppresses reports for a while and leaves. Who
// then drops data on one path gains as little as before.
func TestReportsSuppressedForAWhile(t *testing.T) {
	x := newRobber(t, withProofs(t))
	x.Tap = func(q Packet) *Packet {
		if e, ok := replyOf(q); ok && len(e.Data) == ilnpwire.SealedReportLen {
			return withData(q, suppresses(x, false, e.Data))
		}
		return &q
	}
	x.Run(12 * time.Second)
	x.Tap = nil
	x.Run(40 * time.Second)
	at := x.Elapsed()
	x.Tap = x.tap
	x.Run(10 * time.Second)
	_, up := x.up.gapAfter(at, x.Elapsed())
	_, down := x.down.gapAfter(at, x.Elapsed())
	if max(up, down) > 1500*time.Millisecond {
		t.Errorf("%v and %v of 10 s lost", up, down)
	}
}

// TestKeyedReports: in keyed sessions reports have MACs, and say what they say elsewhere, whichever way the session
// began. Of what both ends sent they refuse nothing.
func TestKeyedReports(t *testing.T) {
	for name, before := range map[string]func(*testing.T) func(*world){"proof": withProofs, "keys": withKeys} {
		p := newForked(t, ilnp.Duality, multipath.Normal, 1, near, before(t))
		p.mobile.at(1).set(Access{Delay: 5 * time.Millisecond, Loss: 0.02})
		sealed, plain := 0, 0
		p.Tap = func(q Packet) *Packet {
			if e, ok := replyOf(q); ok && len(e.Data) == ilnpwire.SealedReportLen {
				sealed++
			} else if ok && len(e.Data) == ilnpwire.ReportLen {
				plain++
			}
			return &q
		}
		p.Run(10 * time.Second)
		if sealed == 0 || plain > 0 {
			t.Errorf("%s: %d reports with a MAC, %d without", name, sealed, plain)
		}
		for _, h := range []*Node{p.mobile, p.server} {
			for net, loss := range map[roam.L64]float64{netA: 0.02, netB: 0} {
				s := h.states(p.other(h))[net]
				if !s.Out.LossKnown || s.Out.Loss < loss-0.015 || s.Out.Loss > loss+0.015 || s.Out.Life != multipath.Lives {
					t.Errorf("%s: %s, %v: %+v", name, h.name, net, s.Out)
				}
			}
			n := h.Core().RejectedInput()
			delete(n, "proof that is old or came before") // its challenge
			if len(n) > 0 {
				t.Errorf("%s: %s refused %v", name, h.name, n)
			}
		}
	}
}

// TestKeyedPeerWithoutMACs: the reports of a keyed peer of a build before, which returns longer requests as they came,
// count as before.
func TestKeyedPeerWithoutMACs(t *testing.T) {
	p := newForked(t, ilnp.Duality, multipath.Normal, 1, near, withKeys(t), func(w *world) {
		w.Tap = func(q Packet) *Packet {
			e, ok := replyOf(q)
			if !ok || len(e.Data) != ilnpwire.SealedReportLen {
				return &q
			}
			r, _ := ilnpwire.ParseReport(e.Data)
			return withData(q, r.AppendRequest(nil, [16]byte(e.Data)))
		}
	})
	p.Run(10 * time.Second)
	for _, h := range []*Node{p.mobile, p.server} {
		for net, s := range h.states(p.other(h)) {
			if s.Out.Life != multipath.Lives || s.Out.Rate < 400_000 {
				t.Errorf("%s, %v: %+v", h.name, net, s.Out)
			}
		}
		if n := h.Core().RejectedInput(); len(n) > 0 {
			t.Errorf("%s refused %v", h.name, n)
		}
	}
}

// TestReportsOfAPeerThatGetsTheKey: the hosts of a live session get each other's key, one after the other. Until the
// second has it reports count without a MAC; after its next update they have one, both ways.
func TestReportsOfAPeerThatGetsTheKey(t *testing.T) {
	p := newForked(t, ilnp.Duality, multipath.Normal, 1, near)
	p.pairAfter(t, 5*time.Second)
	sealed := map[bool]int{}
	p.Tap = func(q Packet) *Packet {
		if e, ok := replyOf(q); ok && len(e.Data) == ilnpwire.SealedReportLen {
			sealed[q.Src.NID == mobileNID]++
		}
		return &q
	}
	p.Run(5 * time.Second)
	if n := sealed[false]; n > 0 {
		t.Errorf("the server, which has the key last, is asked for %d reports with a MAC before it has sent an update", n)
	}
	p.server.Up(2, netT, near, roam.Infinite)
	p.Run(5 * time.Second)
	if sealed[true] == 0 || sealed[false] == 0 {
		t.Errorf("%d reports of the mobile host with a MAC, %d of the server", sealed[true], sealed[false])
	}
}

// replyOf returns the reply to a probe; false: it is none.
func replyOf(p Packet) (ilnpwire.Echo, bool) { return echoOf(p, ilnpwire.TypeEchoReply) }

func echoOf(p Packet, typ uint8) (e ilnpwire.Echo, ok bool) {
	q, err := ilnpwire.ParseControl(p.Control, udpPort)
	if p.Control == nil || err != nil || q.Type != typ {
		return e, false
	}
	e, err = ilnpwire.ParseEcho(q.Payload)
	return e, err == nil
}

// withData returns a probe, or a reply, with other data.
func withData(p Packet, data []byte) *Packet {
	q, err := ilnpwire.ParseControl(p.Control, udpPort)
	if err != nil {
		return nil
	}
	e, err := ilnpwire.ParseEcho(q.Payload)
	if err == nil {
		p.Control, err = ilnpwire.BuildEcho(q.Src, q.Dst, q.Nonce, e.Request, e.ID, e.Seq, data)
	}
	if err != nil {
		return nil
	}
	return &p
}

// robber is on one of the two paths of a session. It drops all data there, and changes what probes are answered, that
// both ends go on to send there.
type robber struct {
	*forked
	on      roam.L64                   // its path, by the mobile host's locator
	dropped map[bool]multipath.Traffic // of the datagrams up and down
	base    map[bool]ilnpwire.Counts   // that the ends had received when it began
	kept    map[bool][]byte            // the first report that it has read on this path, by whether it went up,
	moved   map[bool][]byte            // and the last one on the other path
	lies    []lie                      // by turns
	ask     func(data []byte) []byte   // what it makes of requests; nil: nothing
	told    map[bool]int               // lies
}

// newRobber has one on a path of a session.
func newRobber(t *testing.T, before ...func(*world)) *robber {
	t.Helper()
	return &robber{
		forked: newForked(t, ilnp.Duality, multipath.Normal, 1, near, before...), on: netB,
		dropped: map[bool]multipath.Traffic{}, base: map[bool]ilnpwire.Counts{},
		kept: map[bool][]byte{}, moved: map[bool][]byte{}, told: map[bool]int{},
	}
}

// lie returns what the robber makes of a report; nil: it leaves it.
type lie func(x *robber, up bool, data []byte) []byte

func (x *robber) tap(q Packet) *Packet {
	is, up := q.Src.L64 == x.on || q.Dst.L64 == x.on, q.Src.NID == mobileNID
	if q.Control == nil {
		if is {
			n := x.dropped[up]
			x.dropped[up] = multipath.Traffic{Packets: n.Packets + 1, Bytes: n.Bytes + 1000}
			return nil
		}
		return &q
	}
	if e, ok := echoOf(q, ilnpwire.TypeEchoRequest); ok && is && x.ask != nil && len(e.Data) >= ilnpwire.ReportLen {
		x.told[!up]++ // the answer goes the other way
		return withData(q, x.ask(e.Data))
	}
	e, ok := replyOf(q)
	if _, err := ilnpwire.ParseReport(e.Data); !ok || err != nil {
		return &q
	}
	if !is {
		x.moved[up] = e.Data
		return &q
	}
	if x.kept[up] == nil {
		x.kept[up] = e.Data
	}
	if len(x.lies) > 0 {
		tells := x.lies[(x.told[false]+x.told[true])%len(x.lies)]
		if data := tells(x, up, e.Data); data != nil {
			x.told[up]++
			return withData(q, data)
		}
	}
	return &q
}

// forges says that all has arrived that its reader has sent.
func forges(x *robber, up bool, data []byte) []byte {
	r, _ := ilnpwire.ParseReport(data)
	if _, there := x.base[up]; !there {
		x.base[up] = r.Received
	}
	n := x.dropped[!up] // the reply to a probe that went down goes up
	r.Received = ilnpwire.Counts{Packets: x.base[up].Packets + n.Packets, Bytes: x.base[up].Bytes + n.Bytes}
	return r.AppendReply(nil, [16]byte(data))
}

// suppresses says that there is no report.
func suppresses(_ *robber, _ bool, data []byte) []byte {
	r, _ := ilnpwire.ParseReport(data)
	return r.AppendRequest(nil, [16]byte(data))
}

// behind puts another report behind the token of one.
func behind(data, report []byte) []byte {
	if report == nil {
		return nil
	}
	return append(append([]byte(nil), data[:16]...), report[16:]...)
}

// liesWith returns those that no keyed session believes; foreign is a report of another session between the same hosts.
func liesWith(foreign []byte) []lie {
	return []lie{
		forges,
		func(x *robber, up bool, data []byte) []byte { return forges(x, up, data)[:ilnpwire.ReportLen] }, // cuts the MAC
		func(_ *robber, _ bool, data []byte) []byte { return data[:len(data)-1] },                        // truncates
		func(x *robber, up bool, data []byte) []byte { // replays
			if string(x.kept[up]) == string(data) {
				return nil
			}
			return behind(data, x.kept[up])
		},
		func(x *robber, up bool, data []byte) []byte { return behind(data, x.moved[up]) }, // moves it from the other path
		func(x *robber, up bool, data []byte) []byte { return behind(data, x.kept[!up]) }, // reflects
		func(_ *robber, _ bool, data []byte) []byte { return behind(data, foreign) },      // of another session
	}
}

// TestLiarOnThePath: on one of two paths somebody drops all data, lets probes pass, and would have both ends
// believe that the data arrive. Without keys they do, and half of all data are lost for as long as it goes on. In a
// keyed session no report counts that it makes, copies, moves, diverts or suppresses, and the path is left as soon as
// one that only drops data (TestPathThatDropsDataAlone).
func TestLiarOnThePath(t *testing.T) {
	const over = 10 * time.Second
	diverts := func(data []byte) []byte { // has the other path reported
		r, _ := ilnpwire.ParseReport(data)
		r.Other, r.Near, r.Far = true, netS, netA
		return r.AppendRequest(nil, [16]byte(data))
	}
	var foreign []byte
	for _, c := range []struct {
		name     string
		before   func(*testing.T) func(*world) // nil: no keys
		lies     []lie
		ask      func(data []byte) []byte
		believed bool
	}{
		{name: "no keys", lies: []lie{forges}, believed: true},
		{name: "forges", before: withProofs, lies: []lie{forges}},
		{name: "no proof", before: withKeys, lies: []lie{forges}},
		{name: "all", before: withProofs},
		{name: "suppresses", before: withProofs, lies: []lie{suppresses}},
		{name: "diverts", before: withProofs, ask: diverts},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before []func(*world)
			if c.before != nil {
				before = append(before, c.before(t))
			}
			x := newRobber(t, before...)
			x.lies, x.ask = c.lies, c.ask
			if c.name == "all" {
				x.lies = liesWith(foreign)
			}
			at := x.Elapsed()
			x.Tap = x.tap
			x.Run(over)
			foreign = x.kept[false]
			_, up := x.up.gapAfter(at, x.Elapsed())
			_, down := x.down.gapAfter(at, x.Elapsed())
			n := x.mobile.Core().RejectedInput()
			t.Logf("%v and %v of %v lost; %d lies to the mobile host, which refused %v", up, down, over, x.told[false], n)
			refused := int(n["report without mac"] + n["report with a wrong mac"] + n["malformed report"])
			switch {
			case c.believed:
				if up < over*4/10 || refused > 0 {
					t.Error("the lie has no effect without keys")
				}
				return
			case max(up, down) > 1500*time.Millisecond:
				t.Errorf("%v and %v lost", up, down)
			case c.name != "suppresses" && (refused < x.told[false]-2 || refused < 20): // two may be under way
				t.Errorf("refused %d of %d lies", refused, x.told[false])
			}
			if q := x.mobile.peer(x.server); q.State != ilnp.Established || !q.Keyed {
				t.Errorf("the session is %+v", q)
			}
		})
	}
}
