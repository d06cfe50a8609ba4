package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/node"
	"roam/lab/site"
	"roam/lab/topo"
	"roam/lab/workload"
	"roam/lab/workload/udpflow"
)

// newSite builds a site whose border has that policy, and starts Roam on it; more is for the
// configuration of the hosts.
func newSite(t *testing.T, policy, more string) *site.Site {
	t.Helper()
	return newSiteOver(t, policy, more, [2]linkem.Params{})
}

// newSiteOver is newSite with emulated links to the providers.
func newSiteOver(t *testing.T, policy, more string, wires [2]linkem.Params) *site.Site {
	t.Helper()
	needs(t, "ping", "ip")
	// The daemons run until what they say is logged.
	ctx, stop := context.WithCancel(context.Background())
	s, err := site.NewOver("site", false, wires)
	t.Cleanup(func() {
		defer stop()
		if t.Failed() {
			explain(t, s)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err == nil {
		err = s.Roam(binaries, more, site.Section(0, policy, ""))
	}
	if err == nil {
		err = s.Start(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// explain logs what the daemons of a site say.
func explain(t *testing.T, s *site.Site) {
	for _, n := range []*node.Node{s.Border, s.Inside, s.Outside} {
		if n == nil {
			continue
		}
		said, _ := os.ReadFile(n.Log)
		t.Logf("%s: roamd said:\n%s", n.Host.Name(), said[max(0, len(said)-2000):])
		for _, what := range [][]string{
			{"status"}, {"session", "show"}, {"counter", "show"}, {"border", "show"}, {"border", "flows"}, {"explain", "inside"},
			{"explain", "outside"},
		} {
			out, err := n.Cmd(context.Background(), what...).CombinedOutput()
			t.Logf("%s: roam %v: %v\n%s", n.Host.Name(), what, err, out)
		}
	}
}

// shares returns what left from each site locator and came to it, since before.
func shares(t *testing.T, s *site.Site, before site.BorderReport) (tx, rx [2]float64) {
	t.Helper()
	now, err := site.Report(t.Context(), s.Border)
	if err != nil || len(now.Sites) != 2 {
		t.Fatalf("%+v, %v", now, err)
	}
	for i, n := range now.Sites {
		tx[i], rx[i] = float64(n.TXPackets), float64(n.RXPackets)
		if len(before.Sites) == 2 {
			tx[i], rx[i] = tx[i]-float64(before.Sites[i].TXPackets), rx[i]-float64(before.Sites[i].RXPackets)
		}
	}
	return tx, rx
}

// announced waits until the outside node knows both locators of the flow, and returns what
// passed until then.
func announced(t *testing.T, s *site.Site) (r site.BorderReport) {
	t.Helper()
	testutil.Eventually(t, patience, func() bool {
		var err error
		r, err = site.Report(t.Context(), s.Border)
		return err == nil && len(r.Flows) == 1 && len(r.Flows[0].Announced) == 2
	}, "the outside node has acknowledged both locators")
	return r
}

// between returns what unmodified programs on both hosts exchange: datagrams both ways,
// and how many of these were lost.
func between(t *testing.T, s *site.Site, rate int, length time.Duration, during func()) (sent, lost int) {
	t.Helper()
	u, err := workload.StartUDP(t.Context(), s.Far, s.InsideHost, t.TempDir(), workload.UDPOptions{
		Name: "udp", Target: site.Session(site.OutsideNID).String(), Port: 7000, Up: rate, Down: rate, Size: 64,
	})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	during()
	if rest := length - time.Since(began); rest > 0 {
		testutil.Wait(rest, func() bool { return false })
	}
	up, down, err := u.Stop(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*udpflow.Flow{up, down} {
		n := f.Count(began, began.Add(length))
		sent, lost = sent+n.Written, lost+n.Lost
	}
	return sent, lost
}

// wantShare compares the first locator's part of the packets.
func wantShare(t *testing.T, what string, n [2]float64, want, least float64) {
	t.Helper()
	if share := n[0] / (n[0] + n[1]); !(math.Abs(share-want) <= 0.01) || n[0]+n[1] < least {
		t.Errorf("%s: %v, want %.2f of at least %v packets by the first", what, n, want, least)
	}
}

// ping sends echo requests from inside, all of which are answered.
func ping(t *testing.T, s *site.Site, args ...string) {
	t.Helper()
	argv := append([]string{"ping", "-n", "-q"}, append(args, site.Session(site.OutsideNID).String())...)
	out, err := s.InsideHost.AppCommand(t.Context(), argv...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), " 0% packet loss") {
		t.Errorf("%v: %v\n%s", args, err, out)
	}
}

// siteTCP has iperf3 send both ways.
func siteTCP(t *testing.T, s *site.Site) {
	for i, reverse := range []bool{false, true} {
		p, err := workload.StartIperf(t.Context(), s.Far, s.InsideHost, workload.IperfOptions{
			Name: "tcp", Target: site.Session(site.OutsideNID).String(), Port: 5200 + i, Seconds: 1, Interval: 0.5, Mbps: 50,
			Reverse: reverse,
		})
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Wait(t.Context())
		if err != nil || r.Bytes < 1_000_000 {
			t.Errorf("reverse %v: %+v, %v", reverse, r, err)
		}
	}
}

// reload gives the border another policy.
func reload(t *testing.T, s *site.Site, policy string) (string, error) {
	t.Helper()
	if err := s.Configure(site.Section(0, policy, "")); err != nil {
		t.Fatal(err)
	}
	out, err := s.Border.Cmd(t.Context(), "config", "reload").CombinedOutput()
	return string(out), err
}

// TestBorder has unmodified programs on a host behind a border talk to one outside, over
// two providers.
func TestBorder(t *testing.T) {
	s := newSite(t, site.Policy(0, "vlb", 50, 50), "")
	seen := filepath.Join(t.TempDir(), "seen.pcap")
	capture, err := s.Provider[0].Capture(t.Context(), "site", seen, 200,
		"net", site.Internals[0].String(), "or", "ip6[48]==156") // Locator Updates stand behind a nonce
	if err != nil {
		t.Fatal(err)
	}
	ping(t, s, "-c", "5", "-i", "0.1")
	before := announced(t, s)
	t.Run("a border that is well", func(t *testing.T) {
		wantDiagnosis(t, s, "ok", "packets leave by wan0 and wan1; every line")
	})
	t.Run("halves both ways", func(t *testing.T) {
		sent, lost := between(t, s, 1000, 6*time.Second, func() {})
		tx, rx := shares(t, s, before)
		wantShare(t, "sent", tx, 0.5, 0.4*float64(sent))
		wantShare(t, "received", rx, 0.5, 0.4*float64(sent))
		if lost > sent/5000 {
			t.Errorf("%d of %d datagrams lost", lost, sent)
		}
	})
	t.Run("a faulty policy is refused, and four fifths are not", func(t *testing.T) {
		out, err := reload(t, s, site.Policy(0, "vlb", 50, 50)+"2001:db8:d:: 1 0 best 2\n")
		if err == nil || !strings.Contains(out, "line 4") || !strings.Contains(out, "Advice") {
			t.Errorf("a faulty policy: %v\n%s", err, out)
		}
		if out, err := reload(t, s, site.Policy(0, "vlb", 20, 80)); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		before := announced(t, s)
		ping(t, s, "-c", "2000", "-i", "0.002")
		tx, _ := shares(t, s, before)
		wantShare(t, "sent", tx, 0.8, 2000)
	})
	t.Run("a drained link carries nothing more", func(t *testing.T) { drained(t, s) })
	t.Run("a command drains", func(t *testing.T) { drainedByCommand(t, s) })
	t.Run("TCP both ways", func(t *testing.T) { siteTCP(t, s) })
	t.Run("killed and started again", func(t *testing.T) {
		sent, lost := between(t, s, 500, 4*time.Second, func() {
			if err := s.Border.Signal(t.Context(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := s.Border.Start(context.Background()); err != nil {
				t.Fatal(err)
			}
		})
		if lost > 0 {
			t.Errorf("%d of %d datagrams lost", lost, sent)
		}
		before := announced(t, s)
		ping(t, s, "-c", "1000", "-i", "0.002")
		tx, _ := shares(t, s, before)
		wantShare(t, "after the restart, sent", tx, 0.5, 1000)
	})
	t.Run("a restart ends a command's drain", func(t *testing.T) { drainEnds(t, s) })
	t.Run("a provider's link goes", func(t *testing.T) {
		if err := s.Router.SetDown("wan0"); err != nil {
			t.Fatal(err)
		}
		testutil.Eventually(t, patience, func() bool {
			r, err := site.Report(t.Context(), s.Border)
			return err == nil && len(r.Flows) == 1 && len(r.Flows[0].Announced) == 1 && r.Sites[0].State == "down"
		}, "the outside node has acknowledged the locator that is left")
		ping(t, s, "-c", "100", "-i", "0.01")
		wantDiagnosis(t, s, "warning", "wan0 (2001:db8:a::/64) is down")
	})
	if _, err := capture.Stop(); err != nil {
		t.Error(err)
	}
	noInternal(t, seen)
	if err := s.Border.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(s.Border.RunDir(), "bpf", "*")); err != nil || len(left) > 0 {
		t.Errorf("after down %v is pinned, %v", left, err)
	}
}

// drained drains a link without a loss, and lets it be used again.
func drained(t *testing.T, s *site.Site) {
	policy := site.Policy(0, "vlb", 50, 50)
	for _, more := range []string{"drained = [\"wan0\"]\n", ""} {
		sent, lost := between(t, s, 500, 2*time.Second, func() {
			if err := s.Configure(site.Section(0, policy, more)); err != nil {
				t.Fatal(err)
			}
			if out, err := s.Border.Cmd(t.Context(), "config", "reload").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
		if lost > 0 {
			t.Errorf("%q: %d of %d datagrams lost", more, lost, sent)
		}
		var before site.BorderReport
		testutil.Eventually(t, patience, func() bool {
			r, err := site.Report(t.Context(), s.Border)
			before = r
			return err == nil && len(r.Flows) == 1 && len(r.Flows[0].Announced) == len(r.Sites)-strings.Count(more, "wan0")
		}, "the outside node has acknowledged the locators")
		ping(t, s, "-c", "200", "-i", "0.002")
		if tx, _ := shares(t, s, before); (tx[0] == 0) != (more != "") {
			t.Errorf("%q: sent %v", more, tx)
		}
	}
}

// drainedByCommand drains a link at run time under traffic, and judges at the provider's end of
// it: nothing leaves by the link any more, also after a reload, and nothing is lost.
func drainedByCommand(t *testing.T, s *site.Site) {
	border := func(args ...string) (string, error) {
		out, err := s.Border.Cmd(t.Context(), append([]string{"border"}, args...)...).CombinedOutput()
		return string(out), err
	}
	must := func(args ...string) func() {
		return func() {
			if out, err := border(args...); err != nil {
				t.Fatalf("%v: %v\n%s", args, err, out)
			}
		}
	}
	known := func(locators int) (r site.BorderReport) {
		t.Helper()
		testutil.Eventually(t, patience, func() bool {
			var err error
			r, err = site.Report(t.Context(), s.Border)
			return err == nil && len(r.Flows) == 1 && len(r.Flows[0].Announced) == locators
		}, "the outside node has acknowledged the locators that are left")
		return r
	}
	for _, verb := range []string{"drain", "undrain"} {
		if sent, lost := between(t, s, 500, 2*time.Second, must(verb, "wan0")); lost > 0 || sent < 500 {
			t.Errorf("%s: %d of %d datagrams lost", verb, lost, sent)
		}
		if verb == "undrain" {
			break
		}
		if r := known(1); r.Sites[0].State != "drained" {
			t.Errorf("shown as %+v", r.Sites[0])
		}
		if out, err := reload(t, s, site.Policy(0, "vlb", 50, 50)); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		wantDiagnosis(t, s, "note", "wan0 is drained by command")
		before := arrivedAt(t, s.Provider[0], "site")
		ping(t, s, "-c", "200", "-i", "0.002")
		if n := arrivedAt(t, s.Provider[0], "site") - before; n > 20 { // neighbour discovery
			t.Errorf("%d packets came over a drained link while 200 echo requests were sent", n)
		}
		for link, want := range map[string]string{"wan1": "no other link is left", "wan7": "wan0, wan1"} {
			if out, err := border("drain", link); err == nil || !strings.Contains(out, want) {
				t.Errorf("drain %s: %v\n%s", link, err, out)
			}
		}
	}
	known(2)
	before := arrivedAt(t, s.Provider[0], "site")
	ping(t, s, "-c", "200", "-i", "0.002")
	if n := arrivedAt(t, s.Provider[0], "site") - before; n < 80 {
		t.Errorf("%d of 200 echo requests came over a link that is used again", n)
	}
}

// wantDiagnosis wants one finding of roam doctor about the border, with that level and beginning.
func wantDiagnosis(t *testing.T, s *site.Site, level, text string) {
	t.Helper()
	var r struct {
		Findings []struct{ Level, About, Text, Do string }
	}
	out, _ := s.Border.Cmd(t.Context(), "doctor", "--json").Output() // its status is that of all findings
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var about []string
	for _, f := range r.Findings {
		if f.About == "border" && f.Level != "ok" || f.About == "border" && level == "ok" {
			about = append(about, f.Level+": "+f.Text)
		}
	}
	if len(about) != 1 || !strings.HasPrefix(about[0], level+": "+text) {
		t.Errorf("roam doctor finds %q, want %s: %s", about, level, text)
	}
}

// arrivedAt returns how many packets an interface has received.
func arrivedAt(t *testing.T, h *topo.Host, ifname string) uint64 {
	t.Helper()
	n, err := h.Stats(ifname)
	if err != nil {
		t.Fatal(err)
	}
	return n.RxPackets
}

// noInternal wants Locator Updates in a capture that list a site's locators, and no internal one.
func noInternal(t *testing.T, file string) {
	packets, err := os.ReadFile(file)
	inside, outside := site.Internals[0].Addr().As16(), site.Providers[0][1].Addr().As16()
	if err != nil || bytes.Contains(packets, inside[:8]) || !bytes.Contains(packets, outside[:8]) {
		t.Errorf("%d bytes of Locator Updates: an internal locator %v, a site's %v, %v", len(packets),
			bytes.Contains(packets, inside[:8]), bytes.Contains(packets, outside[:8]), err)
	}
}
