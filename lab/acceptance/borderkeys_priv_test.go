package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/node"
	"roam/lab/site"
)

// TestBorderKeyed has two hosts with each other's keys prove themselves across a border, and the
// inside host tell the other one both locators of the site in an update with a MAC, which the
// border passes on with another address and nothing else. No internal locator is seen outside. The border divides the
// packets again after it was restarted.
func TestBorderKeyed(t *testing.T) {
	outside := "[uplinks]\noutside = { \"fd00:0:1::\" = [\"2001:db8:a::\", \"2001:db8:b::\"] }\n"
	s := newSite(t, site.Policy(0, "vlb", 50, 50), outside)
	roamAt := func(n *node.Node, args ...string) string {
		t.Helper()
		return roamOn(t, n, args...)
	}
	seen := filepath.Join(t.TempDir(), "seen.pcap")
	capture, err := s.Provider[0].Capture(t.Context(), "site", seen, 400,
		"net", site.Internals[0].String(), "or", "ip6[48]==156 or ip6[88]==156") // updates stand behind options
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string][2]*node.Node{"inside": {s.Inside, s.Outside}, "outside": {s.Outside, s.Inside}} {
		roamAt(pair[0], "key", "new")
		roamAt(pair[1], "add", roamAt(pair[0], "export"), "--as", name, "--replace")
	}
	ping(t, s, "-c", "5", "-i", "0.2", "-W", "5")
	testutil.Eventually(t, patience, func() bool {
		return strings.Contains(roamAt(s.Outside, "session", "show"), "keyed")
	}, "the session is keyed")
	before := announced(t, s)
	halves(t, s)
	listed := []roam.L64{}
	for _, f := range before.Flows {
		listed = f.Announced
	}
	if len(listed) != 2 {
		t.Errorf("announced %v", listed)
	}
	if _, err := capture.Stop(); err != nil {
		t.Error(err)
	}
	noInternal(t, seen)
	dividesAgain(t, s)
}

// dividesAgain has a border divide the packets of its keyed flow after its daemon was killed, and after it has
// lost all that it knew of the flow. Only the inside host can announce locators then, and it does so at once.
func dividesAgain(t *testing.T, s *site.Site) {
	knows := func() bool {
		r, err := site.Report(t.Context(), s.Border)
		return err == nil && len(r.Flows) == 1 && len(r.Flows[0].Announced) == 2
	}
	t.Run("killed and started again", func(t *testing.T) {
		between(t, s, 200, 8*time.Second, func() {}) // the updates with which a session begins are over
		if err := s.Border.Signal(t.Context(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := s.Border.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		if !knows() {
			t.Error("the border does not know any more what the peer has acknowledged")
		}
		halves(t, s)
	})
	t.Run("rebooted", func(t *testing.T) {
		between(t, s, 200, 4*time.Second, func() {}) // hosts heed a notice every 5 s
		err := errors.Join(s.Border.Stop(t.Context()), s.Border.Start(context.Background()))
		if err != nil {
			t.Fatal(err)
		}
		between(t, s, 200, 3*time.Second, func() {
			testutil.Eventually(t, 3*time.Second, knows, "the peer has acknowledged both locators again")
		})
		halves(t, s)
	})
}

// halves wants each provider to have half of the packets, from now on.
func halves(t *testing.T, s *site.Site) {
	t.Helper()
	before, err := site.Report(t.Context(), s.Border)
	if err != nil {
		t.Fatal(err)
	}
	sent, lost := between(t, s, 500, 2*time.Second, func() {})
	tx, rx := shares(t, s, before)
	wantShare(t, "sent", tx, 0.5, 0.4*float64(sent))
	wantShare(t, "received", rx, 0.5, 0.4*float64(sent))
	if lost > 0 {
		t.Errorf("%d of %d datagrams lost", lost, sent)
	}
}

// roamOn runs a command of roam on a node, and returns what it says.
func roamOn(t *testing.T, n *node.Node, args ...string) string {
	t.Helper()
	out, err := n.Cmd(t.Context(), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestBorderTellsHosts has a border with a key tell its hosts the locators of the site, without a
// word about them in the hosts' configuration. The inside host exports these, lists them in its
// updates with a MAC, and lists the one that is left once a provider's link is lost: a peer with
// keys learns that from the host alone.
func TestBorderTellsHosts(t *testing.T) {
	s := newSite(t, site.Policy(0, "vlb", 50, 50), "[uplinks]\nborder = [\"edge\"]\n")
	var edge struct{ Public string }
	if err := json.Unmarshal([]byte(roamOn(t, s.Border, "key", "new", "--json")), &edge); err != nil {
		t.Fatal(err)
	}
	hosts, err := os.ReadFile(s.Inside.Hosts())
	hosts = fmt.Appendf(hosts, "nid=1:2:3:4 key=%s edge\n", edge.Public)
	if err = errors.Join(err, os.WriteFile(s.Inside.Hosts(), hosts, 0o644)); err != nil {
		t.Fatal(err)
	}
	roamOn(t, s.Inside, "config", "reload")
	testutil.Eventually(t, patience, func() bool {
		return strings.Contains(roamOn(t, s.Inside, "export"), ":2001+db8+a+0,2001+db8+b+0:")
	}, "the inside host exports the locators of the site")
	for name, pair := range map[string][2]*node.Node{"inside": {s.Inside, s.Outside}, "outside": {s.Outside, s.Inside}} {
		roamOn(t, pair[0], "key", "new")
		roamOn(t, pair[1], "add", roamOn(t, pair[0], "export"), "--as", name, "--replace")
	}
	ping(t, s, "-c", "5", "-i", "0.2", "-W", "5")
	announced(t, s)
	known := func() (list []string) {
		t.Helper()
		sessions, err := s.Outside.Sessions(t.Context())
		if err != nil || len(sessions) != 1 || sessions[0].Proof != "keyed" {
			return nil
		}
		for _, l := range sessions[0].Locators {
			if l.State == "active" || l.State == "valid" {
				list = append(list, l.L64.Prefix().String())
			}
		}
		slices.Sort(list)
		return list
	}
	wantKnown := func(want ...string) {
		t.Helper()
		knows := func() bool { return slices.Equal(known(), want) }
		testutil.Eventually(t, patience, knows, fmt.Sprintf("the peer knows %v", want))
	}
	wantKnown("2001:db8:a::/64", "2001:db8:b::/64")
	if err := s.Router.SetDown("wan0"); err != nil {
		t.Fatal(err)
	}
	wantKnown("2001:db8:b::/64")
	if sent, lost := between(t, s, 200, 2*time.Second, func() {}); lost > 0 {
		t.Errorf("%d of %d datagrams lost by the provider that is left", lost, sent)
	}
}
