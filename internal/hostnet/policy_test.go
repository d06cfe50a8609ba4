package hostnet

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"roam"
)

// theFlow leaves by link 2, eth0.
var theFlow = Flow{Link: 2, Src: netip.MustParseAddr("2001:db8:a:1::5"), Dst: netip.MustParseAddr("2001:db8:5:1::9")}

// selector is an IPsec policy for two prefixes.
func selector(src, dst string, change ...func(*xfrmPolicy)) xfrmPolicy {
	x := xfrmPolicy{src: netip.MustParsePrefix(src), dst: netip.MustParsePrefix(dst), priority: 100}
	for _, f := range change {
		f(&x)
	}
	return x
}

func TestIPsecJudgement(t *testing.T) {
	protects := func(x *xfrmPolicy) { x.transforms = true }
	blocks := func(x *xfrmPolicy) { x.block = true }
	partly := func(x *xfrmPolicy) { x.partial = true }
	priority := func(n uint32) func(*xfrmPolicy) { return func(x *xfrmPolicy) { x.priority = n } }
	onLink := func(n int) func(*xfrmPolicy) { return func(x *xfrmPolicy) { x.link = n } }
	const any6, own, peer = "::/0", "2001:db8:a:1::5/128", "2001:db8:5:1::9/128"
	for name, c := range map[string]struct {
		list       []xfrmPolicy
		closed     bool
		obstructed bool
	}{
		"none":                              {nil, false, false},
		"these addresses, protected":        {[]xfrmPolicy{selector(own, peer, protects)}, false, true},
		"these addresses, blocked":          {[]xfrmPolicy{selector(own, peer, blocks)}, false, true},
		"these addresses, allowed":          {[]xfrmPolicy{selector(own, peer)}, false, false},
		"wider ones":                        {[]xfrmPolicy{selector("2001:db8:a::/48", any6, protects)}, false, true},
		"another source":                    {[]xfrmPolicy{selector("2001:db8:a:1::6/128", peer, protects)}, false, false},
		"another destination":               {[]xfrmPolicy{selector(own, "2001:db8:6::/48", protects)}, false, false},
		"one protocol":                      {[]xfrmPolicy{selector(own, peer, protects, partly)}, false, true},
		"allowed before":                    {[]xfrmPolicy{selector(own, peer, priority(1)), selector(any6, any6, protects)}, false, false},
		"one protocol allowed before":       {[]xfrmPolicy{selector(own, peer, partly, priority(1)), selector(any6, any6, protects)}, false, true},
		"allowed behind":                    {[]xfrmPolicy{selector(own, peer), selector(any6, any6, protects, priority(1))}, false, true},
		"allowed with the same priority":    {[]xfrmPolicy{selector(own, peer), selector(any6, any6, protects)}, false, true},
		"of this link":                      {[]xfrmPolicy{selector(own, peer, protects, onLink(2))}, false, true},
		"of another link":                   {[]xfrmPolicy{selector(own, peer, protects, onLink(3))}, false, false},
		"blocked by default":                {nil, true, true},
		"blocked by default, but not these": {[]xfrmPolicy{selector(own, peer)}, true, false},
	} {
		sortPolicies(c.list)
		p := &policy{survey: survey{xfrm: c.list, closed: c.closed}}
		if why := p.ipsec(theFlow); (why != "") != c.obstructed {
			t.Errorf("%s: obstructed by %q", name, why)
		}
		if p.armed() != (c.closed || len(c.list) > 0) {
			t.Errorf("%s: armed %v", name, p.armed())
		}
	}
}

func TestRouteJudgement(t *testing.T) {
	links := map[int]policyLink{
		2: {name: "eth0", uplink: true}, 3: {name: "wlan0", uplink: true}, 4: {name: "wg0", tunnel: true},
		5: {name: "eth9"}, 6: {name: "tun0", tunnel: true, uplink: true},
	}
	wgQuick := []rule{{32764, unix.RT_TABLE_MAIN}, {32765, 51820}}
	bar := []rule{{50, 0}}
	const main = unix.RT_TABLE_MAIN
	for name, c := range map[string]struct {
		rules []rule
		way   wayOut
		want  string // part of the reason; "": not obstructed
	}{
		"by its uplink":                             {wgQuick, wayOut{link: 2, table: main}, ""},
		"by another uplink, without rules":          {nil, wayOut{link: 3, table: main}, ""},
		"by another uplink, by a rule":              {wgQuick, wayOut{link: 3, table: 51820}, ""},
		"by a tunnel that is an uplink":             {wgQuick, wayOut{link: 6, table: 51820}, ""},
		"to this host itself":                       {wgQuick, wayOut{link: 1, table: unix.RT_TABLE_LOCAL, local: true}, ""},
		"wg-quick":                                  {wgQuick, wayOut{link: 4, table: 51820}, "rule 32765, table 51820"},
		"by an excluded link, by a rule":            {[]rule{{100, 7}}, wayOut{link: 5, table: 7}, "eth9"},
		"by an excluded link, by the main table":    {wgQuick, wayOut{link: 5, table: main}, ""},
		"by a tunnel, by the default route":         {nil, wayOut{link: 4, table: main}, ""},
		"by a tunnel, by a longer route":            {nil, wayOut{link: 4, table: main, length: 3}, "wg0"},
		"by an excluded link, by a longer route":    {nil, wayOut{link: 5, table: main, length: 48}, ""},
		"prohibited":                                {wgQuick, wayOut{errno: unix.EACCES}, "prohibits"},
		"blackhole":                                 {wgQuick, wayOut{errno: unix.EINVAL}, "blackhole"},
		"unreachable by a route":                    {wgQuick, wayOut{errno: unix.EHOSTUNREACH, bound: unix.EHOSTUNREACH}, "unreachable"},
		"unreachable by a rule":                     {bar, wayOut{errno: unix.ENETUNREACH, bound: unix.ENETUNREACH}, "unreachable"},
		"no route for a moment":                     {wgQuick, wayOut{errno: unix.ENETUNREACH, bound: unix.ENETUNREACH}, ""},
		"unreachable, but bound, as in a VRF":       {bar, wayOut{errno: unix.ENETUNREACH}, ""},
		"unreachable, without rules":                {nil, wayOut{errno: unix.ENETUNREACH, bound: unix.ENETUNREACH}, ""},
		"no route of a kind, without rules, tunnel": {nil, wayOut{errno: syscall.EHOSTUNREACH, bound: syscall.EHOSTUNREACH}, ""},
	} {
		p := &policy{survey: survey{rules: c.rules, barred: slices.Equal(c.rules, bar)}, links: links}
		why := p.byRoute(theFlow, c.way)
		if (why != "") != (c.want != "") || !strings.Contains(why, c.want) {
			t.Errorf("%s: obstructed by %q, want %q", name, why, c.want)
		}
	}
}

// TestPolicyThatCostsNothing: without policies nothing is asked.
func TestPolicyThatCostsNothing(t *testing.T) {
	p := &policy{links: map[int]policyLink{2: {name: "eth0", uplink: true}, 5: {name: "eth9"}, 6: {name: "tun0", tunnel: true, uplink: true}}}
	if p.armed() || p.routed() {
		t.Error("armed by uplinks and links that are no tunnels")
	}
	p.links[4] = policyLink{name: "wg0", tunnel: true}
	if !p.armed() {
		t.Error("not armed by a tunnel")
	}
}

func attribute(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	return append(b, make([]byte, align(len(b))-len(b))...)
}

func u32bytes(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

func TestParseRule(t *testing.T) {
	head := func(table uint8) []byte { return []byte{unix.AF_INET6, 0, 0, 0, table, 0, 0, 1, 0, 0, 0, 0} }
	inverted := func(table uint8) []byte {
		return append(head(table)[:8], u32bytes(ruleInverted)...)
	}
	join := func(parts ...[]byte) (b []byte) {
		for _, p := range parts {
			b = append(b, p...)
		}
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		want rule
		ok   bool
	}{
		"local":                 {join(head(255), attribute(unix.FRA_TABLE, u32bytes(255))), rule{0, 255}, false},
		"main":                  {join(head(254), attribute(unix.FRA_PRIORITY, u32bytes(32766))), rule{32766, 254}, false},
		"of VRFs":               {join(head(0), attribute(unix.FRA_L3MDEV, []byte{1}), attribute(unix.FRA_PRIORITY, u32bytes(1000))), rule{1000, 0}, false},
		"wg-quick":              {join(head(0), attribute(unix.FRA_PRIORITY, u32bytes(32765)), attribute(unix.FRA_TABLE, u32bytes(51820))), rule{32765, 51820}, true},
		"main, again":           {join(head(254), attribute(unix.FRA_PRIORITY, u32bytes(32764))), rule{32764, 254}, true},
		"for marked packets":    {join(head(7), attribute(unix.FRA_FWMARK, u32bytes(5))), rule{0, 7}, false},
		"for all but marked":    {join(inverted(7), attribute(unix.FRA_FWMARK, u32bytes(5))), rule{0, 7}, true},
		"for forwarded packets": {join(head(7), attribute(unix.FRA_IIFNAME, []byte("eth0\x00"))), rule{0, 7}, false},
		"for own packets":       {join(head(7), attribute(unix.FRA_IIFNAME, []byte("lo\x00"))), rule{0, 7}, true},
		"cut off":               {head(0)[:11], rule{}, false},
	} {
		if got, ok := parseRule(c.b); ok != c.ok || got != c.want {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
}

func TestParsePolicy(t *testing.T) {
	make1 := func(change func(*nl.XfrmUserpolicyInfo)) []byte {
		m := &nl.XfrmUserpolicyInfo{Dir: xfrmOut, Priority: 7}
		m.Sel.Family, m.Sel.PrefixlenS, m.Sel.PrefixlenD = unix.AF_INET6, 64, 128
		m.Sel.Saddr, m.Sel.Daddr = nl.XfrmAddress(theFlow.Src.As16()), nl.XfrmAddress(theFlow.Dst.As16())
		change(m)
		return append([]byte(nil), m.Serialize()...)
	}
	plain := make1(func(*nl.XfrmUserpolicyInfo) {})
	for name, c := range map[string]struct {
		b             []byte
		ok, obstructs bool
		partial       bool
	}{
		"allow":                  {plain, true, false, false},
		"template":               {append(plain[:len(plain):len(plain)], attribute(nl.XFRMA_TMPL, make([]byte, nl.SizeofXfrmUserTmpl))...), true, true, false},
		"block":                  {make1(func(m *nl.XfrmUserpolicyInfo) { m.Action = xfrmActBlock }), true, true, false},
		"one protocol":           {make1(func(m *nl.XfrmUserpolicyInfo) { m.Sel.Proto = 6 }), true, false, true},
		"one port":               {make1(func(m *nl.XfrmUserpolicyInfo) { m.Sel.DportMask = 0xffff }), true, false, true},
		"input":                  {make1(func(m *nl.XfrmUserpolicyInfo) { m.Dir = 0 }), false, false, false},
		"IPv4":                   {make1(func(m *nl.XfrmUserpolicyInfo) { m.Sel.Family = unix.AF_INET }), false, false, false},
		"of an xfrm device":      {append(plain[:len(plain):len(plain)], attribute(nl.XFRMA_IF_ID, u32bytes(3))...), false, false, false},
		"marked":                 {append(plain[:len(plain):len(plain)], attribute(nl.XFRMA_MARK, append(u32bytes(5), u32bytes(0xff)...))...), false, false, false},
		"unmarked packets alone": {append(plain[:len(plain):len(plain)], attribute(nl.XFRMA_MARK, append(u32bytes(0), u32bytes(0xff)...))...), true, false, false},
		"cut off":                {plain[:len(plain)-1], false, false, false},
	} {
		x, ok := parsePolicy(c.b)
		if ok != c.ok || x.obstructs() != c.obstructs || x.partial != c.partial {
			t.Errorf("%s: %+v, %v", name, x, ok)
		}
		if ok && (!x.matches(theFlow) || x.src.Bits() != 64 || x.dst.Bits() != 128 || x.priority != 7) {
			t.Errorf("%s: %v", name, x)
		}
	}
}

// TestPrivateTunnel: which tunnels are uplinks.
func TestPrivateTunnel(t *testing.T) {
	const index = 4
	for name, c := range map[string]struct {
		kind    string
		arphrd  uint16
		addrs   []string
		include []string
		known   bool
		want    bool
	}{
		"private address":                    {"tun", unix.ARPHRD_NONE, []string{"fd00::2"}, nil, false, false},
		"private address, an uplink before":  {"tun", unix.ARPHRD_NONE, []string{"fd00::2"}, nil, true, false},
		"private address, named":             {"tun", unix.ARPHRD_NONE, []string{"fd00::2"}, []string{"eth*", "t0"}, false, true},
		"private address, others named":      {"tun", unix.ARPHRD_NONE, []string{"fd00::2"}, []string{"eth*"}, false, false},
		"global address":                     {"tun", unix.ARPHRD_NONE, []string{"2001:db8:7::2"}, nil, false, true},
		"both":                               {"tun", unix.ARPHRD_NONE, []string{"fd00::2", "2001:db8:7::2"}, nil, false, true},
		"WireGuard":                          {"wireguard", unix.ARPHRD_NONE, []string{"fd00::2"}, nil, false, false},
		"GRE":                                {"ip6gre", unix.ARPHRD_IP6GRE, []string{"fd00::2"}, nil, false, false},
		"TAP":                                {"tun", unix.ARPHRD_ETHER, []string{"fd00::2"}, nil, false, true},
		"Ethernet":                           {"", unix.ARPHRD_ETHER, []string{"fd00::2"}, nil, false, true},
		"raw-IP modem":                       {"", unix.ARPHRD_RAWIP, []string{"2001:db8:7::2"}, nil, false, true},
		"PPP":                                {"ppp", unix.ARPHRD_PPP, []string{"2001:db8:7::2"}, nil, false, true},
		"no prefix any more, once an uplink": {"tun", unix.ARPHRD_NONE, nil, nil, true, true},
	} {
		table := newTable()
		table.links[index] = link{name: "t0", flags: upFlags, arphrd: c.arphrd, kind: c.kind, mtu: 1400}
		table.routes = []route{{link: index, metric: 50, main: true}}
		for _, a := range c.addrs {
			table.addrs[key(index, a)] = address{}
		}
		r := testRules
		r.include = c.include
		known := map[int]Uplink{}
		if c.known {
			known[index] = Uplink{Link: roam.LinkID(index)}
		}
		if _, got := table.draw(r, nil, known, epoch).uplinks[index]; got != c.want {
			t.Errorf("%s: uplink %v, want %v", name, got, c.want)
		}
	}
}
