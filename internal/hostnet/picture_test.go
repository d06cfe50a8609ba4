package hostnet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"roam"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const upFlags = unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOWER_UP

var testRules = rules{session: roam.DefaultSessionPrefix, nid: 0x0211_22ff_fe33_4455, device: "roam0", exclude: []string{"docker*"}}

func ethernet(name string) link {
	return link{name: name, flags: upFlags, arphrd: unix.ARPHRD_ETHER, mtu: 1500}
}

func in(d time.Duration) time.Time { return epoch.Add(d) }

func key(link int, s string) addrKey { return addrKey{link, netip.MustParseAddr(s)} }

var (
	localA = roam.LinkLocator{Link: 2, L64: 0x2001_0db8_000a_0001}
	localB = roam.LinkLocator{Link: 3, L64: 0x2001_0db8_000b_0002}
)

// oneUplink is a host with eth0, an address by SLAAC, a default route, and
// prefix:NID past duplicate detection.
func oneUplink() *table {
	t := newTable()
	t.links[2] = ethernet("eth0")
	t.addrs[key(2, "2001:db8:a:1::5")] = address{preferred: in(100 * time.Second), valid: in(200 * time.Second), heard: 1}
	t.routes = []route{{link: 2, gateway: netip.MustParseAddr("fe80::1"), metric: 1024, main: true}}
	t.addrs[testRules.own(localA)] = address{flags: unix.IFA_F_DEPRECATED}
	return t
}

// ours names prefix:NID as added by us.
func ours(l ...roam.LinkLocator) map[addrKey]bool {
	m := map[addrKey]bool{}
	for _, x := range l {
		m[testRules.own(x)] = true
	}
	return m
}

func TestDraw(t *testing.T) {
	known := map[int]Uplink{2: {}}
	own := testRules.own(localA)
	for _, c := range []struct {
		name   string
		change func(*table)
		known  map[int]Uplink
		want   string // uplinks and locators: name, up, routed; L64 preferred
	}{
		{"as it is", func(*table) {}, nil, "eth0+r A100"},
		{"no carrier", func(t *table) {
			l := t.links[2]
			l.flags = unix.IFF_UP
			t.links[2] = l
		}, known, "eth0-r"},
		{"no carrier, never an uplink", func(t *table) {
			l := t.links[2]
			l.flags = unix.IFF_UP
			t.links[2] = l
		}, nil, ""},
		{"no default route", func(t *table) { t.routes = nil }, known, "eth0+"},
		{"route of another link", func(t *table) { t.routes[0].link = 7 }, nil, ""},
		{"route expired", func(t *table) { t.routes[0].expires = epoch }, known, "eth0+"},
		{"route expires later", func(t *table) { t.routes[0].expires = in(1) }, nil, "eth0+r A100"},
		{"address deprecated", func(t *table) {
			t.addrs[key(2, "2001:db8:a:1::5")] = address{preferred: epoch, valid: in(time.Hour)}
		}, nil, "eth0+r A0"},
		{"address for ever", func(t *table) { t.addrs[key(2, "2001:db8:a:1::6")] = address{} }, nil, "eth0+r Ainf"},
		{"advertised for longer", func(t *table) { t.ras[localA] = ra{preferred: in(300 * time.Second)} }, nil, "eth0+r A300"},
		{"advertisement only", func(t *table) {
			delete(t.addrs, key(2, "2001:db8:a:1::5"))
			t.ras[localA] = ra{preferred: in(60 * time.Second), valid: in(time.Hour)}
		}, nil, "eth0+r A60"},
		{"advertisement ended", func(t *table) {
			delete(t.addrs, key(2, "2001:db8:a:1::5"))
			t.ras[localA] = ra{preferred: epoch, valid: epoch}
		}, known, "eth0+r"},
		{"our own address is no evidence", func(t *table) { delete(t.addrs, key(2, "2001:db8:a:1::5")) }, known, "eth0+r"},
		{"duplicate", func(t *table) { t.addrs[own] = address{flags: unix.IFA_F_DADFAILED | unix.IFA_F_TENTATIVE} }, nil, "eth0+r"},
		{"tentative", func(t *table) { t.addrs[own] = address{flags: unix.IFA_F_TENTATIVE} }, nil, "eth0+r"},
		{"optimistic, not yet answered for", func(t *table) {
			t.addrs[own] = address{flags: unix.IFA_F_TENTATIVE | unix.IFA_F_OPTIMISTIC}
		}, nil, "eth0+r"},
		{"optimistic", func(t *table) {
			t.addrs[own] = address{flags: unix.IFA_F_TENTATIVE | unix.IFA_F_OPTIMISTIC}
			t.locals[own] = true
		}, nil, "eth0+r A100"},
		{"link-local only", func(t *table) {
			t.addrs = map[addrKey]address{key(2, "fe80::5"): {scope: unix.RT_SCOPE_LINK}}
		}, nil, ""},
		{"session prefix on an uplink", func(t *table) {
			t.addrs[key(2, "fd69:6c6e:7000:2627::1")] = address{}
		}, nil, "eth0+r A100"},
		{"excluded", func(t *table) { t.links[2] = ethernet("docker0") }, known, ""},
		{"port of a bond", func(t *table) {
			l := t.links[2]
			l.master, t.links[9] = 9, link{kind: "bond"}
			t.links[2] = l
		}, known, ""},
		{"member of a VRF", func(t *table) {
			l := t.links[2]
			l.master, t.links[9] = 9, link{kind: "vrf"}
			t.links[2] = l
		}, known, "eth0+r A100"},
		{"same prefix on two links", func(t *table) {
			t.links[3] = ethernet("eth1")
			t.addrs[key(3, "2001:db8:a:1::6")] = address{}
			t.addrs[addrKey{3, own.addr}] = address{}
			t.routes = append(t.routes, route{link: 3})
		}, nil, "eth0+r eth1+r A100 A@3inf"},
		{"two prefixes on one link", func(t *table) {
			t.addrs[key(2, "2001:db8:b:2::6")] = address{}
			t.addrs[testRules.own(roam.LinkLocator{Link: 2, L64: localB.L64})] = address{}
		}, nil, "eth0+r A100 Binf"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := oneUplink()
			c.change(table)
			second := roam.LinkLocator{Link: 3, L64: localA.L64}
			p := table.draw(testRules, ours(localA, second, roam.LinkLocator{Link: 2, L64: localB.L64}), c.known, epoch)
			if got := show(p.snapshot(epoch)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// show writes a snapshot in one line.
func show(s Snapshot) string {
	var words []string
	for _, u := range s.Uplinks {
		w := u.Name + "-"
		if u.Up {
			w = u.Name + "+"
		}
		if u.Routed {
			w += "r"
		}
		words = append(words, w)
	}
	for _, l := range s.Locators {
		w := map[roam.L64]string{localA.L64: "A", localB.L64: "B"}[l.L64]
		if l.Link != 2 {
			w += fmt.Sprintf("@%d", l.Link)
		}
		if l.Preferred == roam.Infinite {
			w += "inf"
		} else {
			w += fmt.Sprint(int(l.Preferred.Seconds()))
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

func TestAccepts(t *testing.T) {
	for _, c := range []struct {
		include, exclude []string
		yes, no          string
	}{
		{nil, nil, "eth0 wlan0 wg0 veth1", "lo roam0 roam0x"},
		{nil, []string{"docker*", "wg*"}, "eth0", "docker0 wg0 lo"},
		{[]string{"eth?", "roam0"}, []string{"eth1"}, "eth0", "eth1 eth10 wlan0 roam0"},
		{nil, []string{"[a"}, "a eth0", "lo"},
	} {
		r := rules{device: "roam0", include: c.include, exclude: c.exclude}
		for _, name := range strings.Fields(c.yes) {
			if !r.accepts(name) {
				t.Errorf("%v %v refuses %s", c.include, c.exclude, name)
			}
		}
		for _, name := range strings.Fields(c.no) {
			if r.accepts(name) {
				t.Errorf("%v %v accepts %s", c.include, c.exclude, name)
			}
		}
	}
}

// pictureOf has one uplink for each locator's link.
func pictureOf(l map[roam.LinkLocator]locator) picture {
	p := picture{uplinks: map[int]Uplink{}, locators: l}
	for k := range l {
		p.uplinks[int(k.Link)] = Uplink{Link: k.Link, Name: fmt.Sprint("eth", k.Link)}
	}
	return p
}

// brief writes events in one line.
func brief(list []Event) string {
	var words []string
	for _, e := range list {
		switch e := e.(type) {
		case LocatorChanged:
			sign := map[bool]string{true: "+", false: "-"}[e.Present]
			words = append(words, fmt.Sprintf("%s%x@%d", sign, uint64(e.L64), e.Link))
		case UplinkChanged:
			words = append(words, fmt.Sprintf("link%d", e.Uplink.Link))
		case LinkGone:
			words = append(words, fmt.Sprintf("gone%d", e.Link))
		default:
			words = append(words, fmt.Sprintf("%T", e))
		}
	}
	return strings.Join(words, " ")
}

func TestDiff(t *testing.T) {
	on := locator{usable: true, preferred: in(time.Minute), heard: 1}
	off := locator{}
	again, aged := on, on
	again.heard = 2
	aged.preferred = in(time.Second)
	a, b := roam.LinkLocator{Link: 2, L64: 0xa}, roam.LinkLocator{Link: 3, L64: 0xb}
	type set = map[roam.LinkLocator]locator
	for _, c := range []struct {
		name          string
		before, after set
		want          string
	}{
		{"first", nil, set{a: on}, "link2 +a@2"},
		{"nothing new", set{a: on}, set{a: on}, ""},
		{"refresh", set{a: on}, set{a: again}, "+a@2"},
		{"other lifetime", set{a: on}, set{a: aged}, "+a@2"},
		{"not yet usable", nil, set{a: off}, "link2"},
		{"usable", set{a: off}, set{a: on}, "+a@2"},
		{"unusable", set{a: on}, set{a: off}, "-a@2"},
		{"gone with its link", set{a: on}, set{}, "-a@2 gone2"},
		{"gone unusable", set{a: off}, set{}, "gone2"},
		{"the new one before the old one goes", set{a: on}, set{b: on}, "link3 +b@3 -a@2 gone2"},
	} {
		if got := brief(diff(pictureOf(c.before), pictureOf(c.after), epoch)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestBetterRouter(t *testing.T) {
	gw := func(s string) netip.Addr { return netip.MustParseAddr(s) }
	base := route{link: 2, gateway: gw("fe80::5"), metric: 1024, main: true}
	table := newTable()
	table.neighs[key(2, "fe80::6")] = neigh{state: unix.NUD_STALE}
	table.neighs[key(2, "fe80::4")] = neigh{state: unix.NUD_FAILED}
	for _, c := range []struct {
		name   string
		change func(*route)
		better bool
	}{
		{"other table", func(r *route) { r.main = false; r.metric = 1 }, false},
		{"lower metric", func(r *route) { r.metric = 1; r.gateway = gw("fe80::9") }, true},
		{"answers", func(r *route) { r.gateway = gw("fe80::6") }, true},
		{"failed counts as unknown", func(r *route) { r.gateway = gw("fe80::4") }, true},
		{"high preference", func(r *route) { r.pref = 1; r.gateway = gw("fe80::9") }, true},
		{"low preference", func(r *route) { r.pref = 3; r.gateway = gw("fe80::1") }, false},
		{"higher address", func(r *route) { r.gateway = gw("fe80::9") }, false},
	} {
		other := base
		c.change(&other)
		if got := table.better(&other, &base); got != c.better {
			t.Errorf("%s: better %v, want %v", c.name, got, c.better)
		}
		if table.better(&other, &base) == table.better(&base, &other) {
			t.Errorf("%s: no order", c.name)
		}
	}
}

func TestUplinkNextHop(t *testing.T) {
	table := oneUplink()
	mac := []byte{2, 0, 0, 0, 0, 9}
	table.neighs[key(2, "fe80::1")] = neigh{state: unix.NUD_REACHABLE, mac: mac}
	u := table.uplink(2, table.links[2], epoch)
	if !u.NextHopValid || !slices.Equal(u.NextHopMAC, mac) || u.NextHop != netip.MustParseAddr("fe80::1") {
		t.Errorf("uplink %+v", u)
	}
	// A link without Ethernet: its default route names only the device.
	table.links[2] = link{name: "wwan0", flags: upFlags, arphrd: unix.ARPHRD_NONE, mtu: 1428}
	table.routes[0].gateway = netip.Addr{}
	u = table.uplink(2, table.links[2], epoch)
	if u.HasMAC || u.NextHop.IsValid() || u.NextHopValid || !u.Routed {
		t.Errorf("uplink without Ethernet %+v", u)
	}
}

func TestWake(t *testing.T) {
	table := oneUplink()
	if at := table.wake(epoch); !at.IsZero() {
		t.Errorf("nothing ends, yet wake at %v", at)
	}
	table.routes[0].expires = in(9 * time.Second)
	table.ras[localA] = ra{valid: in(5 * time.Second)}
	table.ras[localB] = ra{valid: in(-time.Second)}
	if at := table.wake(epoch); !at.Equal(in(5 * time.Second)) {
		t.Errorf("wake at %v, want after 5 s", at)
	}
}

// A route whose end has come is looked at again whatever wakes us: the deadline
// alone is no news once it has passed.
func TestOverdueRoute(t *testing.T) {
	table := newTable()
	for _, c := range []struct {
		expires time.Time
		want    bool
	}{{time.Time{}, false}, {epoch.Add(time.Second), false}, {epoch, true}, {epoch.Add(-time.Second), true}} {
		table.routes = []route{{link: 1}, {link: 2, expires: c.expires}}
		if got := table.overdue(epoch); got != c.want {
			t.Errorf("expires %v: overdue %v", c.expires.Sub(epoch), got)
		}
		if c.want && !table.wake(epoch).IsZero() {
			t.Error("the deadline that has passed would wake us: then overdue is not needed")
		}
	}
}

func TestExpiryInItsLastTick(t *testing.T) {
	old := []route{{link: 2, metric: 1024, expires: in(time.Millisecond)}}
	r := route{link: 2, metric: 1024}
	if got := r.settleExpiry(old, epoch); !got.expires.Equal(in(clockTick)) {
		t.Errorf("expires %v", got.expires)
	}
	old[0].expires = in(time.Hour)
	if got := r.settleExpiry(old, epoch); !got.expires.IsZero() {
		t.Errorf("a route made permanent expires at %v", got.expires)
	}
}

func TestDeviceMTU(t *testing.T) {
	up := func(mtu int) Uplink { return Uplink{MTU: mtu, Up: true, Routed: true} }
	for _, c := range []struct {
		uplinks []Uplink
		option  int
		want    int
	}{
		{nil, 8, 0},
		{[]Uplink{{MTU: 1400}}, 8, 0},
		{[]Uplink{up(1500)}, 8, 1492},
		{[]Uplink{up(1500)}, 16, 1484},
		{[]Uplink{up(1500), up(1428)}, 8, 1420},
		{[]Uplink{up(9000)}, 8, 1500},
		{[]Uplink{up(1280)}, 8, 1280},
	} {
		if got := deviceMTU(c.uplinks, c.option); got != c.want {
			t.Errorf("%+v: %d, want %d", c, got, c.want)
		}
	}
}

func TestAttemptBacksOff(t *testing.T) {
	var a attempt
	var waits []time.Duration
	now := epoch
	for range 10 {
		a.again(now)
		waits = append(waits, a.next.Sub(now))
		now = a.next
	}
	want := []time.Duration{0, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second,
		4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second}
	if d := cmp.Diff(want, waits); d != "" {
		t.Error(d)
	}
	a.again(now.Add(2 * settled))
	if a.next.After(now.Add(2 * settled)) {
		t.Error("after standing for long, the next loss is not repaired at once")
	}
}
