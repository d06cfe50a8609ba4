package ilnphost

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"roam"
	"roam/flowrule"
	"roam/ilnp"
	"roam/internal/testutil"
	"roam/multipath"
	"roam/wire/ip6"
)

// The three links of the tests by the locators on them.
const locA, locB, locC = here, here + 1, here + 2

var linkOf = map[roam.L64]flowrule.Link{
	locA: {Name: "a", Preference: 10}, locB: {Name: "b", Preference: 20}, locC: {Name: "c", Preference: 30},
}

// flowRules makes a set ready for WriteRules.
func flowRules(set ...flowrule.Rule) FlowRules {
	return FlowRules{Set: set}
}

// obey gives an entry the tables of rules that a core gives it; lowdelay takes the first path of order.
func obey(p *ilnp.Entry, set flowrule.Set, order ...ilnp.Path) {
	carriers := slices.Concat(p.Paths, p.Ruled)
	links := make([]flowrule.Link, len(carriers))
	for i, path := range carriers {
		links[i] = linkOf[path.Local.L64]
	}
	demands := make(map[int]multipath.Demand[ilnp.Path])
	for n, rule := range set {
		if rule.Policy == flowrule.Adaptive {
			continue
		}
		var d multipath.Demand[ilnp.Path]
		for _, i := range rule.Order(links) {
			d.Paths, d.Shares = append(d.Paths, carriers[i]), append(d.Shares, rule.Parts(links)[i])
		}
		switch rule.Policy {
		case flowrule.Flow:
			d.Form = multipath.ByHash
		case flowrule.Failover, flowrule.LowDelay:
			d.Form = multipath.OnBest
		}
		if i := slices.IndexFunc(order, func(q ilnp.Path) bool { return slices.Contains(d.Paths, q) }); i >= 0 {
			d.Paths = order[i : i+1]
		}
		demands[n] = d
	}
	choose(p, demands)
}

// ruledSession is an established session that sends from a, with further paths from b and c for
// rules; it has all rules of the set.
func ruledSession(r *rig, rules FlowRules, remotes ...roam.L64) ilnp.Entry {
	r.t.Helper()
	r.uplink(locA, locB, locC)
	number := r.nextRules()
	r.writeRules(number, rules)
	p := entryFor(remotes...)
	p.Rules = ilnp.RuleUse{Mask: 1<<len(rules.Set) - 1, Set: number}
	for _, l := range []roam.L64{locB, locC} {
		for _, d := range remotes {
			p.Ruled = append(p.Ruled, ilnp.Path{Local: roam.LinkLocator{Link: loopback, L64: l}, Remote: d})
		}
	}
	obey(&p, rules.Set)
	r.upsert(p)
	return p
}

func (r *rig) nextRules() uint32 { return r.rules.next(r.known) }

func (r *rig) writeRules(number uint32, rules FlowRules) {
	r.t.Helper()
	if got, err := r.WriteRules(number, rules); err != nil || got != number {
		r.t.Fatalf("wrote rules %d under %d: %v", number, got, err)
	}
}

// classed gives an IPv6 packet a DSCP.
func classed(b []byte, dscp uint8) []byte {
	b[0] |= dscp >> 2
	b[1] = b[1]&0x3f | dscp<<6
	return b
}

// from returns the locator from which a packet of a program leaves.
func (r *rig) from(p []byte) roam.L64 {
	r.t.Helper()
	_, out := r.egress(p)
	return roam.L64(binary.BigEndian.Uint64(out[8:]))
}

// datagramOn is a datagram between ports.
func datagramOn(from, to uint16, n int) []byte {
	b := udp(n)
	binary.BigEndian.PutUint16(b, from)
	binary.BigEndian.PutUint16(b[2:], to)
	return toPeer(ip6.UDP, b)
}

// by is a rule that has one link only.
func by(link string, m flowrule.Match) flowrule.Rule {
	return flowrule.Rule{Match: m, Policy: flowrule.Failover, Links: []string{link}}
}

// The first rule that matches decides; what none matches, or an adaptive one, leaves as ever,
// and never by a path that is for rules only.
func TestFirstRuleDecides(t *testing.T) {
	r := newRig(t)
	one := func(p uint16) []flowrule.Range { return []flowrule.Range{{First: p, Last: p}} }
	ranges := []flowrule.Range{{First: 50, Last: 60}, {First: 1000, Last: 1999}}
	ruledSession(r, flowRules(
		flowrule.Rule{Match: flowrule.Match{Protocol: flowrule.UDP, Ports: one(53)}},
		by("b", flowrule.Match{Protocol: flowrule.UDP, Ports: ranges}),
		by("c", flowrule.Match{OwnPorts: one(7)}),
		by("c", flowrule.Match{DSCP: 1<<46 | 1<<10}),
		by("b", flowrule.Match{Protocol: flowrule.ICMPv6}),
	), there)
	for name, c := range map[string]struct {
		packet []byte
		want   roam.L64
	}{
		"exempt":                {datagramOn(5000, 53, 10), locA},
		"exempt, any DSCP":      {classed(datagramOn(5000, 53, 10), 46), locA},
		"first of a range":      {datagramOn(5000, 50, 10), locB},
		"last of another range": {datagramOn(5000, 1999, 10), locB},
		"beyond":                {datagramOn(5000, 2000, 10), locA},
		"port of the wrong end": {datagramOn(55, 5000, 10), locA},
		"rule before":           {datagramOn(7, 54, 10), locB},
		"own port":              {datagramOn(7, 5000, 10), locC},
		"own port of TCP":       {toPeer(ip6.TCP, segmentOf(7, 55, flagACK)), locC},
		"wrong protocol":        {toPeer(ip6.TCP, segmentOf(9, 55, flagACK)), locA},
		"DSCP":                  {classed(datagramOn(5000, 5001, 10), 46), locC},
		"DSCP of TCP":           {classed(toPeer(ip6.TCP, segmentOf(9, 55, flagACK)), 10), locC},
		"another DSCP":          {classed(datagramOn(5000, 5001, 10), 45), locA},
		"ping":                  {toPeer(ip6.ICMPv6, []byte{128, 0, 0, 0, 0, 1, 0, 1}), locB},
	} {
		if got := r.from(c.packet); got != c.want {
			t.Errorf("%s: leaves from %v, want %v", name, got, c.want)
		}
	}
}

func weighted(shares ...flowrule.Share) flowrule.Rule {
	return flowrule.Rule{Policy: flowrule.Weighted, Shares: shares}
}

func share(link string, perCent int) flowrule.Share {
	return flowrule.Share{Link: link, PerCent: perCent}
}

// shares sends packets of two sizes and returns which part of their bytes left from each
// locator.
func (r *rig) shares(packets int) map[roam.L64]float64 {
	r.t.Helper()
	bytes, total := make(map[roam.L64]float64), 0.0
	for i := range packets {
		n := 100 + 1100*(i*7%3)/2
		bytes[r.from(datagramOn(5000, 5001, n))] += float64(n)
		total += float64(n)
	}
	for l := range bytes {
		bytes[l] /= total
	}
	return bytes
}

// Links get their shares of the bytes, also where there are several paths by one of them.
func TestRuleShares(t *testing.T) {
	for name, c := range map[string]struct {
		rule    flowrule.Rule
		remotes []roam.L64
		want    map[roam.L64]float64
	}{
		"80 and 20": {
			weighted(share("a", 80), share("b", 20)),
			[]roam.L64{there}, map[roam.L64]float64{locA: 0.8, locB: 0.2},
		},
		"50, 30 and 20": {
			weighted(share("a", 50), share("b", 30), share("c", 20)),
			[]roam.L64{there, else1}, map[roam.L64]float64{locA: 0.5, locB: 0.3, locC: 0.2},
		},
		"99 and 1": {
			weighted(share("c", 99), share("b", 1)),
			[]roam.L64{there}, map[roam.L64]float64{locB: 0.01, locC: 0.99},
		},
		"preferences": {
			flowrule.Rule{Policy: flowrule.Weighted},
			[]roam.L64{there}, map[roam.L64]float64{locA: 5. / 12, locB: 4. / 12, locC: 3. / 12},
		},
		"equal": {
			flowrule.Rule{Policy: flowrule.Equal, Links: []string{"b", "c"}},
			[]roam.L64{there, else1}, map[roam.L64]float64{locB: 0.5, locC: 0.5},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			ruledSession(r, flowRules(c.rule), c.remotes...)
			got := r.shares(3000)
			for _, l := range []roam.L64{locA, locB, locC} {
				if math.Abs(got[l]-c.want[l]) > 0.01 {
					t.Errorf("%s: %v, want %v", name, got, c.want)
					break
				}
			}
		})
	}
}

// A link that goes leaves its share to the others, and gets no more than its share when it is
// back.
func TestRuleSharesAreNotMadeUpFor(t *testing.T) {
	r := newRig(t)
	set := flowrule.Set{{Policy: flowrule.Equal, Links: []string{"a", "b"}}}
	p := ruledSession(r, flowRules(set...), there)
	r.shares(300)
	ruled := p.Ruled
	down := func(usable bool) {
		if p.Seq, p.Ruled = p.Seq+1, ruled[1:]; usable {
			p.Ruled = ruled
		}
		var es []UplinkEntry
		for _, l := range []roam.L64{locA, locB, locC} {
			local := roam.LinkLocator{Link: loopback, L64: l}
			es = append(es, UplinkEntry{Local: local, Usable: usable || l != locB, MTU: 1500})
		}
		r.must(r.SetUplinks(es))
		obey(&p, set)
		r.upsert(p)
	}
	down(false)
	if got := r.shares(30_000); got[locA] != 1 {
		t.Errorf("without a link: %v", got)
	}
	down(true)
	if got := r.shares(3000); got[locB] > 0.6 { // of 2 MB; it had lost 20

		t.Errorf("with the link back: %v", got)
	}
}

// Failover takes the first link of the rule that works; without any, packets leave as ever, and so they do
// until the table follows.
func TestRuleFailover(t *testing.T) {
	r := newRig(t)
	set := flowrule.Set{{Policy: flowrule.Failover, Links: []string{"c", "b"}}}
	p := ruledSession(r, flowRules(set...), there)
	ruled := p.Ruled
	for _, c := range []struct {
		there []roam.L64
		want  roam.L64
	}{
		{[]roam.L64{locA, locB, locC}, locC}, {[]roam.L64{locA, locB}, locB}, {[]roam.L64{locA}, locA},
		{[]roam.L64{locA, locC}, locC},
	} {
		r.uplink(c.there...)
		p.Seq++
		isGone := func(q ilnp.Path) bool { return !slices.Contains(c.there, q.Local.L64) }
		p.Ruled = slices.DeleteFunc(slices.Clone(ruled), isGone)
		obey(&p, set)
		r.upsert(p)
		if got := r.from(datagramOn(1, 2, 10)); got != c.want {
			t.Errorf("with %v: leaves from %v, want %v", c.there, got, c.want)
		}
	}
}

// The paths of a rule for low delay are tried in the order that the core gives.
func TestRuleLowDelay(t *testing.T) {
	r := newRig(t)
	set := flowrule.Set{{Policy: flowrule.LowDelay, Links: []string{"a", "c"}}}
	p := ruledSession(r, flowRules(set...), there)
	a, b, c := p.Paths[0], p.Ruled[0], p.Ruled[1]
	for _, order := range [][]ilnp.Path{{b, c, a}, {b, a, c}, {c, a, b}} {
		p.Seq++
		obey(&p, set, order...)
		r.upsert(p)
		want := order[0]
		if want == b {
			want = order[1]
		}
		if got := r.from(datagramOn(1, 2, 10)); got != want.Local.L64 {
			t.Errorf("order %v: leaves from %v", order, got)
		}
	}
}

// Each flow keeps to one link, whatever its protocol, and flows are spread.
func TestRuleByFlow(t *testing.T) {
	r := newRig(t)
	ruledSession(r, flowRules(flowrule.Rule{Policy: flowrule.Flow, Links: []string{"b", "c"}}), there)
	used := make(map[roam.L64]int)
	for port := uint16(1); port <= 200; port++ {
		first := r.from(datagramOn(port, 443, 10))
		used[first]++
		for range 3 {
			if got := r.from(datagramOn(port, 443, 1000)); got != first {
				t.Fatalf("flow of port %d leaves from %v and %v", port, first, got)
			}
		}
	}
	if used[locA] != 0 || used[locB] < 60 || used[locC] < 60 {
		t.Errorf("flows by locator: %v", used)
	}
}

// Two sets are there while sessions change over; each session goes by its own.
func TestRulesChangeOver(t *testing.T) {
	r := newRig(t)
	p := ruledSession(r, flowRules(by("b", flowrule.Match{})), there)
	next, set := r.nextRules(), flowrule.Set{by("c", flowrule.Match{})}
	r.writeRules(next, flowRules(set...))
	if got := r.from(datagramOn(1, 2, 10)); got != locB {
		t.Errorf("before it changes over: %v", got)
	}
	p.Seq, p.Rules.Set = p.Seq+1, next
	obey(&p, set)
	r.upsert(p)
	if got := r.from(datagramOn(1, 2, 10)); got != locC {
		t.Errorf("after it has: %v", got)
	}
	p.Seq, p.Rules, p.Ruled, p.RuleTables = p.Seq+1, ilnp.RuleUse{}, nil, nil
	r.upsert(p)
	if ks := keysOf[bpfTableKey, bpfFlowTable](r.objs.FlowTables); len(ks) != 0 {
		t.Errorf("without rules: tables %v", ks)
	}
	if got := r.from(datagramOn(1, 2, 10)); got != locA {
		t.Errorf("without rules: %v", got)
	}
	r.close()
	r.open()
	if first := r.nextRules(); first == 0 {
		t.Error("no number for the rules of a successor")
	}
}

// A successor writes its rules where no session of its predecessor has its own.
func TestRulesOfASuccessor(t *testing.T) {
	for _, changes := range []int{0, 1} {
		t.Run(fmt.Sprint(changes, " changes"), func(t *testing.T) {
			r := newRig(t)
			p := ruledSession(r, flowRules(by("b", flowrule.Match{})), there)
			for range changes {
				p.Seq, p.Rules.Set = p.Seq+1, r.nextRules()
				r.writeRules(p.Rules.Set, flowRules(by("b", flowrule.Match{})))
				r.upsert(p)
			}
			r.close()
			r.open()
			if n := r.nextRules(); n&1 == p.Rules.Set&1 {
				t.Errorf("after %d changes the sessions have set %d, and the successor writes %d", changes, p.Rules.Set, n)
			}
			r.writeRules(r.nextRules(), flowRules(by("c", flowrule.Match{})))
			if got := r.from(datagramOn(1, 2, 10)); got != locB {
				t.Errorf("leaves from %v by the rules of the predecessor", got)
			}
			r.close()
			r.open()
		})
	}
}

// A rule without ports and the like is a row of zeros. Where the predecessor had another one, a successor writes it,
// too, whichever set of its own it is.
func TestRuleOfZerosOfASuccessor(t *testing.T) {
	r := newRig(t)
	before := flowRules(by("b", flowrule.Match{Ports: []flowrule.Range{{First: 443, Last: 443}}}))
	p := ruledSession(r, before, there)
	r.close()
	r.open()
	r.writeRules(r.nextRules(), before)
	p.Seq, p.Rules.Set = p.Seq+1, r.nextRules()
	r.writeRules(p.Rules.Set, flowRules(flowrule.Rule{Policy: flowrule.Equal, Links: []string{"b"}}))
	r.upsert(p)
	if got := r.from(datagramOn(1, 2, 10)); got != locB {
		t.Errorf("leaves from %v by a rule of the predecessor, not by the one for all flows", got)
	}
}

// A rule for a cgroup matches programs there and below; when it names another one, or none
// that is there, it does not.
func TestRuleOfACgroup(t *testing.T) {
	mount := ""
	for _, dir := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if mount == "" && CgroupID(dir) != 0 {
			mount = dir
		}
	}
	own := ""
	text, err := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			own = mount + path
		}
	}
	testutil.NeedKernel(t, "cgroup2", err == nil && CgroupID(own) != 0)
	r := newRig(t)
	rules := flowRules(
		by("b", flowrule.Match{Cgroup: "/c", Protocol: flowrule.UDP}), by("c", flowrule.Match{Cgroup: "/d"}))
	rules.Cgroups = []uint64{0, 0}
	p := ruledSession(r, rules, there)
	for name, c := range map[string]struct {
		cgroups []uint64
		want    roam.L64
	}{
		"own":             {[]uint64{CgroupID(own), 0}, locB},
		"root":            {[]uint64{CgroupID(mount), 0}, locB},
		"second rule":     {[]uint64{1 << 60, CgroupID(own)}, locC},
		"same, two rules": {[]uint64{CgroupID(own), CgroupID(own)}, locB},
		"another":         {[]uint64{1 << 60, 0}, locA},
		"none there":      {[]uint64{0, 0}, locA},
	} {
		rules.Cgroups = c.cgroups
		r.writeRules(p.Rules.Set, rules)
		if got := r.from(datagramOn(1, 2, 10)); got != c.want {
			t.Errorf("%s: leaves from %v, want %v", name, got, c.want)
		}
	}
	if CgroupID("/proc") != 0 || CgroupID(own+"/none") != 0 {
		t.Error("what is no cgroup has a number")
	}
}

// TCP keeps to one path where something tracks connections, whatever the rule says.
func TestRuleWhereConnectionsAreTracked(t *testing.T) {
	r := newRig(t)
	set := flowrule.Set{{Policy: flowrule.Equal}}
	p := ruledSession(r, flowRules(set...), there)
	p.Seq++
	p.PerFlow = true
	obey(&p, set)
	r.upsert(p)
	for port := uint16(1); port < 20; port++ {
		if ways := r.connection(port, 443); len(ways) != 1 {
			t.Errorf("a connection on %v", ways)
		}
	}
	if got := r.shares(300); len(got) != 3 {
		t.Errorf("datagrams from %v", got)
	}
}

// While an entry takes the place of another one its flows keep to the links of their rules: an entry names its paths by
// their places, which differ between the two.
func TestRulesHoldWhilePathsChange(t *testing.T) {
	r := newRig(t)
	set := []flowrule.Rule{by("c", flowrule.Match{Protocol: flowrule.UDP})}
	p := ruledSession(r, flowRules(set...), there)
	looked := false
	look := func() {
		looked = true
		for range 4 {
			if from := r.from(datagramOn(40000, 7, 100)); from != locC {
				t.Errorf("before the new entry is there, a datagram leaves from %v", from)
			}
		}
	}
	p.Seq++
	p.Ruled = p.Ruled[1:] // the path from b is gone, and that from c comes earlier
	obey(&p, set)
	r.must(r.Upsert(p, Turn{Before: look}))
	if from := r.from(datagramOn(40000, 7, 100)); from != locC || !looked {
		t.Errorf("by the new entry it leaves from %v", from)
	}
	if n := len(keysOf[bpfTableKey, bpfFlowTable](r.objs.FlowTables)); n != 1 {
		t.Errorf("%d tables remain, want that of the new entry alone", n)
	}
}
