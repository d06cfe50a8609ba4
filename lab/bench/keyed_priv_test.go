package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/node"
	"roam/lab/peergen"
	"roam/lab/topo"
	"roam/wire/ilnp"
)

// sideBySide builds two worlds that differ in keys only: without, and with.
func sideBySide(b *testing.B, links int, wire linkem.Params, mode, more string) (worlds [2]*world) {
	b.Helper()
	build(b)
	for i, name := range []string{"bench", "benchk"} {
		w := newNamedWorld(b, name, links, wire)
		w.more = more
		active := []string{"net1", "net2"}[:links]
		w.cnNode = w.startOn(b, w.cn, w.nidCN, "soft", more, "net")
		w.mnNode = w.startOn(b, w.mn, w.nidMN, mode, more, active...)
		if i == 1 {
			must(b, node.PairKeys(b.Context(), w.mnNode, w.cnNode))
		}
		worlds[i] = w
	}
	return worlds
}

// idle waits until neither host has a session.
func (w *world) idle(b *testing.B, within time.Duration) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), within)
	defer cancel()
	var left []node.Session
	err := topo.Wait(ctx, "the idle sessions to end", func() bool {
		left = nil
		for _, n := range []*node.Node{w.mnNode, w.cnNode} {
			list, err := n.Sessions(ctx)
			if err != nil {
				return false
			}
			left = append(left, slices.DeleteFunc(list, func(s node.Session) bool { return s.State == "known" })...)
		}
		return len(left) == 0
	})
	if err != nil {
		b.Fatalf("%v: %+v", err, left)
	}
}

// BenchmarkKeyedConnect measures connections that begin a session with a peer whose counters are known, with keys
// beyond those without, at a round trip of 20 ms.
func BenchmarkKeyedConnect(b *testing.B) {
	const idle = 10 * time.Second
	worlds := sideBySide(b, 1, linkem.Params{Delay: farAway}, "soft", fmt.Sprintf("[ilnp]\nidle_timeout = %q\n", idle))
	for _, w := range worlds {
		serve(b, w.cn, connectPort)
		connect(b, w.mn, sessionCN) // the first contact, which is challenged
	}
	var times [2][]time.Duration
	for b.Loop() {
		for len(times[1]) < connectTimes {
			for _, w := range worlds {
				w.idle(b, 4*idle)
			}
			for i, w := range worlds {
				connect(b, w.mn, w.cnPlain) // neighbours resolved
				times[i] = append(times[i], connect(b, w.mn, sessionCN))
			}
		}
	}
	report(b, testutil.Figure{
		Name: "KeyedConnect", Bound: 1,
		Says: "TCP connection that begins a keyed session, beyond one that begins an unkeyed one",
	}, times[1], times[0])
}

// BenchmarkKeyedLocatorUpdate measures Locator Updates to their acknowledgement, as BenchmarkLocatorUpdate does, in
// keyed sessions beyond those in unkeyed ones, by turns.
func BenchmarkKeyedLocatorUpdate(b *testing.B) {
	worlds := sideBySide(b, 2, linkem.Params{Delay: farAway}, "duality", "")
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	var all [2]*changer
	for i, w := range worlds {
		w.ping(b, "cn", 1)
		all[i] = w.changer(ctx, b)
	}
	for b.Loop() {
		for len(all[1].asked) < exchanges {
			for _, c := range all {
				c.change(ctx, b)
			}
		}
	}
	list, err := worlds[1].mnNode.Sessions(ctx)
	must(b, err)
	if len(list) != 1 || list[0].Proof != "keyed" {
		b.Fatalf("the session is not keyed: %+v", list)
	}
	for _, c := range all {
		c.end(b)
	}
	b.ReportMetric(0, "ns/op")
	f, err := keyedFigure(&all[1].updates, &all[0].updates)
	must(b, err)
	testutil.Report(b, f)
}

// forgeries is a device of R that sends probes and forged offers in CN's name, from places all over the Internet.
type forgeries struct {
	file *os.File
	made uint64
	to   roam.ILV
	from roam.NID
}

var forgersNet = netip.MustParsePrefix("2001:db8:e000::/36")

func (w *world) forgeries(b *testing.B) *forgeries {
	b.Helper()
	f := &forgeries{to: roam.ILV{L64: roam.ILVFromAddr(netMN[0].Addr()).L64, NID: nidMN}, from: nidCN}
	must(b, w.r.Do(func() (err error) {
		f.file, err = peergen.OpenTun("forgers")
		return err
	}))
	b.Cleanup(func() { f.file.Close() })
	must(b, w.r.SetUp("forgers"))
	must(b, w.r.AddRoute(forgersNet, netip.Addr{}, "forgers"))
	return f
}

// send sends one probe and one forged offer with its nonce.
func (f *forgeries) send() error {
	f.made++
	nonce := ilnp.Nonce{Len: 4}
	binary.BigEndian.PutUint32(nonce.Bytes[:], uint32(f.made))
	src := roam.ILV{L64: 0x2001_0db8_e000_0000 + roam.L64(f.made&0xffffff), NID: f.from}
	token := make([]byte, 20)
	binary.BigEndian.PutUint64(token, f.made)
	probe, err := ilnp.BuildEcho(src, f.to, nonce, true, 1, uint16(f.made), token)
	if err != nil {
		return err
	}
	proof := ilnp.Proof{Step: ilnp.ProofOffer, Counter: f.made, Locators: [ilnp.ProofLocators]roam.L64{src.L64}}
	binary.BigEndian.PutUint64(proof.MAC[:], f.made)
	list := []ilnp.LocatorEntry{{L64: src.L64, Lifetime: 1}}
	lu := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: list}
	offer, err := ilnp.BuildProof(src, f.to, nonce, lu, proof)
	if err != nil {
		return err
	}
	if _, err = f.file.Write(probe); err == nil {
		_, err = f.file.Write(offer)
	}
	return err
}

// flood sends at a rate until ctx is done, and returns how many offers it sent.
func (f *forgeries) flood(ctx context.Context, rate float64) (sent int, err error) {
	began := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		for want := int(time.Since(began).Seconds() * rate); sent < want; sent++ {
			if err := f.send(); err != nil {
				return sent, fmt.Errorf("send a forged offer: %w", err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return sent, nil
}

// during runs a flood beside something.
func (f *forgeries) during(b *testing.B, rate float64, what func()) (sent int, took time.Duration) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	began := time.Now()
	go func() {
		var err error
		sent, err = f.flood(ctx, rate)
		done <- err
	}()
	what()
	cancel()
	must(b, <-done)
	return sent, time.Since(began)
}

// refusedAsForged is how many offers the daemon on MN has judged.
func (w *world) refusedAsForged(b *testing.B) float64 {
	b.Helper()
	counters, err := w.mnNode.Counts(b.Context())
	must(b, err)
	return float64(counters["core_refused_proof_that_is_forged"])
}

// BenchmarkForgedProofs floods a host with proofs that are forged under the identifier of a peer whose key it has. The
// saturating rate is that beyond which no more are judged. At half of it the daemon has half of a core at most, the
// session that lives goes on, and the peer itself, without a session, gets one as fast as otherwise.
func BenchmarkForgedProofs(b *testing.B) {
	const idle = 10 * time.Second
	w := newWorld(b, 1, linkem.Params{Delay: farAway})
	more := fmt.Sprintf("[ilnp]\nidle_timeout = %q\n", idle)
	w.cnNode = w.startOn(b, w.cn, w.nidCN, "soft", more, "net")
	w.mnNode = w.startOn(b, w.mn, w.nidMN, "soft", more, "net1")
	must(b, node.PairKeys(b.Context(), w.mnNode, w.cnNode))
	serve(b, w.mn, connectPort)
	serve(b, w.cn, connectPort)
	connect(b, w.mn, sessionCN)
	f := w.forgeries(b)
	sessionMN := roam.ILV{L64: roam.DefaultSessionPrefix, NID: nidMN}.Addr()
	const rtt = 2 * farAway
	var share, rate, lost float64
	var quiet, newcomer []time.Duration
	for b.Loop() {
		if rate > 0 {
			continue
		}
		best := 0.0
		for try := 1000.0; try <= 64_000; try *= 2 {
			before, cpu := w.refusedAsForged(b), w.daemonCPU(b)
			sent, took := f.during(b, try, func() { pause(b, 3*time.Second) })
			judged := (w.refusedAsForged(b) - before) / took.Seconds()
			b.Logf("%.0f forged proofs a second: %.0f judged, %.2f of a core", float64(sent)/took.Seconds(), judged,
				(w.daemonCPU(b)-cpu).Seconds()/took.Seconds())
			if judged < 1.1*best {
				break
			}
			best = judged
		}
		if best == 0 {
			b.Fatal("no forged proof was judged")
		}
		rate = best / 2
		since := func() time.Time {
			list, err := w.mnNode.Sessions(b.Context())
			must(b, err)
			for _, s := range list {
				if s.NID == nidCN && s.Proved && s.State == "established" {
					return s.Since
				}
			}
			return time.Time{}
		}
		connect(b, w.mn, sessionCN) // it may have become idle
		was, cpu := since(), w.daemonCPU(b)
		_, took := f.during(b, rate, func() {
			if len(w.ping(b, "cn", 400)) < 400 {
				b.Error("pings of the session that lives are lost")
			}
		})
		share = (w.daemonCPU(b) - cpu).Seconds() / took.Seconds()
		if was.IsZero() || !since().Equal(was) {
			lost = 1
		}
		comes := func(times *[]time.Duration) {
			for range connectTimes / 3 {
				w.idle(b, 4*idle)
				*times = append(*times, connect(b, w.cn, sessionMN))
			}
		}
		comes(&quiet)
		f.during(b, rate, func() { comes(&newcomer) })
	}
	b.ReportMetric(0, "ns/op")
	details := map[string]float64{"proofs/s": rate, "ms newcomer without them": milli(quantile(quiet, 1))}
	for _, fig := range []testutil.Figure{
		{
			Name: "ForgedProofs/share", Bound: 0.5, Value: share, Rounds: 1,
			Says: "share of a core that the daemon has at half the saturating rate of forged proofs",
		},
		{Name: "ForgedProofs/lost", Says: "live sessions lost meanwhile", Bound: 0, Value: lost, Rounds: 1},
		{
			Name: "ForgedProofs/newcomer", Unit: "ms", Bound: milli(2*rtt) + 50, Value: milli(quantile(newcomer, 1)),
			Says: "longest connection of the peer itself, which begins a session meanwhile", Rounds: len(newcomer),
		},
	} {
		fig.Op, fig.Details = "<=", details
		testutil.Report(b, fig)
	}
}
