package hostnet

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"roam/internal/hostnet/desired"
	"roam/internal/hostnet/nettest"
	"roam/internal/testutil"
)

const (
	// sequencesEnv sets how many sequences TestKilledProcesses tries.
	sequencesEnv = "ROAM_STATE_SEQUENCES"
	// lifeEnv makes this binary one process of such a sequence.
	lifeEnv = "ROAM_STATE_LIFE"
)

func TestMain(m *testing.M) {
	if os.Getenv(lifeEnv) != "" {
		if err := life(os.Getenv(lifeEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// life is a process that sets random states of random owners, and kills itself
// at one of the points of the applier unless it is killed before. arg is
// SEED,POINT,JOURNAL.
func life(arg string) error {
	f := strings.SplitN(arg, ",", 3)
	seed, err := strconv.ParseUint(f[0], 10, 64)
	if err != nil {
		return err
	}
	left, err := strconv.Atoi(f[1])
	if err != nil {
		return err
	}
	j, err := loadJournal(f[2])
	if err != nil {
		return err
	}
	k, err := openKernel()
	if err != nil {
		return err
	}
	a := newApplier(k, j)
	a.at = func(string) {
		if left--; left < 0 {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}
	fmt.Println("alive")
	r := rand.New(rand.NewPCG(seed, 2))
	for range 12 {
		menu, err := menuOf(k)
		if err != nil {
			return err
		}
		// What contradicts another owner or the host is refused.
		_, _ = a.set(string(rune('a'+r.IntN(3))), pick(menu, r, 3))
	}
	return nil
}

// menuOf lists what states are made of, on the links that are there now: several
// forms of most items.
func menuOf(k *kernel) (menu []desired.Item, err error) {
	menu = append(menu, desired.Device{Name: "made0", Peer: "made0x", MTU: 1500},
		desired.Device{Name: "made0", Peer: "made0x", MTU: 1400})
	for _, name := range []string{"up0", "lan0", "made0"} {
		if missing, err := k.missing(name); err != nil {
			return nil, err
		} else if missing {
			continue
		}
		l, err := k.links.LinkByName(name)
		if err != nil {
			continue // it went a moment ago, with a device
		}
		menu = append(menu, onLink(l.Attrs().Index)...)
	}
	for i := range 3 {
		from := netip.MustParsePrefix(fmt.Sprintf("2001:db8:%x::/48", i+1))
		menu = append(menu, desired.Rule{Priority: 100 + i, Table: 77},
			desired.Rule{Priority: 100 + i, From: from, Table: 77}, desired.Rule{Priority: 100 + i, Mark: 5, Table: 78},
			desired.Route{Dst: from, Table: 78, Unreachable: true})
	}
	return menu, nil
}

func onLink(link int) (menu []desired.Item) {
	for i := range 3 {
		a := netip.MustParseAddr(fmt.Sprintf("2001:db8:%x::1", i+1))
		net := netip.PrefixFrom(a, 48).Masked()
		menu = append(menu,
			desired.Address{Link: link, Addr: a, Bits: 128, Detection: desired.None},
			desired.Address{Link: link, Addr: a, Bits: 64, Detection: desired.Usual, Preferred: true},
			desired.Address{Link: link, Addr: a, Bits: 128, Until: time.Now().Add(time.Hour)},
			desired.Neighbour{Link: link, Addr: a.Next(), MAC: "02:00:00:00:00:01"},
			desired.Neighbour{Link: link, Addr: a.Next(), MAC: "02:00:00:00:00:02"},
			desired.Proxy{Link: link, Addr: a.Next()},
			desired.Route{Dst: net, Link: link, Table: 77},
			desired.Route{Dst: net, Link: link, Table: 77, Gateway: netip.MustParseAddr("fe80::77")},
			desired.Route{Dst: net, Link: link, Metric: 50 + i})
	}
	for _, s := range []struct{ param, value string }{
		{acceptRA, "2"}, {acceptRA, "0"}, {"proxy_ndp", "1"}, {"forwarding", "1"}, {"optimistic_dad", "1"}, {"hop_limit", "63"},
	} {
		menu = append(menu, desired.Sysctl{Link: link, Param: s.param, Value: s.value})
	}
	return menu
}

// pick returns a state of a part of a menu.
func pick(menu []desired.Item, r *rand.Rand, part int) (s desired.State) {
	var keys []string
	for _, i := range r.Perm(len(menu)) {
		x := menu[i]
		if r.IntN(part) != 0 || slices.Contains(keys, x.Key()) {
			continue
		}
		keys = append(keys, x.Key())
		switch x := x.(type) {
		case desired.Device:
			s.Devices = append(s.Devices, x)
		case desired.Sysctl:
			s.Sysctls = append(s.Sysctls, x)
		case desired.Address:
			s.Addresses = append(s.Addresses, x)
		case desired.Neighbour:
			s.Neighbours = append(s.Neighbours, x)
		case desired.Proxy:
			s.Proxies = append(s.Proxies, x)
		case desired.Route:
			s.Routes = append(s.Routes, x)
		case desired.Rule:
			s.Rules = append(s.Rules, x)
		}
	}
	return s
}

// TestKilledProcesses has processes set random states and die anywhere, by their
// own hand between two steps or by another's at any moment. Restore then leaves
// the host as it was found, with what was there before Roam.
func TestKilledProcesses(t *testing.T) {
	sequences := 20
	if s := os.Getenv(sequencesEnv); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("%s: %v", sequencesEnv, err)
		}
		sequences = n
	}
	deaths := map[string]int{}
	for seed := range uint64(sequences) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { killedSequence(t, seed, deaths) })
	}
	t.Logf("%d sequences; processes ended: %v", sequences, deaths)
	if killed := deaths["by its own hand"] + deaths["by another's"]; killed < sequences/2 {
		t.Errorf("only %d processes of %d sequences were killed", killed, sequences)
	}
}

func killedSequence(t *testing.T, seed uint64, deaths map[string]int) {
	host := nettest.New(t)
	r := rand.New(rand.NewPCG(seed, 1))
	host.Sysctl("net/ipv6/conf/default/accept_dad", "0")
	for _, name := range []string{"up0", "lan0"} {
		host.Run("ip", "link", "add", name, "type", "veth", "peer", "name", name+"p")
		for _, end := range []string{name, name + "p"} {
			host.Run("ip", "link", "set", end, "up")
		}
	}
	for _, end := range []string{"up0", "up0p", "lan0", "lan0p"} {
		testutil.Eventually(t, soon, func() bool {
			return strings.Contains(host.Run("ip", "-6", "route", "show", "table", "local", "dev", end), "fe80::")
		}, end+" has its link-local address")
	}
	foreign(t, host, r)
	before := wholeState(host)
	journal := filepath.Join(t.TempDir(), "host.json")
	for range 1 + r.IntN(3) {
		deaths[aLife(t, host, journal, r)]++
	}
	restores(t, host, journal, before)
}

// restores checks that Restore leaves the host as it was before.
func restores(t *testing.T, host *nettest.NS, journal, before string) {
	t.Helper()
	left, _ := os.ReadFile(journal)
	var err error
	host.Do(func() { err = Restore(journal) })
	after := wholeState(host)
	// Workers of the kernel finish what a request began.
	for end := time.Now().Add(soon / 5); err == nil && after != before && time.Now().Before(end); {
		after = wholeState(host)
	}
	if err != nil || after != before {
		t.Errorf("restored: %v\nfound (-) and restored (+):\n%s\nby the journal\n%s", err,
			cmp.Diff(strings.Split(before, "\n"), strings.Split(after, "\n")), left)
	}
}

// foreign puts some items on the host that are not Roam's, some of which it will
// want as well.
func foreign(t *testing.T, host *nettest.NS, r *rand.Rand) {
	t.Helper()
	for _, c := range []string{
		"addr add 2001:db8:1::1/64 dev up0 nodad", "addr add 2001:db8:9::1/64 dev lan0 nodad",
		"neigh add 2001:db8:2::2 lladdr 02:00:00:00:00:02 dev up0", "neigh add proxy 2001:db8:3::2 dev lan0",
		"route add 2001:db8:2::/48 dev lan0 table 77", "route add 2001:db8:1::/48 dev up0 metric 50",
		"rule add priority 101 table 77", "rule add priority 102 from 2001:db8:9::/48 table 12",
		"route add unreachable 2001:db8:3::/48 table 78",
	} {
		if r.IntN(3) == 0 {
			host.Run("ip", append([]string{"-6"}, strings.Fields(c)...)...)
		}
	}
	testutil.Eventually(t, soon, func() bool {
		addrs := strings.Count(host.Run("ip", "-6", "addr", "show", "scope", "global"), "inet6")
		return strings.Count(host.Run("ip", "-6", "route", "show", "table", "local", "type", "local"), "2001:db8:") == addrs
	}, "the kernel answers for each address")
	if r.IntN(3) == 0 {
		host.Sysctl("net/ipv6/conf/up0/forwarding", "1")
	}
	if r.IntN(3) == 0 {
		host.Sysctl("net/ipv6/conf/lan0/accept_ra", "2")
	}
}

// aLife runs one process and says how it ended.
func aLife(t *testing.T, host *nettest.NS, journal string, r *rand.Rand) string {
	t.Helper()
	point, wait := r.IntN(120), time.Hour
	if r.IntN(2) == 0 {
		point, wait = 1<<30, time.Duration(r.IntN(60_000))*time.Microsecond
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d,%d,%s", lifeEnv, r.Uint64(), point, journal))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	host.Do(func() { err = cmd.Start() })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the process did not start: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case err = <-ended:
	case <-timer.C:
		_ = cmd.Process.Kill()
		if err = <-ended; err != nil {
			return "by another's"
		}
	}
	switch status, _ := cmd.ProcessState.Sys().(interface{ Signaled() bool }); {
	case err == nil:
		return "by itself"
	case status.Signaled():
		return "by its own hand"
	}
	t.Fatalf("the process failed: %v", err)
	return ""
}

// wholeState prints everything that Roam may change, without what passes by
// itself.
func wholeState(n *nettest.NS) string {
	var b strings.Builder
	b.WriteString(n.State())
	b.WriteString(n.Run("ip", "-6", "neigh", "show", "nud", "permanent"))
	b.WriteString(n.Run("ip", "-6", "neigh", "show", "proxy"))
	for _, name := range []string{"all", "default", "lo", "up0", "up0p", "lan0", "lan0p"} {
		n.Do(func() {
			dir := "/proc/sys/net/ipv6/conf/" + name
			list, _ := os.ReadDir(dir)
			for _, e := range list {
				if v, err := os.ReadFile(filepath.Join(dir, e.Name())); err == nil && e.Name() != "stable_secret" {
					fmt.Fprintf(&b, "%s/%s %s", name, e.Name(), v)
				}
			}
		})
	}
	return b.String()
}

// A process was killed while it changed a rule: both forms stand. Whatever its
// successor wants, they go.
func TestRuleOfTwoForms(t *testing.T) {
	plain := desired.Rule{Priority: 100, Table: 77}
	marked := desired.Rule{Priority: 100, Mark: 5, Table: 77}
	other := desired.Rule{Priority: 100, Mark: 6, Table: 77}
	for _, want := range []desired.Rule{plain, marked, other, {}} {
		host := nettest.New(t)
		var k *kernel
		var err error
		host.Do(func() { k, err = openKernel() })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(k.close)
		j := &journal{path: filepath.Join(t.TempDir(), "host.json")}
		if err := j.edit(nil, []entry{{"a", plain, ""}, {"a", marked, ""}}); err != nil {
			t.Fatal(err)
		}
		for _, x := range []desired.Rule{plain, marked} {
			if err := k.put(desired.Op{Verb: desired.Make, Item: x}); err != nil {
				t.Fatal(err)
			}
		}
		var s desired.State
		if want != (desired.Rule{}) {
			s.Rules = append(s.Rules, want)
		}
		mustSet(t, newApplier(k, j), "a", s)
		if got := strings.Count(host.Run("ip", "-6", "rule", "show"), "lookup 77"); got != len(s.Rules) || len(j.entries) != got {
			t.Errorf("%v: %d rules stand, journal %v", want, got, j.entries)
		}
	}
}
