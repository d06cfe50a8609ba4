//go:build guest

package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/node"
	"roam/lab/topo"
	"roam/lab/workload"
)

// patience bounds the wait for anything; only a fault reaches it.
const patience = 60 * time.Second

// Where the packages and the correspondent's programs lie, as build/guest puts
// them.
const (
	oldDeb  = "/root/old.deb"
	newDeb  = "/root/new.deb"
	oldVers = "guest-old"
	newVers = "guest-new"
)

var binaries = node.Binaries{Roam: "/root/bin/roam", Roamd: "/root/bin/roamd"}

const cnNID roam.NID = 0x1000_0000_0000_00c0

// world is a topology:
//
//	machine ==eth0, eth1, eth2== m0, m1, m2: r --- cn
//
// The machine is the guest itself. r is a kernel that forwards, with radvd.
type world struct {
	t         *testing.T
	lab       *topo.Lab
	me, r, cn *topo.Host
	peer      *node.Node
	radvd     *topo.Router
	adverts   []topo.Advert
	port      int // of the next flow
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workload.AgentArg {
		os.Exit(workload.AgentMain(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// TestGuest goes through a machine's life: installation, upgrade, removal, sleep,
// kinds of links and their managers. Parts that are left out by -run are not missed
// by the others.
func TestGuest(t *testing.T) {
	w := newWorld(t)
	w.run("package", packageLife)
	w.run("removal", removal)
	w.run("sleep", sleeps)
	w.run("links", kinds)
	w.run("systemd-networkd", networkd)
	w.run("NetworkManager", networkManager)
	w.run("systemd-resolved", resolved)
}

// run runs a part.
func (w *world) run(name string, part func(*world)) {
	was := w.t
	defer func() { w.t = was }()
	was.Run(name, func(t *testing.T) {
		w.t = t
		part(w)
	})
}

func newWorld(t *testing.T) *world {
	t.Helper()
	testutil.NeedRoot(t)
	lab, err := topo.New("guest")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, lab: lab, port: 7000}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.sh("journalctl --no-pager -q -n 60 -u roamd -u systemd-networkd -u NetworkManager; ip -6 addr; ip -6 route"))
		}
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := w.build(); err != nil {
		t.Fatal(err)
	}
	return w
}

// prefix is the network of the machine's n-th link.
func prefix(n int) netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf("2001:db8:a%d::/64", n))
}

func (w *world) build() (err error) {
	if w.me, err = w.lab.Here("machine"); err != nil {
		return err
	}
	if w.r, err = w.lab.Host("r"); err != nil {
		return err
	}
	if w.cn, err = w.lab.Host("cn"); err != nil {
		return err
	}
	// A cable is pulled by setting the router's end down: it keeps its address.
	if err := errors.Join(w.r.Forward(), w.r.Sysctl("net.ipv6.conf.all.keep_addr_on_down", "1"),
		w.lab.Veth(w.cn, "net1", w.r, "cn1")); err != nil {
		return err
	}
	for n := range 3 {
		if err := w.link(fmt.Sprintf("eth%d", n), fmt.Sprintf("m%d", n), prefix(n)); err != nil {
			return err
		}
	}
	w.advert("cn1", netip.MustParsePrefix("2001:db8:c0::/64"))
	if err := w.r.AddAddr("cn1", netip.MustParsePrefix("2001:db8:c0::1/64")); err != nil {
		return err
	}
	if w.radvd, err = w.r.Router(w.adverts...); err != nil {
		return err
	}
	ctx := w.t.Context()
	for n := range 3 {
		if _, err := w.me.WaitAddr(ctx, fmt.Sprintf("eth%d", n), prefix(n)); err != nil {
			return err
		}
	}
	if _, err := w.cn.WaitAddr(ctx, "net1", netip.MustParsePrefix("2001:db8:c0::/64")); err != nil {
		return err
	}
	w.peer, err = node.New(w.cn, binaries, node.Options{NID: cnNID, Log: "/root/cn.log"})
	if err != nil {
		return err
	}
	if err := w.peer.Start(ctx); err != nil {
		return err
	}
	return w.peer.WaitActive(ctx, "net1")
}

// link joins the machine and the router, which will advertise the prefix there.
func (w *world) link(mine, theirs string, p netip.Prefix) error {
	w.advert(theirs, p)
	return errors.Join(
		w.lab.Veth(w.me, mine, w.r, theirs),
		w.r.AddAddr(theirs, netip.PrefixFrom(p.Addr().Next(), 64)))
}

func (w *world) advert(ifname string, p netip.Prefix) {
	w.adverts = append(w.adverts, topo.Advert{
		Interface: ifname, Prefix: p, MinInterval: 300 * time.Millisecond, MaxInterval: time.Second,
	})
}

// sh runs a line of shell on the machine and returns what it said.
func (w *world) sh(line string) string {
	out, _ := exec.Command("/bin/bash", "-c", line).CombinedOutput()
	return string(out)
}

// must is sh for what does not fail.
func (w *world) must(format string, args ...any) string {
	w.t.Helper()
	line := fmt.Sprintf(format, args...)
	out, err := exec.Command("/bin/bash", "-c", line).CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// cable plugs or pulls the cable of one of the machine's links.
func (w *world) cable(theirs string, in bool) {
	w.t.Helper()
	f := w.r.SetDown
	if in {
		f = w.r.SetUp
	}
	if err := f(theirs); err != nil {
		w.t.Fatal(err)
	}
}

// until waits for a condition.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	testutil.Eventually(w.t, patience, ok, what)
}

// ask asks the machine's daemon; false while it does not answer.
func (w *world) ask(into any, args ...string) bool {
	out, err := exec.Command("roam", append([]string{"--json"}, args...)...).Output()
	return err == nil && json.Unmarshal(out, into) == nil
}

func (w *world) status() node.Status {
	var s struct{ Status node.Status }
	w.ask(&s)
	return s.Status
}

// links lists the machine's links with a locator in one of the states.
func (w *world) links(states ...string) (names []string) {
	var list []node.Locator
	w.ask(&list, "locator", "show")
	for _, l := range list {
		if slices.Contains(states, l.State) {
			names = append(names, l.Link)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// has waits until these links, and no others, have locators that can be used.
func (w *world) has(links ...string) {
	w.t.Helper()
	w.until(fmt.Sprintf("locators on %v only", links), func() bool {
		return slices.Equal(w.links("active", "valid"), links)
	})
}

// installed installs the package where it is not there.
func (w *world) installed() {
	w.t.Helper()
	if w.status().PID != 0 {
		return
	}
	w.must("dpkg -i %s", newDeb)
	w.has("eth0", "eth1", "eth2")
	w.meet()
}

// meet makes both ends known to each other and opens a session.
func (w *world) meet() {
	w.t.Helper()
	line, err := w.peer.Cmd(w.t.Context(), "export").Output()
	if err != nil {
		w.t.Fatal(err)
	}
	// The machine's name may not be one to take unasked; an older roam knows no --as.
	w.must("roam add '%[1]s' || roam add --as correspondent '%[1]s'", strings.TrimSpace(string(line)))
	w.until("an answer of the correspondent", w.answers)
}

// answers reports whether the correspondent answers a ping.
func (w *world) answers() bool {
	return exec.Command("ping", "-6", "-c", "1", "-W", "2", w.there()).Run() == nil
}

// there is the session address of the correspondent.
func (w *world) there() string {
	return roam.ILV{L64: roam.DefaultSessionPrefix, NID: cnNID}.Addr().String()
}

// flow is numbered datagrams in both directions, and a connection.
type flow struct {
	w     *world
	udp   *workload.UDP
	tcp   *workload.TCP
	began time.Time
}

// rate is datagrams per second in each direction.
const rate = 200

// start starts a flow and waits until it flows.
func (w *world) start() *flow {
	w.t.Helper()
	dir, err := os.MkdirTemp("", "flow")
	if err != nil {
		w.t.Fatal(err)
	}
	w.port += 10
	ctx := w.t.Context()
	u, err := workload.StartUDP(ctx, w.cn, w.me, dir, workload.UDPOptions{
		Name: "udp", Target: w.there(), Port: w.port, Up: rate, Down: rate, Size: 200,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(u.Kill)
	c, err := workload.StartTCP(ctx, w.cn, w.me, dir, workload.TCPOptions{
		Name: "tcp", Target: w.there(), Port: w.port + 1, Size: 200, Every: 10 * time.Millisecond, Down: true,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Kill)
	f := &flow{w: w, udp: u, tcp: c}
	f.goesOn()
	f.began = time.Now()
	return f
}

// goesOn waits until both have got further.
func (f *flow) goesOn() {
	f.w.t.Helper()
	for s, more := range map[workload.Session]uint64{f.udp: 50, f.tcp: 2000} {
		from := s.State().Progress
		f.w.until("progress of "+s.Name(), func() bool { return s.State().Progress >= from+more })
	}
}

// stop ends the flow, fails if the connection broke, and returns how many
// datagrams were lost in either direction. The figures go to the log.
func (f *flow) stop(what string) (lost int) {
	f.w.t.Helper()
	f.goesOn()
	now := time.Now()
	ctx, cancel := context.WithTimeout(f.w.t.Context(), patience)
	defer cancel()
	up, down, err := f.udp.Stop(ctx, 300*time.Millisecond)
	if err != nil {
		f.w.t.Fatal(err)
	}
	if _, err := f.tcp.Stop(ctx); err != nil {
		f.w.t.Errorf("%s: %v", what, err)
	}
	u, d := up.Count(f.began, now), down.Count(f.began, now)
	gap := max(up.LongestGap(f.began, now).Length(), down.LongestGap(f.began, now).Length())
	f.w.t.Logf("%s: %d of %d datagrams lost, longest gap %d ms", what, u.Lost+d.Lost,
		u.Written+d.Written, gap.Milliseconds())
	if u.Written == 0 || d.Written == 0 {
		f.w.t.Errorf("%s: nothing was sent", what)
	}
	return int(u.Lost + d.Lost)
}

// during runs something under a flow.
func (w *world) during(what string, something func()) (lost int) {
	w.t.Helper()
	f := w.start()
	something()
	return f.stop(what)
}

// lossless is during for what must lose nothing.
func (w *world) lossless(what string, something func()) {
	w.t.Helper()
	if n := w.during(what, something); n > 0 {
		w.t.Errorf("%s: %d datagrams lost", what, n)
	}
}

// write writes a file of the machine.
func (w *world) write(path, text string) {
	w.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		w.t.Fatal(err)
	}
}
