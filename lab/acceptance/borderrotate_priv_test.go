package acceptance

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/node"
	"roam/lab/site"
)

// TestBorderRotates replaces the key of the inside host, whose packets a border rewrites: the session that
// lives goes on under the old identifier, the vouch crosses the border, and the outside host proves
// itself towards the new key, and is proved to. No internal locator is seen outside.
func TestBorderRotates(t *testing.T) {
	outside := "[uplinks]\noutside = { \"fd00:0:1::\" = [\"2001:db8:a::\", \"2001:db8:b::\"] }\n"
	s := newSite(t, site.Policy(0, "vlb", 50, 50), outside)
	ctx := t.Context()
	roamAt := func(n *node.Node, args ...string) string {
		t.Helper()
		out, err := n.Cmd(ctx, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// The inside host gets its identifier from its key.
	must(s.Inside.Stop(ctx))
	b, err := os.ReadFile(s.Inside.Config)
	must(err)
	fixed := "nid = \"" + site.InsideNID.String() + "\""
	if !strings.Contains(string(b), fixed) {
		t.Fatalf("the configuration has no %s:\n%s", fixed, b)
	}
	must(os.WriteFile(s.Inside.Config, []byte(strings.Replace(string(b), fixed, "nid = \"auto\"", 1)), 0o644))
	roamAt(s.Inside, "key", "new")
	roamAt(s.Outside, "key", "new")
	must(s.Inside.Start(ctx))
	must(s.Inside.WaitUsable(ctx))
	seen := filepath.Join(t.TempDir(), "seen.pcap")
	capture, err := s.Provider[0].Capture(ctx, "site", seen, 400,
		"net", site.Internals[0].String(), "or", "ip6[48]==156 or ip6[88]==156")
	must(err)
	for name, pair := range map[string][2]*node.Node{
		"rotating": {s.Inside, s.Outside}, "outside": {s.Outside, s.Inside},
	} {
		roamAt(pair[1], "add", roamAt(pair[0], "export"), "--as", name, "--replace")
	}
	proven := func() int {
		return strings.Count(roamAt(s.Outside, "session", "show"), "it has proven its key at set-up")
	}
	ping(t, s, "-c", "5", "-i", "0.2", "-W", "5")
	testutil.Eventually(t, patience, func() bool { return proven() == 1 }, "the session is keyed")

	roamAt(s.Inside, "key", "rotate")
	must(s.Inside.Signal(ctx, syscall.SIGTERM))
	must(s.Inside.Start(ctx))
	testutil.Eventually(t, 2*patience, func() bool { return proven() == 2 },
		"the outside host has a proven session with the new key, beside that of the old one")
	ping(t, s, "-c", "5", "-i", "0.2", "-W", "5")
	_, lost := between(t, s, 200, time.Second, func() {})
	if lost > 0 {
		t.Errorf("%d datagrams lost", lost)
	}
	if _, err := capture.Stop(); err != nil {
		t.Error(err)
	}
	noInternal(t, seen)
}
