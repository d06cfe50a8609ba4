package acceptance

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/packets"
	"roam/lab/site"
	"roam/lab/topo"
)

// newSiteOfThree builds a site with a third provider, and hosts whose checksums count locators as zero.
func newSiteOfThree(t *testing.T) (s *site.Site, third *topo.Host) {
	t.Helper()
	needs(t, "ping", "ip")
	ctx, stop := context.WithCancel(context.Background())
	s, err := site.New("three", false)
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
		third, err = s.AddProvider()
	}
	if err == nil {
		err = s.Roam(binaries, "[ilnp]\nchecksum = \"rfc6741\"\n", fmt.Sprintf("[border]\ninside = [\"lan\"]\n"+
			"links = [\"%s wan0\", \"%s wan1\", \"%s wan2\"]\npolicy = \"\"\"\n%s%[3]s 50 0 none 2\n\"\"\"\n",
			site.Providers[0][0].Addr(), site.Providers[0][1].Addr(), site.Third.Addr(), site.Policy(0, "vlb", 50, 50)))
	}
	if err == nil {
		err = s.Start(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, third
}

// TestBorderChecksumRule has hosts whose checksums count locators as zero, and divides their packets over three
// providers: of datagrams, echo requests and replies that leave, each provider has a third, as captures there
// have it. What comes in is divided by its sender, by how fast paths are, and all of it together uses each.
func TestBorderChecksumRule(t *testing.T) {
	s, third := newSiteOfThree(t)
	siteTCP(t, s)
	testutil.Eventually(t, patience, func() bool {
		r, err := site.Report(t.Context(), s.Border)
		return err == nil && len(r.Flows) == 1 && len(r.Flows[0].Announced) == 3
	}, "the outside node has acknowledged three locators")
	passed, files := thirds(t, s, s.Provider[0], s.Provider[1], third)
	if len(passed) != 6 {
		t.Errorf("seen %v", passed)
	}
	came := map[int]float64{}
	for what, by := range passed {
		out, all, off := strings.HasPrefix(what, "out"), 0.0, 0.0
		for i, n := range by {
			if all += n; !out {
				came[i] += n
			}
		}
		for i := range files {
			off = max(off, math.Abs(by[i]/all-1.0/3))
		}
		t.Logf("%s: %v packets, %.2f points off a third", what, all, 100*off)
		if out && off > 0.01 || all < echoesOfThirds {
			t.Errorf("%s: %v packets, %.2f points off a third: %v", what, all, 100*off, by)
		}
	}
	if len(came) != files {
		t.Errorf("packets come in by %v", came)
	}
}

const echoesOfThirds = 1000

// thirds has datagrams and echoes pass both ways, without a loss, and returns how many of each kind each provider
// has seen on its link to the site, and their number.
func thirds(t *testing.T, s *site.Site, providers ...*topo.Host) (passed map[string]map[int]float64, n int) {
	t.Helper()
	ctx := t.Context()
	// Echoes of 200 bytes are longer than probes, which would not be divided like them.
	const filter = "ip6 and (greater 250 or udp port 7000)"
	dir := t.TempDir()
	var captures []*topo.Capture
	for i, p := range providers {
		c, err := p.Capture(ctx, "site", filepath.Join(dir, fmt.Sprint(i)), 120, filter)
		if err != nil {
			t.Fatal(err)
		}
		captures = append(captures, c)
	}
	// One after the other: the border divides all packets together, in turn.
	if _, lost := between(t, s, 1500, 2*time.Second, func() {}); lost > 0 {
		t.Errorf("%d datagrams lost", lost)
	}
	for _, from := range []struct {
		host *topo.Host
		to   roam.NID
	}{{s.InsideHost, site.OutsideNID}, {s.Far, site.InsideNID}} {
		out, err := from.host.AppCommand(ctx, "ping", "-n", "-q", "-s", "200", "-i", "0.001",
			"-c", fmt.Sprint(echoesOfThirds), site.Session(from.to).String()).CombinedOutput()
		if err != nil || !strings.Contains(string(out), " 0% packet loss") {
			t.Errorf("%v\n%s", err, out)
		}
	}
	passed = map[string]map[int]float64{}
	for i, c := range captures {
		if _, err := c.Stop(); err != nil {
			t.Error(err)
		}
		list, err := packets.Read(filepath.Join(dir, fmt.Sprint(i)), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			what := map[bool]string{true: "out: ", false: "in: "}[p.SourceNID() == site.InsideNID]
			switch {
			case p.Proto == packets.UDP && p.Length < 200:
				what += "datagrams"
			case p.Proto == packets.ICMPv6 && len(p.Data) > 0:
				what += fmt.Sprint("echoes of type ", p.Data[0])
			default:
				continue
			}
			if passed[what] == nil {
				passed[what] = map[int]float64{}
			}
			passed[what][i]++
		}
	}
	return passed, len(captures)
}
