package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/node"
	"roam/lab/packets"
	"roam/lab/topo"
	"roam/lab/workload"
)

// binariesEnv names a directory with roam and roamd to measure, in place of those of this
// tree: so two builds can be measured by turns.
const binariesEnv = "ROAM_BINARIES"

// bin are the programs under test, built once.
var bin node.Binaries

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workload.AgentArg {
		os.Exit(workload.AgentMain(os.Args[2:]))
	}
	os.Exit(runAll(m))
}

// runAll leaves no network behind when a signal ends the benchmarks, and removes what killed ones have left.
func runAll(m *testing.M) int {
	defer topo.CloseOnSignal()()
	err := endWithParent()
	if os.Geteuid() == 0 {
		err = errors.Join(err, topo.Sweep())
	}
	dir, made := topo.TempDir()
	if err = errors.Join(err, made); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if bin = node.In(dir); os.Getenv(binariesEnv) != "" {
		bin = node.In(os.Getenv(binariesEnv))
		if err := nameBuild(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			return 1
		}
	}
	if os.Getenv(victimEnv) != "" {
		return victim()
	}
	return m.Run()
}

// nameBuild has figures name the build that is measured in place of this tree's.
func nameBuild() error {
	out, err := exec.Command(bin.Roam, "--version").Output()
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w", bin.Roam, err)
	}
	return os.Setenv(testutil.Build, strings.TrimPrefix(strings.TrimSpace(string(out)), "roam "))
}

// endWithParent has the kernel send SIGTERM when the parent ends: a go command that gets that
// signal ends at once, and leaves its test program alone. The kernel keeps that request with
// the thread that made it, so this one stays.
func endWithParent() error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0)
		select {}
	}()
	if err := <-done; err != nil {
		return fmt.Errorf("end with the parent: %w", err)
	}
	return nil
}

// build compiles the programs; only a benchmark that runs pays for it.
func build(b *testing.B) {
	b.Helper()
	testutil.NeedRoot(b)
	if _, err := os.Stat(bin.Roamd); err == nil {
		return
	}
	if _, err := node.Build(filepath.Dir(bin.Roam)); err != nil {
		b.Fatal(err)
	}
}

const (
	nidMN roam.NID = 0x1000_0000_0000_00a1
	nidCN roam.NID = 0x1000_0000_0000_00c1
)

var (
	netMN  = []netip.Prefix{netip.MustParsePrefix("2001:db8:1::/64"), netip.MustParsePrefix("2001:db8:2::/64")}
	netCN  = netip.MustParsePrefix("2001:db8:c::/64")
	within = 30 * time.Second
)

// world is MN --- R --- CN:
//
//	          net1  2001:db8:1::/64
//	      +===================+
//	[ MN ]    net2            [ R ]-----[ CN ]
//	      +===================+    2001:db8:c::/64
//
// The links of MN are veth pairs, or emulated ones with the given properties.
type world struct {
	bin       node.Binaries
	mn, r, cn *topo.Host
	mnNode    *node.Node
	cnNode    *node.Node
	cnPlain   netip.Addr   // the correspondent's own address
	link      *linkem.Link // the last link of MN, if emulated
	options   string       // of the correspondents in the hosts files
	more      string       // lines of MN's configuration
	mnOptions node.Options // that MN was started with

	nidMN, nidCN roam.NID
	fromAddress  bool // they are those of the hosts' addresses
}

// newWorld builds the topology with a number of links, without Roam.
func newWorld(b *testing.B, links int, wire linkem.Params) *world {
	b.Helper()
	build(b)
	return newNamedWorld(b, "bench", links, wire)
}

// newNamedWorld builds one of several topologies that stand side by side.
func newNamedWorld(b *testing.B, name string, links int, wire linkem.Params) *world {
	b.Helper()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	lab, err := topo.New(name)
	must(err)
	b.Cleanup(func() { must(lab.Close()) })
	w := &world{bin: bin, nidMN: nidMN, nidCN: nidCN}
	for name, h := range map[string]**topo.Host{"mn": &w.mn, "r": &w.r, "cn": &w.cn} {
		*h, err = lab.Host(name)
		must(err)
	}
	must(w.r.Forward())
	adverts := []topo.Advert{{Interface: "cn", Prefix: netCN}}
	must(lab.Veth(w.cn, "net", w.r, "cn"))
	must(w.r.AddAddr("cn", netip.PrefixFrom(netCN.Addr().Next(), 64)))
	for i := range links {
		ifname, lan := fmt.Sprintf("net%d", i+1), fmt.Sprintf("lan%d", i+1)
		if wire != (linkem.Params{}) {
			w.link, err = lab.Link(w.mn, ifname, w.r, lan, wire)
			must(err)
		} else {
			must(lab.Veth(w.mn, ifname, w.r, lan))
		}
		must(w.r.AddAddr(lan, netip.PrefixFrom(netMN[i].Addr().Next(), 64)))
		adverts = append(adverts, topo.Advert{Interface: lan, Prefix: netMN[i]})
	}
	_, err = w.r.Router(adverts...)
	must(err)
	ctx, cancel := context.WithTimeout(b.Context(), within)
	defer cancel()
	w.cnPlain, err = w.cn.WaitAddr(ctx, "net", netCN)
	must(err)
	for i := range links {
		_, err = w.mn.WaitAddr(ctx, fmt.Sprintf("net%d", i+1), netMN[i])
		must(err)
	}
	return w
}

// startRoam starts Roam on both ends, in the given mode on MN, and waits for
// active locators on the named links of MN.
func (w *world) startRoam(b *testing.B, mode string, active ...string) {
	b.Helper()
	w.cnNode = w.startOn(b, w.cn, w.nidCN, "soft", "", "net")
	w.mnNode = w.startOn(b, w.mn, w.nidMN, mode, w.more, active...)
}

// takeAddresses has both hosts take their identifiers from the addresses that they have.
func (w *world) takeAddresses(b *testing.B) {
	b.Helper()
	at, err := w.mn.WaitAddr(b.Context(), "net1", netMN[0])
	must(b, err)
	w.nidMN, w.nidCN, w.fromAddress = roam.ILVFromAddr(at).NID, roam.ILVFromAddr(w.cnPlain).NID, true
}

// startOn starts Roam on one of them.
func (w *world) startOn(b *testing.B, h *topo.Host, nid roam.NID, mode, more string, links ...string) *node.Node {
	b.Helper()
	hosts := fmt.Sprintf("nid=%s l64=%s %s cn\nnid=%s l64=%s %s mn\n",
		w.nidCN, roam.ILVFromAddr(netCN.Addr()).L64, w.options, w.nidMN, roam.ILVFromAddr(netMN[0].Addr()).L64, w.options)
	o := node.Options{NID: nid, FromAddress: w.fromAddress, Mode: mode, Hosts: hosts, More: more}
	if h == w.mn {
		w.mnOptions = o
	}
	n, err := node.New(h, w.bin, o)
	if err == nil {
		err = n.Start(b.Context())
	}
	if err == nil {
		err = n.WaitActive(b.Context(), links...)
	}
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// ping sends count echo requests from MN and returns each round trip.
func (w *world) ping(b *testing.B, target string, count int) []time.Duration {
	b.Helper()
	out, err := w.mn.AppCommand(b.Context(), "ping", "-n", "-i", "0.02", "-c", fmt.Sprint(count), target).Output()
	if err != nil {
		b.Fatalf("ping %s: %v", target, err)
	}
	return roundTrips(string(out))
}

// seen waits until captures have enough, ends them, and returns what they have in order of time.
type seen func(enough func([]packets.Packet) bool) []packets.Packet

// capture captures control messages on links of MN: ICMPv6, and packets with Destination Options, of
// which the nonce is one.
func (w *world) capture(b *testing.B, links ...string) seen {
	b.Helper()
	var all []*topo.Capture
	dir := b.TempDir()
	file := func(link string) string { return filepath.Join(dir, link+".pcap") }
	for _, link := range links {
		c, err := w.mn.Capture(b.Context(), link, file(link), 0, "ip6[6] == 58 or ip6[6] == 60")
		must(b, err)
		all = append(all, c)
	}
	read := func() (list []packets.Packet) {
		for _, link := range links {
			one, err := packets.Read(file(link), link)
			must(b, err)
			list = packets.Merge(list, one)
		}
		return list
	}
	return func(enough func([]packets.Packet) bool) []packets.Packet {
		b.Helper()
		ctx, cancel := context.WithTimeout(b.Context(), within)
		defer cancel()
		must(b, topo.Wait(ctx, "the captures on the host's links", func() bool { return enough(read()) }))
		for i, link := range links {
			dropped, err := all[i].Stop()
			must(b, err)
			if dropped > 0 {
				b.Fatalf("the capture on %s lost %d packets", link, dropped)
			}
		}
		return read()
	}
}

// onAck passes on the daemon's round trip of every acknowledged Locator Update.
func onAck(to chan<- time.Duration) func(node.Event) {
	return func(e node.Event) {
		if e.Kind == "update-acked" {
			to <- time.Duration(e.RTTMs * float64(time.Millisecond))
		}
	}
}
