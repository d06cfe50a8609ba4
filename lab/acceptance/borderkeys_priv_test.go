package acceptance

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/node"
	"roam/lab/site"
)

// TestBorderKeyed has two hosts with each other's keys prove themselves across a border, and the
// inside host tell the other one both locators of the site in an update with a MAC, which the
// border passes on with another address and nothing else. No internal locator is seen outside.
func TestBorderKeyed(t *testing.T) {
	outside := "[uplinks]\noutside = { \"fd00:0:1::\" = [\"2001:db8:a::\", \"2001:db8:b::\"] }\n"
	s := newSite(t, site.Policy(0, "vlb", 50, 50), outside)
	roamAt := func(n *node.Node, args ...string) string {
		t.Helper()
		out, err := n.Cmd(t.Context(), args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
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
	sent, lost := between(t, s, 500, 2*time.Second, func() {})
	tx, rx := shares(t, s, before)
	wantShare(t, "sent", tx, 0.5, 900)
	wantShare(t, "received", rx, 0.5, 900)
	if lost > 0 {
		t.Errorf("%d of %d datagrams lost", lost, sent)
	}
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
}
