package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/peergen"
	"roam/lab/topo"
)

const (
	crowdSize    = 10_000
	crowdPort    = 5600
	crowdMetrics = "127.0.0.1:9643"
	inFlight     = 900 // correspondents that set up a session at a time
	// openEvery is a little less often than the programs report first packets: beyond 1,600 in a tenth of a second
	// they report none, as in a flood.
	openEvery  = 70 * time.Microsecond
	countEvery = 20 * time.Millisecond
	openBurst  = 10 * time.Millisecond // of lost time that is made up for
	// patiencePerPeer only ends what stands still; how long it takes is judged elsewhere.
	patiencePerPeer = 3 * time.Millisecond
)

// listen takes what comes to a port of MN, so that its stack has no reason to
// complain.
func (w *world) listen(b *testing.B, port int) {
	b.Helper()
	var conn net.PacketConn
	must(b, w.mn.Do(func() (err error) {
		conn, err = net.ListenPacket("udp6", fmt.Sprintf("[::]:%d", port))
		return err
	}))
	go func() {
		buf := make([]byte, 2048)
		for {
			if _, _, err := conn.ReadFrom(buf); errors.Is(err, net.ErrClosed) {
				return
			}
		}
	}()
	b.Cleanup(func() { conn.Close() })
}

// crowdWorld has a peer generator behind R that speaks to MN, whose tables have room for
// just that many.
func crowdWorld(b *testing.B, links int, locators int) (*world, *peergen.Generator) {
	b.Helper()
	w := newWorld(b, links, linkem.Params{})
	w.more = fmt.Sprintf("[ilnp]\nmax_sessions = %d\n[metrics]\nlisten = %q\n", crowdSize, crowdMetrics)
	var active []string
	for i := range links {
		active = append(active, fmt.Sprintf("net%d", i+1))
	}
	w.startRoam(b, "soft", active[links-1])
	w.listen(b, crowdPort)
	c, err := peergen.Start(w.r, "peers", peergen.Options{
		Locators: locators, Port: crowdPort, Target: roam.ILV{L64: roam.ILVFromAddr(netMN[links-1].Addr()).L64, NID: nidMN},
	})
	must(b, err)
	b.Cleanup(func() { c.Close() })
	return w, c
}

var establishedLine = regexp.MustCompile(`(?m)^roam_sessions\{state="established"\} (\d+)`)

// established asks the daemon on MN how many sessions it has.
func (w *world) established(b *testing.B) int {
	b.Helper()
	out, err := w.mn.Command(b.Context(), "curl", "-s", "http://"+crowdMetrics+"/metrics").Output()
	if err != nil {
		b.Fatalf("read metrics: %v", err)
	}
	m := establishedLine.FindSubmatch(out)
	if m == nil {
		b.Fatalf("metrics without sessions: %s", out[:min(len(out), 2000)])
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n
}

// soon waits for something, but no longer than applications wait for an answer.
func (w *world) soon(b *testing.B, what func() bool) bool {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 200*time.Millisecond)
	defer cancel()
	return topo.Wait(ctx, "an answer", what) == nil
}

// gather opens a session with every correspondent, as fast as probes come back
// to it, and returns how long it takes until the daemon has them all.
func (w *world) gather(b *testing.B, c *peergen.Generator, n int) time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute+time.Duration(n)*patiencePerPeer)
	defer cancel()
	began := time.Now()
	for i, next := 0, began; i < n; {
		if ctx.Err() != nil {
			b.Fatalf("%d of %d correspondents were probed", c.Probed(), n)
		}
		w.soon(b, func() bool { return !time.Now().Before(next) })
		if now := time.Now(); now.Sub(next) > openBurst {
			next = now.Add(-openBurst)
		}
		if i-c.Probed() < inFlight {
			must(b, c.Open(i))
			i, next = i+1, next.Add(openEvery)
			continue
		}
		// One that was lost is retransmitted after a while, as every sender does.
		if !w.soon(b, func() bool { return i-c.Probed() < inFlight }) {
			must(b, c.OpenAgain(i, inFlight/2))
		}
	}
	again := make(map[int]bool)
	for has := w.established(b); has < n; {
		if ctx.Err() != nil {
			b.Fatalf("%d of %d sessions, %+v", has, n, c.Counts())
		}
		had, counted := has, time.Now()
		if !w.soon(b, func() bool { // to count many takes the daemon some time
			if time.Since(counted) > countEvery*time.Duration(1+n/crowdSize/2) {
				has, counted = w.established(b), time.Now()
			}
			return has > had
		}) { // some are lost, or came too late
			w.openMissing(b, c, n, again)
		}
	}
	return time.Since(began)
}

// openMissing retransmits the first packets of correspondents without a session: those that no
// Locator Update is acknowledged to. One that has a session must not send its nonce again: a nonce
// long after the set-up says that the peer wants one on every packet. Those that have opened again
// may have an acknowledgement, but no session yet, as that is for pending peers, too: they are noted in again.
func (w *world) openMissing(b *testing.B, c *peergen.Generator, n int, again map[int]bool) {
	b.Helper()
	const rounds = 3 // as some are lost
	for range rounds {
		told, acked := 0, c.Acked()
		for i := range n {
			if c.IsAcked(i) {
				continue
			}
			must(b, c.Tell(i))
			if told++; told%(inFlight/2) == 0 {
				w.soon(b, func() bool { return c.Acked()-acked >= told-inFlight/2 })
			}
		}
		w.soon(b, func() bool { return c.Acked() == n })
	}
	all := c.Acked() == n
	for i, most := 0, inFlight/2; i < n && most > 0; i++ {
		if !c.IsAcked(i) || all && again[i] {
			must(b, c.Open(i))
			again[i] = true
			most--
		}
	}
}

// BenchmarkNewSessions measures how many correspondents a second one host takes
// up a session with: first packet, probe, its answer, session.
func BenchmarkNewSessions(b *testing.B) {
	w, c := crowdWorld(b, 1, 1)
	var took time.Duration
	for b.Loop() {
		if took == 0 { // they can be new only once
			took = w.gather(b, c, crowdSize)
		}
	}
	b.ReportMetric(0, "ns/op")
	testutil.Report(b, testutil.Figure{
		Name: "NewSessions", Says: "sessions a second that a host takes up with 10,000 pending peers", Unit: "/s",
		Op: ">=", Bound: 5000, Value: crowdSize / took.Seconds(), Rounds: 1,
		Details: map[string]float64{"probes": float64(c.Counts().Probes)},
	})
}

// mapBytes reads what the kernel counts for the maps of MN's data plane.
func (w *world) mapBytes(b *testing.B) map[string]int {
	b.Helper()
	all := make(map[string]int)
	must(b, filepath.WalkDir(filepath.Join(w.mnNode.RunDir(), "bpf"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		out, err := w.mn.Command(b.Context(), "bpftool", "map", "show", "pinned", path).Output()
		if m := memlock.FindSubmatch(out); err == nil && m != nil { // else it is a program, or a link
			all[d.Name()], _ = strconv.Atoi(string(m[1]))
		}
		return nil
	}))
	return all
}

// daemonCPU is the processor time that the daemon on MN has had.
func (w *world) daemonCPU(b *testing.B) time.Duration {
	b.Helper()
	// `roam status` would list all sessions as well.
	out, err := w.mn.Command(b.Context(), "curl", "-s", "--unix-socket", w.mnNode.RunDir()+"/control.sock",
		"http://roamd/v1/status").Output()
	must(b, err)
	var status struct {
		PID int `json:"pid"`
	}
	must(b, json.Unmarshal(out, &status))
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", status.PID))
	must(b, err)
	// utime and stime, the 14th and 15th field; the name has no blank.
	f := strings.Fields(string(stat))
	u, _ := strconv.Atoi(f[13])
	s, _ := strconv.Atoi(f[14])
	const tick = 10 * time.Millisecond // USER_HZ
	return time.Duration(u+s) * tick
}

var memlock = regexp.MustCompile(`memlock (\d+)B`)

// BenchmarkCrowd has 10,000 correspondents with eight locators each, and moves:
// kernel memory for each, and the time until each has had its Locator Update.
func BenchmarkCrowd(b *testing.B) {
	w, c := crowdWorld(b, 2, 8)
	empty := w.mapBytes(b)
	w.gather(b, c, crowdSize)
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
	defer cancel()
	must(b, topo.Wait(ctx, "locators of the peer generator", func() bool {
		for i, more := 0, 0; i < crowdSize && more < inFlight; i++ {
			if !c.IsAcked(i) {
				more++
				must(b, c.Tell(i))
			}
		}
		return c.Acked() == crowdSize
	}))
	full := w.mapBytes(b)
	var took, spread, spent time.Duration
	repeated := 0
	for b.Loop() {
		if took > 0 {
			continue // only one move is measured
		}
		c.Mark()
		before := c.Counts().Updates
		cpu := w.daemonCPU(b)
		began := time.Now()
		_, err := w.mnNode.Ask(ctx, "locator", "disable", "net2")
		must(b, err)
		must(b, topo.Wait(ctx, "Locator Updates", func() bool { n, _, _ := c.Told(); return n == crowdSize }))
		spent = w.daemonCPU(b) - cpu
		_, first, last := c.Told()
		took, spread = last.Sub(began), last.Sub(first)
		repeated = c.Counts().Updates - before - crowdSize
		_, err = w.mnNode.Ask(ctx, "locator", "enable", "net2")
		must(b, err)
	}
	b.ReportMetric(0, "ns/op")
	sum := 0
	for _, name := range []string{"session_index", "sessions", "session_lives", "session_details", "sources"} {
		if full[name] == 0 {
			b.Fatalf("the memory of %s is not known", name)
		}
		sum += full[name]
	}
	testutil.Report(b, testutil.Figure{
		Name: "Correspondents/memory", Says: "10,000 correspondents with 8 locators: kernel memory of each", Unit: "B",
		Op: "<=", Bound: 512, Value: float64(sum) / crowdSize, Rounds: 1,
	})
	testutil.Report(b, testutil.Figure{
		Name: "Correspondents/updates", Says: "10,000 Locator Updates after one move, from the move to the last", Unit: "ms",
		Op: "<=", Bound: 1000, Value: milli(took), Rounds: 1,
		Details: map[string]float64{
			"ms first to last": milli(spread), "repeated": float64(repeated), "ms processor time of the daemon": milli(spent),
		},
	})
	var names []string
	for name, n := range full {
		names = append(names, fmt.Sprintf("%s %d->%d", name, empty[name], n))
	}
	b.Log(strings.Join(names, ", "))
}
