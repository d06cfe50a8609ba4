package flowrule

import (
	"math"
	"slices"
	"testing"

	"roam"
)

// flow is what is known of a flow of which only the protocol and the peer's port are.
func flow(protocol, port int) Known {
	return Known{Protocol: protocol, Port: port, OwnPort: -1, DSCP: -1}
}

func TestSays(t *testing.T) {
	web := Match{Protocol: TCP, Ports: []Range{{80, 80}, {8000, 8099}}}
	for name, c := range map[string]struct {
		m    Match
		k    Known
		want Answer
	}{
		"anything":              {Match{}, flow(UDP, 53), Yes},
		"port":                  {web, flow(TCP, 8099), Yes},
		"port beyond the range": {web, flow(TCP, 8100), No},
		"other protocol":        {web, flow(UDP, 80), No},
		"port unknown":          {web, flow(TCP, -1), Maybe},
		"own port unknown":      {Match{OwnPorts: []Range{{1, 9}}}, flow(TCP, 80), Maybe},
		"own port":              {Match{OwnPorts: []Range{{1, 9}}}, Known{TCP, 80, 9, 0, ""}, Yes},
		"ports of a ping":       {Match{Ports: []Range{{1, 9}}}, Known{ICMPv6, -1, -1, 0, ""}, No},
		"dscp":                  {Match{DSCP: 1 << 46}, Known{UDP, 1, 1, 46, ""}, Yes},
		"other dscp":            {Match{DSCP: 1 << 46}, Known{UDP, 1, 1, 0, ""}, No},
		"dscp unknown":          {Match{DSCP: 1 << 46}, flow(UDP, 1), Maybe},
		"cgroup unknown":        {Match{Cgroup: "/c/a"}, flow(TCP, 1), Maybe},
		"cgroup below":          {Match{Cgroup: "/c/a"}, Known{TCP, 1, 1, 0, "/c/a/b"}, Yes},
		"cgroup beside":         {Match{Cgroup: "/c/a"}, Known{TCP, 1, 1, 0, "/c/ab"}, No},
		"cgroup root":           {Match{Cgroup: "/"}, Known{TCP, 1, 1, 0, "/c"}, Yes},
	} {
		if got := c.m.Says(c.k); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestFirstMatchWins(t *testing.T) {
	s := Set{
		{Match: Match{Cgroup: "/c/a", Protocol: TCP}},
		{Match: Match{Protocol: TCP, Ports: []Range{{80, 80}}}},
		{Match: Match{Protocol: UDP}},
		{},
	}
	for _, c := range []struct {
		mask uint64
		k    Known
		want []int
	}{
		{0b1111, flow(TCP, 80), []int{0, 1}},
		{0b1110, flow(TCP, 80), []int{1}},
		{0b1111, flow(TCP, 443), []int{0, 3}},
		{0b1111, flow(UDP, 80), []int{2}},
		{0b0011, flow(UDP, 80), nil},
	} {
		if got := s.Candidates(c.mask, c.k); !slices.Equal(got, c.want) {
			t.Errorf("%b %+v: %v, want %v", c.mask, c.k, got, c.want)
		}
	}
}

func TestForPeer(t *testing.T) {
	nid := roam.NID(0x0011_22ff_0000_0001)
	of := func(peer string) Rule { return Rule{Match: Match{Peers: []string{peer}}} }
	s := Set{{}, of("server"), of(nid.String()), of("other")}
	if got := s.For(nid, []string{"server", "alias"}); got != 0b0111 {
		t.Errorf("rules %b of server", got)
	}
	if got := s.For(1, nil); got != 1 {
		t.Errorf("rules %b of a peer without a name", got)
	}
}

func TestCovers(t *testing.T) {
	all := Match{}
	tcp := Match{Protocol: TCP}
	low := Match{Protocol: TCP, Ports: []Range{{1, 99}, {100, 1023}}}
	for name, c := range map[string]struct {
		a, b Match
		want bool
	}{
		"all, tcp":              {all, tcp, true},
		"tcp, all":              {tcp, all, false},
		"adjacent ranges":       {low, Match{Protocol: TCP, Ports: []Range{{90, 110}}}, true},
		"range that sticks out": {low, Match{Protocol: TCP, Ports: []Range{{1000, 1024}}}, false},
		"own ports besides":     {Match{OwnPorts: []Range{{1, 9}}}, Match{OwnPorts: []Range{{1, 3}, {5, 9}}}, true},
		"one end for the other": {Match{OwnPorts: []Range{{1, 9}}}, Match{Ports: []Range{{1, 9}}}, false},
		"dscp":                  {Match{DSCP: 3}, Match{DSCP: 2}, true},
		"dscp, all":             {Match{DSCP: 3}, all, false},
		"cgroup above":          {Match{Cgroup: "/c"}, Match{Cgroup: "/c/d"}, true},
		"cgroup below":          {Match{Cgroup: "/c/d"}, Match{Cgroup: "/c"}, false},
		"peers":                 {Match{Peers: []string{"a", "b"}}, Match{Peers: []string{"b"}}, true},
		"peers, all":            {Match{Peers: []string{"a"}}, all, false},
	} {
		if got := c.a.Covers(c.b); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	s := Set{{Match: tcp}, {Match: Match{Protocol: UDP}}, {Match: low}}
	if s.Hides(1) != -1 || s.Hides(2) != 0 {
		t.Errorf("hidden by %d and %d", s.Hides(1), s.Hides(2))
	}
}

// The literal weights of n > 2 locators sum to n - 1; ours sum to 1.
func TestSharesOfPreferences(t *testing.T) {
	for _, c := range []struct {
		preferences []uint16
		want        []float64
	}{
		{[]uint16{50, 50}, []float64{0.5, 0.5}},
		{[]uint16{20, 80}, []float64{0.8, 0.2}},
		{[]uint16{10, 10, 10}, []float64{1. / 3, 1. / 3, 1. / 3}},
		{[]uint16{0, 0}, []float64{0.5, 0.5}},
		{[]uint16{7}, []float64{1}},
		{[]uint16{10, 20, 70}, []float64{0.45, 0.40, 0.15}},
	} {
		got := Shares(c.preferences)
		for i := range c.want {
			if math.Abs(got[i]-c.want[i]) > 1e-9 {
				t.Errorf("%v: %v, want %v", c.preferences, got, c.want)
				break
			}
		}
	}
}

func TestParts(t *testing.T) {
	links := []Link{{"a", 20}, {"b", 80}, {"c", 80}, {"a", 20}}
	shares, ab, ca := []Share{{"a", 80}, {"b", 20}}, []string{"a", "b"}, []string{"c", "a"}
	for name, c := range map[string]struct {
		r     Rule
		want  []float64
		order []int
	}{
		"equal":               {Rule{Policy: Equal}, []float64{1. / 6, 1. / 3, 1. / 3, 1. / 6}, []int{0, 3, 1, 2}},
		"shares":              {Rule{Policy: Weighted, Shares: shares}, []float64{0.4, 0.2, 0, 0.4}, []int{0, 3, 1}},
		"preferences":         {Rule{Policy: Weighted, Links: ab}, []float64{0.4, 0.2, 0, 0.4}, []int{0, 3, 1}},
		"order of the rule":   {Rule{Policy: Failover, Links: ca}, []float64{0.25, 0, 0.5, 0.25}, []int{2, 0, 3}},
		"order of preference": {Rule{Policy: Failover}, []float64{1. / 6, 1. / 3, 1. / 3, 1. / 6}, []int{0, 3, 1, 2}},
		"none of its links":   {Rule{Policy: Flow, Links: []string{"d"}}, []float64{0, 0, 0, 0}, nil},
	} {
		near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
		if got := c.r.Parts(links); !slices.EqualFunc(got, c.want, near) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if got := c.r.Order(links); !slices.Equal(got, c.order) {
			t.Errorf("%s: order %v, want %v", name, got, c.order)
		}
	}
	for p, word := range Policies() {
		if Policy(p).String() != word {
			t.Errorf("policy %d is %q, not %q", p, Policy(p), word)
		}
	}
}

func TestContradicts(t *testing.T) {
	for protocol, want := range map[uint8]bool{ICMPv6: true, UDP: false, 0: false} {
		if got := (Match{Protocol: protocol, Ports: []Range{{1, 2}}}).Contradicts() != ""; got != want {
			t.Errorf("ports of protocol %d: contradiction %v", protocol, got)
		}
	}
}

// What a rule covers, it matches: no flow that the covered one matches escapes it.
func FuzzCovers(f *testing.F) {
	f.Add(uint8(6), uint16(1), uint16(9), uint64(1), uint8(0), uint16(3), uint16(4), uint64(1), uint16(4))
	f.Fuzz(func(t *testing.T, p1 uint8, a1, b1 uint16, d1 uint64, p2 uint8, a2, b2 uint16, d2 uint64, port uint16) {
		m := Match{Protocol: p1, DSCP: d1, Ports: []Range{{min(a1, b1), max(a1, b1)}}}
		o := Match{Protocol: p2, DSCP: d2, Ports: []Range{{min(a2, b2), max(a2, b2)}}}
		for dscp := range 64 {
			k := Known{Protocol: TCP, Port: int(port), OwnPort: 1, DSCP: dscp}
			if m.Covers(o) && o.Says(k) == Yes && m.Says(k) != Yes {
				t.Fatalf("%+v covers %+v, and does not match %+v", m, o, k)
			}
		}
	})
}
