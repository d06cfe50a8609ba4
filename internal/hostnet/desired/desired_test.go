package desired

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	addr   = netip.MustParseAddr("2001:db8::1")
	other  = netip.MustParseAddr("2001:db8::2")
	prefix = netip.MustParsePrefix("2001:db8:1::/48")

	address    = Address{Link: 2, Addr: addr, Bits: 128}
	acceptRA   = Sysctl{Link: 2, Param: "accept_ra", Value: "2"}
	forwarding = Sysctl{Link: 2, Param: "forwarding", Value: "1"}
	device     = Device{Name: "dev0", Peer: "dev0x", MTU: 1500}
	route      = Route{Dst: prefix, Link: 2, Gateway: addr, Table: 254, Metric: 1024}
	rule       = Rule{Priority: 7, From: prefix, Table: 9}
	neighbour  = Neighbour{Link: 2, Addr: addr, MAC: "02:00:00:00:00:01"}
	proxy      = Proxy{Link: 2, Addr: addr}
)

func until(a Address, t time.Time) Address { a.Until = t; return a }

func TestOwnersShareAndContradict(t *testing.T) {
	metric := route
	metric.Table, metric.Metric = 0, 0 // the kernel's defaults, which route names
	elsewhere := route
	elsewhere.Gateway = other
	for name, x := range map[string]struct {
		first, second State
		want          string // part of the error; "": none
	}{
		"nothing": {State{}, State{}, ""},
		"the same address": {
			State{Addresses: []Address{address}},
			State{Addresses: []Address{address}},
			"",
		},
		"the same route": {State{Routes: []Route{route}}, State{Routes: []Route{metric}}, ""},
		"another next hop": {
			State{Routes: []Route{route}},
			State{Routes: []Route{elsewhere}},
			`"second" wants route 2001:db8:1::/48 table 254 metric 1024 via 2001:db8::2 on link 2, but "first" wants`,
		},
		"another table": {
			State{Routes: []Route{route}},
			State{Routes: []Route{{Dst: prefix, Link: 3, Table: 9}}},
			"",
		},
		"another value": {
			State{Sysctls: []Sysctl{acceptRA}},
			State{Sysctls: []Sysctl{{Link: 2, Param: "accept_ra", Value: "0"}}},
			`"second" wants sysctl net.ipv6.conf.LINK2.accept_ra = 0, but "first" wants sysctl net.ipv6.conf.LINK2.accept_ra`,
		},
		"another link": {
			State{Sysctls: []Sysctl{acceptRA}},
			State{Sysctls: []Sysctl{{Link: 3, Param: "accept_ra", Value: "0"}}},
			"",
		},
		"a rule's priority": {
			State{Rules: []Rule{rule}},
			State{Rules: []Rule{{Priority: 7, Table: 9}}},
			"but",
		},
		"another MAC": {
			State{Neighbours: []Neighbour{neighbour}},
			State{Neighbours: []Neighbour{{Link: 2, Addr: addr, MAC: "02::"}}},
			"but",
		},
		"a proxy beside": {
			State{Neighbours: []Neighbour{neighbour}},
			State{Proxies: []Proxy{proxy}},
			"",
		},
		"a device's MTU": {
			State{Devices: []Device{device}},
			State{Devices: []Device{{Name: "dev0", Peer: "dev0x", MTU: 1400}}},
			"but",
		},
		"itself": {
			State{},
			State{Sysctls: []Sysctl{acceptRA, {Link: 2, Param: "accept_ra", Value: "0"}}},
			"contradict each other",
		},
		"twice the same": {State{}, State{Sysctls: []Sysctl{acceptRA, acceptRA}}, ""},
		"all addresses go": {
			State{},
			State{Sysctls: []Sysctl{{Link: 2, Param: "disable_ipv6", Value: "1"}}},
			"cannot be put back",
		},
		"every link changes": {
			State{},
			State{Sysctls: []Sysctl{{Name: "all", Param: "forwarding", Value: "1"}}},
			"cannot be put back",
		},
		"of no link": {
			State{},
			State{Addresses: []Address{{Addr: addr, Bits: 128}}},
			"names no link",
		},
		"no prefix length": {State{}, State{Addresses: []Address{{Link: 2, Addr: addr}}}, "prefix length"},
		"IPv4": {
			State{},
			State{Proxies: []Proxy{{Link: 2, Addr: netip.MustParseAddr("192.0.2.1")}}},
			"not of IPv6",
		},
		"a route to nowhere": {State{}, State{Routes: []Route{{Link: 2}}}, "not of IPv6"},
		"unreachable and not": {
			State{},
			State{Routes: []Route{{Dst: prefix, Link: 2, Unreachable: true}}},
			"nowhere and somewhere",
		},
		"a rule for any bits": {
			State{},
			State{Rules: []Rule{{Priority: 7, Table: 9, From: netip.MustParsePrefix("2001:db8::1/32")}}},
			"beyond its prefix",
		},
		"the kernel's rule": {State{}, State{Rules: []Rule{{Table: 9}}}, "needs a priority"},
		"half a device":     {State{}, State{Devices: []Device{{Name: "dev0", MTU: 1500}}}, "two names"},
		"no MAC": {
			State{},
			State{Neighbours: []Neighbour{{Link: 2, Addr: addr}}},
			"hardware address",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var o Owners
			if err := o.Set("first", x.first); err != nil {
				t.Fatal(err)
			}
			err := o.Set("second", x.second)
			if (err != nil) != (x.want != "") || err != nil && !strings.Contains(err.Error(), x.want) {
				t.Errorf("error %v, want one about %q", err, x.want)
			}
			if err != nil && len(o.Of("second")) != 0 {
				t.Errorf("refused, but holds: %v", o.Of("second"))
			}
		})
	}
}

// A refused state leaves what the owner wanted before; what one owner drops
// another may still want.
func TestOwnersKeepWhatHeld(t *testing.T) {
	var o Owners
	for _, owner := range []string{"b", "a"} {
		if err := o.Set(owner, State{Addresses: []Address{address}}); err != nil {
			t.Fatal(err)
		}
	}
	err := o.Set("b", State{Addresses: []Address{until(address, time.Unix(9, 0))}})
	if err == nil || !o.Wants("b", address.Key()) {
		t.Errorf("error %v, b wants %v", err, o.Of("b"))
	}
	if got := o.Wanting(address.Key()); got != "a" {
		t.Errorf("wanted by %q first", got)
	}
	for _, owner := range []string{"a", "b"} {
		if err := o.Set(owner, State{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := o.Wanting(address.Key()); got != "" {
		t.Errorf("still wanted by %q", got)
	}
}

func TestDecide(t *testing.T) {
	elsewhere := route
	elsewhere.Gateway = other
	was := acceptRA
	was.Value = "1"
	long := address
	long.Bits = 64
	for name, x := range map[string]struct {
		want  Item
		found Found
		op    Op
		err   string
	}{
		"absent":        {address, Found{}, Op{Verb: Make, Item: address}, ""},
		"there already": {address, Found{Item: address}, Op{Verb: Keep, Item: address}, ""},
		"of another lifetime": {
			until(address, time.Unix(9, 0)),
			Found{Item: address, Ours: true},
			Op{Verb: Keep, Item: until(address, time.Unix(9, 0))},
			"",
		},
		"of another length": {address, Found{Item: long}, Op{Verb: Keep, Item: address}, ""},
		"ours of another length": {
			address,
			Found{Item: long, Ours: true},
			Op{Verb: Change, Item: address, Was: long},
			"",
		},
		"a sysctl so already": {
			acceptRA,
			Found{Item: acceptRA},
			Op{Verb: Keep, Item: acceptRA},
			"",
		},
		"a sysctl otherwise": {
			acceptRA,
			Found{Item: was},
			Op{Verb: Make, Item: acceptRA, Old: "1"},
			"",
		},
		"our old route": {
			route,
			Found{Item: elsewhere, Ours: true},
			Op{Verb: Change, Item: route, Was: elsewhere},
			"",
		},
		"a foreign route":   {route, Found{Item: elsewhere}, Op{}, "not Roam's and stays"},
		"a foreign rule":    {rule, Found{Item: Rule{Priority: 7}}, Op{}, "not Roam's and stays"},
		"a device to adopt": {device, Found{Item: device}, Op{Verb: Change, Item: device}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			op, err := Decide(x.want, x.found)
			if op != x.op || (err != nil) != (x.err != "") || err != nil && !strings.Contains(err.Error(), x.err) {
				t.Errorf("got %+v, %v; want %+v, %q", op, err, x.op, x.err)
			}
		})
	}
}

// What is needed first is made first and goes last; what comes is there before
// what it replaces goes.
func TestOrder(t *testing.T) {
	all := []Item{rule, proxy, forwarding, route, acceptRA, neighbour, address, device}
	want := []Item{device, acceptRA, forwarding, address, neighbour, proxy, route, rule}
	var ops []Op
	for _, x := range all {
		ops = append(ops, Op{Verb: Remove, Item: x}, Op{Verb: Make, Item: x})
	}
	Sort(ops)
	var got []Item
	for i, op := range ops {
		if (op.Verb == Remove) != (i >= len(all)) {
			t.Errorf("step %d is %+v", i, op)
		}
		got = append(got, op.Item)
	}
	reverse := slices.Clone(want)
	slices.Reverse(reverse)
	if !slices.Equal(got[:len(all)], want) || !slices.Equal(got[len(all):], reverse) {
		t.Errorf("order %v", got)
	}
	// The journal is undone likewise, the newest of a stage first.
	recorded := []Item{address, route, acceptRA, Address{Link: 3, Addr: addr, Bits: 128}, device}
	if got := Undo(recorded); !slices.Equal(got, []int{1, 3, 0, 2, 4}) {
		t.Errorf("undone in the order %v", got)
	}
}

// The journal needs no more of an item than this, and rewrites nothing when only
// the rest changes.
func TestRecorded(t *testing.T) {
	long := until(address, time.Unix(9, 0))
	long.Detection, long.Preferred = Optimistic, true
	if long.Recorded() != Item(address) ||
		acceptRA.Recorded() != Item(Sysctl{Link: 2, Param: "accept_ra"}) ||
		device.Recorded() != Item(Device{Name: "dev0", Peer: "dev0x"}) {
		t.Errorf("%v, %v, %v", long.Recorded(), acceptRA.Recorded(), device.Recorded())
	}
	for _, x := range []Item{device, acceptRA, address, neighbour, proxy, route, rule} {
		if x.Recorded().Key() != x.Key() || x.Recorded().Recorded() != x.Recorded() {
			t.Errorf("%v is recorded as %v", x, x.Recorded())
		}
		if want := map[bool]int{true: 2}[x != Item(device) && x != Item(rule)]; LinkOf(x) != want {
			t.Errorf("%v stands on link %d", x, LinkOf(x))
		}
	}
}

func TestText(t *testing.T) {
	home := Address{Link: 2, Addr: addr, Bits: 128, Preferred: true, Until: time.Unix(9, 0)}
	full := Rule{Priority: 7, From: prefix, To: prefix, In: "lan", Mark: 5, Table: 9}
	for _, x := range []struct {
		Item
		want string
	}{
		{device, "device dev0 (MTU 1500)"},
		{Sysctl{Name: "default", Param: "accept_ra", Value: "2"}, "sysctl net.ipv6.conf.default.accept_ra = 2"},
		{address, "address 2001:db8::1/128 on link 2"},
		{neighbour, "neighbour 2001:db8::1 on link 2 at 02:00:00:00:00:01"},
		{proxy, "neighbour proxy for 2001:db8::1 on link 2"},
		{
			Route{Dst: netip.MustParsePrefix("::/0"), Link: 2, Source: addr},
			"route ::/0 table 254 metric 1024 on link 2 from 2001:db8::1",
		},
		{
			Route{Dst: prefix, Table: 9, Unreachable: true},
			"route 2001:db8:1::/48 table 9 metric 1024, unreachable",
		},
		{full, "rule 7 from 2001:db8:1::/48 to 2001:db8:1::/48 iif lan fwmark 0x5 table 9"},
		{home, "address 2001:db8::1/128 on link 2, preferred, until " + time.Unix(9, 0).Format("15:04:05")},
	} {
		if got := x.String(); got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}
