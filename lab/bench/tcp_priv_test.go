package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/packets"
	"roam/lab/topo"
)

const (
	streamsLeast = 24               // rounds
	streamsFor   = 10 * time.Minute // after which a ratio is as well known as it will be
	backlogCore  = 1                // takes what arrives, and receives; the other one sends
)

// oneBacklog has one core take packets from the backlogs of all devices (RPS): two cores that
// send into backlogs of their own reorder.
func (w *world) oneBacklog(b *testing.B) {
	b.Helper()
	const script = `mount -t sysfs sysfs /sys || exit 1
for f in /sys/class/net/*/queues/rx-*/rps_cpus; do echo %x >"$f" && [ "$(tr -d 0, <"$f")" = %[1]x ] || exit 1; done`
	for _, h := range []*topo.Host{w.mn, w.r, w.cn} {
		// The files are those of the namespace of whoever mounts them.
		out, err := h.Command(b.Context(), "unshare", "-m", "sh", "-c", fmt.Sprintf(script, 1<<backlogCore)).CombinedOutput()
		if err != nil {
			b.Fatalf("steer packets of %s: %v: %s", h.Name(), err, out)
		}
	}
}

// BenchmarkTCPGoodput compares bulk TCP between two threads, each on a core of its own, over veth
// pairs and over emulated links. The contenders have connections of a fraction of a second by turns:
// a transfer of seconds differs from the next by more than is to be seen. Both have segments of one
// size and writes of 1 MiB: small ones leave a remainder that Nagle's algorithm holds, or not, as it
// happens. One core handles the backlogs of all devices. What the smaller MTU costs, and what plain
// IPv6 is to itself, are figures of their own.
func BenchmarkTCPGoodput(b *testing.B) {
	for _, c := range goodputs {
		b.Run(c.name, func(b *testing.B) { compareGoodput(b, c) })
	}
}

// compareGoodput has one pair of hosts with Roam and two without, one of them with the MTU of
// sessions.
func compareGoodput(b *testing.B, c goodput) {
	b.Helper()
	build(b)
	for _, tool := range []string{"unshare", "mount"} {
		testutil.Need(b, tool)
	}
	testutil.NeedKernel(b, "two cores", runtime.NumCPU() > backlogCore)
	_, err := os.Stat("/sys/class/net/lo/queues/rx-0/rps_cpus")
	testutil.NeedKernel(b, "receive packet steering (CONFIG_RPS)", err == nil)
	wire := linkem.Params{Rate: c.rate}
	over, same := newNamedWorld(b, "now", 1, wire), newNamedWorld(b, "plain", 1, wire)
	full := newNamedWorld(b, "full", 1, wire)
	over.options = c.options
	over.startRoam(b, "soft", "net1")
	same.shrink(b, over.sessionMTU(b))
	for _, w := range []*world{over, same, full} {
		w.oneBacklog(b)
	}
	toCN := roam.ILV{NID: nidCN, L64: roam.DefaultSessionPrefix}
	contenders := [arms]*stream{
		withRoam:   openStream(b, over, toCN, 5303),
		plainSame:  openStream(b, same, roam.ILVFromAddr(same.cnPlain), 5304),
		plainFull:  openStream(b, full, roam.ILVFromAddr(full.cnPlain), 5305),
		plainAgain: openStream(b, same, roam.ILVFromAddr(same.cnPlain), 5306),
	}
	var m transfers
	for began := time.Now(); time.Since(began) < settledIn; { // what takes the full path is over
		for _, s := range contenders {
			_, _, err := s.transfer(c.slice)
			must(b, err)
		}
	}
	for n, began := 0, time.Now(); n < streamsLeast || time.Since(began) < streamsFor; n++ {
		for i := range contenders {
			k := turn(i, n, len(contenders))
			mbps, cpu, err := contenders[k].transfer(c.slice)
			must(b, err)
			m.add(k, mbps, cpu)
		}
		if n+1 >= streamsLeast && m.settled() {
			break
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, f := range m.figures(c) {
		testutil.Report(b, f)
	}
}

// exchanges is how many Locator Update exchanges are judged.
const exchanges = 200

// BenchmarkLocatorUpdate measures from the sending of a Locator Update to its acknowledgement, as
// captures on the host's links have both, against echoes between the hosts' own addresses there: 10 ms
// each way. Every change of the set is one exchange.
func BenchmarkLocatorUpdate(b *testing.B) {
	w := newWorld(b, 2, linkem.Params{Delay: 10 * time.Millisecond})
	w.startRoam(b, "duality", "net1", "net2")
	w.ping(b, "cn", 1)
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	c := w.changer(ctx, b)
	for b.Loop() {
		for n := 0; len(c.asked) < exchanges; n++ {
			if n%20 == 0 {
				w.ping(b, w.cnPlain.String(), exchanges/10+1)
			}
			c.change(ctx, b)
		}
	}
	b.ReportMetric(0, "ns/op")
	c.end(b)
	all, err := c.figures(w.cnPlain)
	must(b, err)
	for _, f := range all {
		testutil.Report(b, f)
	}
}

// changer changes the set of locators of MN's host, one exchange at a time.
type changer struct {
	updates
	w     *world
	acked chan time.Duration
	seen  seen
}

// changer captures both links of MN from now on.
func (w *world) changer(ctx context.Context, b *testing.B) *changer {
	b.Helper()
	c := &changer{w: w, acked: make(chan time.Duration, 4096), seen: w.capture(b, "net1", "net2")}
	must(b, w.mnNode.Monitor(ctx, onAck(c.acked)))
	return c
}

// change takes net2 out of use, or back, and waits until the daemon has its acknowledgement.
func (c *changer) change(ctx context.Context, b *testing.B) {
	b.Helper()
	verb := []string{"disable", "enable"}[len(c.asked)%2]
	c.asked = append(c.asked, time.Now())
	_, err := c.w.mnNode.Ask(ctx, "locator", verb, "net2")
	must(b, err)
	select {
	case d := <-c.acked:
		c.says = append(c.says, d)
	case <-ctx.Done():
		b.Fatalf("%d of %d Locator Updates were acknowledged", len(c.says), exchanges)
	}
}

// end ends the captures once they have every change.
func (c *changer) end(b *testing.B) {
	b.Helper()
	c.wire = c.seen(func(list []packets.Packet) bool {
		c.wire = list
		_, err := c.took()
		return err == nil
	})
}
