package ilnphost

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"roam"
	"roam/flowrule"
	"roam/ilnp"
	"roam/multipath"
	"roam/wire/ip6"
)

// sums makes a peer one that sums over NIDs, and those uplinks physical ones, so that data of TCP
// which leave by them take the segmentation device.
func (r *rig) sums(p *ilnp.Entry, uplinks []roam.L64, physical ...roam.L64) {
	r.t.Helper()
	ip(r.t, "link set lo up")
	r.change(func(s *HostSettings) { s.Segmentation = loopback })
	var es []UplinkEntry
	for _, l := range uplinks {
		local := roam.LinkLocator{Link: loopback, L64: l}
		isPhysical := slices.Contains(physical, l)
		es = append(es, UplinkEntry{Local: local, Usable: true, MTU: 1500, Physical: isPhysical})
	}
	r.must(r.SetUplinks(es))
	p.Seq++
	p.Rule = ilnp.RuleRFC6741
	r.upsert(*p)
}

// around sends equal segments with data, through the segmentation device where they take it. It returns
// how many left from each locator, and how many took the device.
func (r *rig) around(n int) (left map[roam.L64]int, cut int) {
	r.t.Helper()
	left = make(map[roam.L64]int)
	segment := toPeer(ip6.TCP, tcp(flagACK, 1000))
	for range n {
		v, out := r.egress(segment)
		if v == redirect && bytes.Equal(out, segment) {
			cut++
			_, out = r.egress(segment, arrived(0))
		}
		left[roam.L64(binary.BigEndian.Uint64(out[8:]))]++
	}
	return left, cut
}

// A segment that takes the segmentation device is one segment, though it passes the program twice:
// the links of a rule get their shares, also where only some lead there.
func TestRuleSharesBySegdev(t *testing.T) {
	for name, c := range map[string]struct {
		physical []roam.L64
		cut      int
	}{
		"both links": {[]roam.L64{locA, locB}, 100},
		"one link":   {[]roam.L64{locA}, 50},
		"the other":  {[]roam.L64{locB}, 50},
		"none":       {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			rule := flowrule.Rule{Policy: flowrule.Equal, Links: []string{"a", "b"}}
			p := ruledSession(r, flowRules(rule), there)
			r.sums(&p, []roam.L64{locA, locB, locC}, c.physical...)
			left, cut := r.around(100)
			if left[locA] < 48 || left[locA] > 52 || left[locA]+left[locB] != 100 {
				t.Errorf("of 100 segments left %v", left)
			}
			if cut < c.cut-2 || cut > c.cut+2 {
				t.Errorf("%d of 100 segments took the segmentation device, want %d", cut, c.cut)
			}
		})
	}
}

// unequal has the first path of an entry get four times as much as the second one.
func unequal(p *ilnp.Entry) {
	p.Costs = map[ilnp.Path]uint8{p.Paths[1]: 4}
	p.Table = &ilnp.Table{Paths: p.Paths, Costs: []uint16{2, 8}}
	for b := range p.Table.Sets {
		p.Table.Sets[b], p.Table.Homes[b] = 3, multipath.NoHome
	}
}

// Where paths have unequal shares, each segment of a GSO packet of TCP takes its own one, and what follows stays
// behind it: a whole one on a slow path would delay all that is sent later.
func TestUnequalPathsGetSegments(t *testing.T) {
	r := newRig(t)
	p := crossed(r, []roam.L64{locA, locB}, []roam.L64{there})
	unequal(&p)
	r.sums(&p, []roam.L64{locA, locB})
	p.Rule = ilnp.RuleIPv6
	p.Seq++
	r.upsert(p)
	left, cut := r.around(100)
	if left[locA] < 78 || left[locA] > 82 || left[locA]+left[locB] != 100 || cut != 100 {
		t.Errorf("of 100 segments left %v, %d by the segmentation device", left, cut)
	}
	for name, c := range map[string]struct {
		proto uint8
		body  []byte
		cut   bool
	}{
		"a GSO packet":              {ip6.TCP, tcp(flagACK, 1300), true},
		"a GSO packet of datagrams": {ip6.UDP, udp(1300), false},
	} {
		packet := toPeer(c.proto, c.body)
		if v, out := r.egress(packet, gso); v != redirect || bytes.Equal(out, packet) != c.cut {
			t.Errorf("%s: verdict %d, cut %t, want %t", name, v, bytes.Equal(out, packet), c.cut)
		}
	}
	ack := toPeer(ip6.TCP, tcp(flagACK, 0))
	if v, out := r.egress(ack); v != redirect || bytes.Equal(out, ack) {
		t.Errorf("an acknowledgement takes the segmentation device: %d", v)
	}
	p.Table.Costs[1] = 2
	p.Seq++
	if r.upsert(p); cutOf(r.around(100)) != 0 {
		t.Error("segments are cut although shares are equal")
	}
}

func cutOf(_ map[roam.L64]int, cut int) int { return cut }

// A rule chose the path by what a segment may not have, its cgroup. So what a rule sends is not cut; and nothing is in
// a session with rules that ask for the cgroup.
func TestRuledFlowsAreNotCut(t *testing.T) {
	for name, c := range map[string]struct {
		rule flowrule.Rule
		cut  int
	}{
		"a rule for the flow": {flowrule.Rule{Policy: flowrule.Equal, Links: []string{"b", "c"}}, 0},
		"one for datagrams":   {by("b", flowrule.Match{Protocol: flowrule.UDP}), 100},
		"one for a cgroup":    {by("b", flowrule.Match{Cgroup: "/roam-test"}), 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			rules := flowRules(c.rule)
			rules.Cgroups = make([]uint64, 1)
			p := ruledSession(r, rules, there)
			p.Paths = append(p.Paths, ilnp.Path{Local: roam.LinkLocator{Link: loopback, L64: locB}, Remote: there})
			unequal(&p)
			r.sums(&p, []roam.L64{locA, locB, locC})
			p.Rule = ilnp.RuleIPv6
			p.Seq++
			if r.upsert(p); cutOf(r.around(100)) != c.cut {
				t.Errorf("segments took the segmentation device, or did not: want %d of 100", c.cut)
			}
		})
	}
}

// So it is without a rule, where connections have their places beside a long path; and what each
// connection sends is counted once.
func TestPlacedSharesBySegdev(t *testing.T) {
	r := newRig(t)
	p := crossed(r, []roam.L64{locA, locB}, []roam.L64{there, else1})
	choose(&p, nil, p.Paths[1], p.Paths[2])
	r.sums(&p, []roam.L64{locA, locB}, locA, locB)
	left, cut := r.around(100)
	if left[locA] < 48 || left[locA] > 52 || left[locA]+left[locB] != 100 || cut != 100 {
		t.Errorf("of 100 segments left %v, %d by the segmentation device", left, cut)
	}
	acts, err := r.Activity(r.keys())
	r.must(err)
	sum := 0
	for _, n := range acts[0].Flows {
		sum += int(n)
	}
	if want := 100 * len(frame(toPeer(ip6.TCP, tcp(flagACK, 1000)))); sum != want {
		t.Errorf("counted %d bytes of connections, want %d", sum, want)
	}
}
