package topo

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

const mountinfo = `22 1 0:5 / /dev rw,nosuid shared:2 - devtmpfs devtmpfs rw
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
50 22 0:50 / /run/roam-lab/rm7-x/a/run/bpf rw - bpf bpf rw
51 22 0:51 / /run/roam-lab/rm7-x/a rw - tmpfs tmpfs rw
52 22 0:52 / /run/roam-lab/rm77-x/a rw - tmpfs tmpfs rw
`

func TestFindCgroup2(t *testing.T) {
	if got, ok := findCgroup2(mountinfo); !ok || got != "/sys/fs/cgroup/unified" {
		t.Errorf("found %q, %v", got, ok)
	}
	if got, ok := findCgroup2(strings.ReplaceAll(mountinfo, "cgroup2", "cgroup")); ok {
		t.Errorf("found %q where there is none", got)
	}
}

func TestMountsBelow(t *testing.T) {
	got := mountsBelow(mountinfo, "/run/roam-lab/rm7-x")
	want := []string{"/run/roam-lab/rm7-x/a/run/bpf", "/run/roam-lab/rm7-x/a"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("mounts %v, want %v", got, want)
	}
}

func TestParseStart(t *testing.T) {
	const rest = " S 1 2 3 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 98765 0 0"
	for _, name := range []string{"sh", "a b", "x) S 1 2", ""} {
		got, err := parseStart("42 (" + name + ")" + rest)
		if err != nil || got != 98765 {
			t.Errorf("program %q: %d, %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "42 (sh) S 1", "42 (sh)" + strings.Replace(rest, "98765", "x", 1)} {
		if _, err := parseStart(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestSysctlPath(t *testing.T) {
	for key, want := range map[string]string{
		"net.ipv6.conf.all.forwarding":    "/proc/sys/net/ipv6/conf/all/forwarding",
		"net/ipv6/conf/eth0.5/forwarding": "/proc/sys/net/ipv6/conf/eth0.5/forwarding",
	} {
		if got := sysctlPath(key); got != want {
			t.Errorf("%s: %s", key, got)
		}
	}
}

func TestMACIsStableAndLocal(t *testing.T) {
	a, b := macOf("mn", "wlan0"), macOf("mn", "wlan1")
	if a.String() == b.String() || a.String() != macOf("mn", "wlan0").String() {
		t.Errorf("addresses %v and %v", a, b)
	}
	if a[0]&3 != 2 {
		t.Errorf("%v is not a local unicast address", a)
	}
}

func TestNamesAreBounded(t *testing.T) {
	for _, name := range []string{"", "A", "a-b", "../x", "a b", strings.Repeat("a", 17)} {
		if l, err := New(name); err == nil {
			t.Errorf("lab %q was made", l.Name())
		}
	}
}

func TestAdvertChecks(t *testing.T) {
	good := Advert{Interface: "lan0", Prefix: netip.MustParsePrefix("2001:db8:1::/64")}
	for name, c := range map[string]struct {
		change func(*Advert)
		ok     bool
	}{
		"defaults": {func(*Advert) {}, true},
		"mobile intervals": {func(a *Advert) { a.MinInterval, a.MaxInterval = 30*time.Millisecond, 70*time.Millisecond },
			true},
		"no router":        {func(a *Advert) { a.RouterLifetime = -1 }, true},
		"IPv4":             {func(a *Advert) { a.Prefix = netip.MustParsePrefix("192.0.2.0/24") }, false},
		"/48":              {func(a *Advert) { a.Prefix = netip.MustParsePrefix("2001:db8:1::/48") }, false},
		"host bits":        {func(a *Advert) { a.Prefix = netip.MustParsePrefix("2001:db8:1::1/64") }, false},
		"min over 3/4 max": {func(a *Advert) { a.MinInterval = 3500 * time.Millisecond }, false},
		"too often":        {func(a *Advert) { a.MinInterval, a.MaxInterval = 10*time.Millisecond, time.Second }, false},
		"too fast answers": {func(a *Advert) { a.MinDelayBetweenRAs = time.Millisecond }, false},
		"too seldom":       {func(a *Advert) { a.MaxInterval = time.Hour }, false},
		"preferred longer": {func(a *Advert) { a.Preferred, a.Valid = 10*time.Second, 5*time.Second }, false},
		"short lifetime":   {func(a *Advert) { a.RouterLifetime = time.Second }, false},
	} {
		a := good
		c.change(&a)
		if err := a.withDefaults().check(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAdvertConf(t *testing.T) {
	a := Advert{
		Interface: "lan0", Prefix: netip.MustParsePrefix("2001:db8:1::/64"),
		MinInterval: 50 * time.Millisecond, MaxInterval: 100 * time.Millisecond,
		Preferred: 5 * time.Second, Valid: 10 * time.Second, RouterLifetime: -1, MTU: 1400,
	}
	got := a.withDefaults().conf()
	for _, want := range []string{
		"interface lan0 {", "MinRtrAdvInterval 0.050;", "MaxRtrAdvInterval 0.100;", "MinDelayBetweenRAs 0.030;",
		"AdvDefaultLifetime 0;", "AdvLinkMTU 1400;", "prefix 2001:db8:1::/64 {",
		"AdvPreferredLifetime 5;", "AdvValidLifetime 10;",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("configuration lacks %q:\n%s", want, got)
		}
	}
}
