package acceptance

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/workload"
	ilnpwire "roam/wire/ilnp"
)

// ports of the flows; each is matched by another rule, the first one by none.
const (
	portNone = 7000 + iota
	portFailover
	portEighty
	portThree
	portDSCP
	portCgroup
	portReload

	portGroups = 7100 // and above: of a cgroup that is made anew
)

// flowRules is a configuration with rules for the flows above; group is the cgroup of one.
func flowRules(group string) string {
	return fmt.Sprintf(`
[[rule]]
name = "by cgroup"
cgroup = %q
policy = "failover"
links = ["net2"]

[[rule]]
dscp = [46]
policy = "failover"
links = ["net1"]

[[rule]]
protocol = "udp"
ports = [%d]
policy = "failover"
links = ["absent0", "net2", "net1"]

[[rule]]
protocol = "udp"
ports = [%d]
policy = "weighted"
shares = { net1 = 80, net2 = 20 }

[[rule]]
protocol = "udp"
ports = [%d]
policy = "weighted"
shares = { net1 = 50, net2 = 30, net3 = 20 }
`, group, portFailover, portEighty, portThree)
}

// reloadRule sends the flow of the reload by one link.
func reloadRule(link string) string {
	return fmt.Sprintf("\n[[rule]]\nports = [%d]\npolicy = \"failover\"\nlinks = [%q]\n", portReload, link)
}

// cgroup2 makes a cgroup for a test.
func cgroup2(t testing.TB) string {
	t.Helper()
	for _, mount := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if _, err := os.Stat(filepath.Join(mount, "cgroup.procs")); err == nil {
			dir, err := os.MkdirTemp(mount, "roam-rules-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Remove(dir) })
			return dir
		}
	}
	testutil.NeedKernel(t, "cgroup2", false)
	return ""
}

// sends sends n datagrams of two sizes to a port, as a program of mn.
func (w *world) sends(t testing.TB, port, n int, class byte) {
	t.Helper()
	var c *net.UDPConn
	err := w.hosts["mn"].Do(func() (err error) {
		c, err = net.DialUDP("udp6", nil, &net.UDPAddr{IP: w.session("cn").AsSlice(), Port: port})
		return err
	})
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IPV6, syscall.IPV6_TCLASS, int(class))
		})
	}
	pace := time.NewTicker(time.Millisecond) // no queue on the way is to overflow
	defer pace.Stop()
	for i := 0; i < n && err == nil; i++ {
		if _, err = c.Write(make([]byte, 100+600*(i*7%2))); i%4 == 3 {
			<-pace.C
		}
		if err != nil && strings.Contains(err.Error(), "refused") {
			err = nil // nobody listens there
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// shares returns which part of the bytes of the datagrams to a port came from each locator.
func (tap *wiretap) shares(port uint16) (shares map[roam.L64]float64, packets int) {
	shares = make(map[roam.L64]float64)
	total := 0.0
	for _, f := range tap.frames() {
		at := 40
		if len(f) > 48 && f[6] == 60 {
			at = 48
		}
		if len(f) < at+8 || f[6] != 17 && !(f[6] == 60 && f[40] == 17) || binary.BigEndian.Uint16(f[at+2:]) != port {
			continue
		}
		shares[roam.L64(binary.BigEndian.Uint64(f[8:]))] += float64(len(f))
		total += float64(len(f))
		packets++
	}
	for l := range shares {
		shares[l] /= total
	}
	return shares, packets
}

// ruled is a world of a host with three links and rules, and a correspondent.
type ruled struct {
	*world
	mn, cn *host
	tap    *wiretap // of all that reaches cn
	group  string   // cgroup of a rule
}

// stay keeps the host on its third link.
const stay = "[uplinks]\nprefer = [\"net3\"]\n"

// loc is the locator on a link of mn.
func (r *ruled) loc(n int) roam.L64 { return l64(r.world, "mn", n) }

// reload gives mn another end of its configuration, and returns what the reload said.
func (r *ruled) reload(more string) (diag string, err error) {
	r.mn.write(settings{mode: "soft", more: more})
	_, diag, err = r.mn.command("config", "reload")
	return diag, err
}

// must reloads what has no fault.
func (r *ruled) mustReload(more string) {
	r.t.Helper()
	if diag, err := r.reload(more); err != nil {
		r.t.Fatalf("reload: %v: %s", err, diag)
	}
}

// TestRules sends flows that port, DSCP and cgroup tell apart, all at once: each leaves where its
// rule says, and weighted ones in their shares. A file with a fault changes nothing; a reload at
// a high rate loses nothing; and preferences of locators reach the peer.
func TestRules(t *testing.T) {
	w := newWorld(t, "rules", 5*time.Millisecond, place{name: "mn", links: 3, mobile: true}, place{name: "cn", links: 1})
	r := &ruled{world: w, group: cgroup2(t)}
	r.mn = w.newHost("mn", settings{mode: "soft", more: stay + flowRules(r.group)}).start()
	r.cn = w.newHost("cn", settings{mode: "soft"}).start()
	r.mn.becomes("net3")
	w.must("mn", "ping", "-c", "3", "-i", "0.2", "cn")
	r.mn.reaches("cn", "established")
	r.tap = w.tap(t, w.r1, "cn1", "ip6")

	// The peer acknowledges the locators in reserve soon after the session has begun.
	testutil.Eventually(t, patience, func() bool {
		out := r.mn.roam("explain", "cn", fmt.Sprint(portFailover))
		return strings.Contains(out, "by net2") && strings.Contains(out, "the first of its links that works")
	}, "explanation of a flow by a link in reserve")
	w.sub("each flow by its rule", r.eachByItsRule)
	w.sub("a cgroup that goes away", r.remakeGroup)
	w.sub("refused", r.refused)
	w.sub("reload loses nothing", r.reloadAtARate)
	w.sub("preferences", r.preferences)
}

func (r *ruled) eachByItsRule(t *testing.T) {
	var all sync.WaitGroup
	for port, n := range map[int]int{portNone: 200, portFailover: 200, portEighty: 4000, portThree: 4000} {
		all.Go(func() { r.sends(t, port, n, 0) })
	}
	all.Go(func() { r.sends(t, portDSCP, 200, 46<<2) })
	all.Go(func() { r.sendsInGroup(t, portCgroup, 200) })
	all.Wait()
	links := []roam.L64{r.loc(1), r.loc(2), r.loc(3)}
	for port, want := range map[uint16][]float64{
		portNone: {0, 0, 1}, portFailover: {0, 1, 0}, portDSCP: {1, 0, 0}, portCgroup: {0, 1, 0},
		portEighty: {0.8, 0.2, 0}, portThree: {0.5, 0.3, 0.2},
	} {
		same := func() bool {
			got, n := r.tap.shares(port)
			return n >= 100 && !slices.ContainsFunc([]int{0, 1, 2}, func(i int) bool {
				return math.Abs(got[links[i]]-want[i]) > 0.01
			})
		}
		matched := testutil.Wait(patience, same)
		got, n := r.tap.shares(port)
		t.Logf("port %d: %d packets by %v", port, n, got)
		if !matched {
			t.Errorf("port %d: %d packets by %v, want %v", port, n, got, want)
		}
	}
}

// sendsInGroup sends n datagrams to a port, as a program in the cgroup of the rule.
func (r *ruled) sendsInGroup(t *testing.T, port, n int) {
	t.Helper()
	line := fmt.Sprintf("echo $$ > %s/cgroup.procs && exec 3<>/dev/udp/%s/%d && "+
		"for i in $(seq %d); do echo $i >&3; done 2>/dev/null", r.group, r.session("cn"), port, n)
	if out, err := r.run("mn", "bash", "-c", line); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// remakeGroup removes the cgroup that a rule names, and makes it anew, with another number: the flow of a program in
// the new one follows the rule. Meanwhile other rules are as before.
func (r *ruled) remakeGroup(t *testing.T) {
	const attempts = 100
	others := portGroups + 2*attempts
	testutil.Eventually(t, patience, func() bool { // what was in it has ended
		err := os.Remove(r.group)
		return err == nil
	}, "the cgroup is removed")
	r.sends(t, others, 40, 46<<2) // some writes return the error of an earlier one
	if out := r.mn.roam("explain", "cn", fmt.Sprint(portFailover)); !strings.Contains(out, "by net2") {
		t.Errorf("without the cgroup: %s", out)
	}
	if err := os.Mkdir(r.group, 0o755); err != nil {
		t.Fatal(err)
	}
	port := portGroups
	testutil.Eventually(t, patience, func() bool {
		if port++; port > portGroups+attempts {
			return false
		}
		r.sendsInGroup(t, port, 20)
		var got map[roam.L64]float64
		return testutil.Wait(patience, func() bool { // they are under way yet
			var n int
			got, n = r.tap.shares(uint16(port))
			return n > 0
		}) && got[r.loc(2)] == 1
	}, "a flow of the new cgroup leaves by its rule")
	if got, n := r.tap.shares(uint16(others)); n < 20 || got[r.loc(1)] != 1 {
		t.Errorf("%d packets of another rule by %v while there was no cgroup", n, got)
	}
	t.Logf("the rule matched after %d attempts", port-portGroups)
}

func (r *ruled) refused(t *testing.T) {
	rules := func() string {
		out := r.mn.roam("explain", "cn", fmt.Sprint(portFailover))
		out, _, _ = strings.Cut(out[strings.LastIndex(out, "\nrules "):], "\n\n")
		return out
	}
	before := rules()
	for fault, want := range map[string]string{
		"policy = \"quick\"":                            `:17:1: rule[1].policy: "quick" is not allowed`,
		"policy = \"weighted\"\nshares = { net1 = 80 }": "rule[1].shares: the shares sum to 80 per cent",
		"cgroup = \"/sys/fs/cgroup/none\"":              "rule[1].cgroup: there is no cgroup",
		"policy = \"flow\"\nlinks = [\"docker0\"]":      `rule[1].links: "docker0" is no uplink`,
	} {
		diag, err := r.reload(stay + "[[rule]]\n" + fault + "\n")
		if err == nil || !strings.Contains(diag, want) || !strings.Contains(diag, "nothing was changed") {
			t.Errorf("%q: %v, %s", fault, err, diag)
		}
	}
	if now := rules(); now != before {
		t.Errorf("the rules are others:\n%s\nwere:\n%s", now, before)
	}
}

func (r *ruled) reloadAtARate(t *testing.T) {
	r.mustReload(stay + reloadRule("net3"))
	begin := time.Now()
	u, err := workload.StartUDP(r.top.Context(), r.hosts["cn"], r.hosts["mn"], r.scratch(t.Name()), workload.UDPOptions{
		Name: "udp", Target: "cn", Port: portReload, Up: 10000, Down: 100, Size: 64,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Kill)
	flows(t, u, 1000)
	for _, link := range []string{"net1", "net2", "net1", "net3", "net2"} {
		r.mustReload(stay + reloadRule(link))
		flows(t, u, 2000)
	}
	r.lossless(t, u, begin)
	if got, n := r.tap.shares(portReload); len(got) != 3 {
		t.Errorf("%d packets by %v: the rules did not change the flow", n, got)
	}
}

func (r *ruled) preferences(t *testing.T) {
	r.mustReload("[uplinks]\npreference = { net1 = 5, net2 = 300, net3 = 40 }\n")
	r.mn.becomes("net1")
	want := map[roam.L64]uint32{r.loc(1): 5, r.loc(2): 300, r.loc(3): 40}
	r.tap.last("an update with the user's preferences", func(p ilnpwire.Packet) bool {
		lu, err := ilnpwire.ParseLocatorUpdate(p.Payload)
		if !updateFrom(r.nid("mn"), ilnpwire.Advertisement)(p) || err != nil {
			return false
		}
		got := make(map[roam.L64]uint32)
		for _, e := range lu.Locators {
			got[e.L64] = e.Preference
		}
		return maps.Equal(got, want)
	})
	testutil.Eventually(t, patience, func() bool {
		s := r.cn.with("mn")
		return len(s.Paths) == 1 && s.Paths[0].Remote == r.loc(1)
	}, "the peer sends to the locator with the lowest number")
}
