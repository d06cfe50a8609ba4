package acceptance

import (
	"context"
	"strings"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/site"
)

// TestBorderSilentProvider has a provider drop what it forwards, while its link and its router
// are well. The border finds out within 5 s, moves all sessions to the other provider, and uses
// the first one again when it works.
func TestBorderSilentProvider(t *testing.T) {
	needs(t, "nft")
	s := newSiteOver(t, site.Policy(0, "vlb", 50, 50), "", [2]linkem.Params{})
	ping(t, s, "-c", "5", "-i", "0.1")
	announced(t, s)
	rules := func(text string) {
		t.Helper()
		cmd := s.Provider[0].Command(context.Background(), "nft", "-f", "-")
		cmd.Stdin = strings.NewReader(text + "\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", text, err, out)
		}
	}
	state := func(want string, locators int, within time.Duration) time.Duration {
		t.Helper()
		began := time.Now()
		testutil.Eventually(t, within, func() bool {
			r, err := site.Report(t.Context(), s.Border)
			return err == nil && r.Sites[0].State == want && len(r.Flows) == 1 && len(r.Flows[0].Announced) == locators
		}, "the first provider is "+want+", and the outside node has acknowledged that")
		return time.Since(began)
	}
	// The border asks in the name of hosts that send, so a site without traffic would not learn it.
	_, lost := between(t, s, 200, 2*time.Second, func() {
		rules("table ip6 t { chain c { type filter hook forward priority 0; policy drop; }\n}")
		t.Logf("silent after %v", state("silent", 1, 5*time.Second))
	})
	t.Logf("%d datagrams lost until then", lost)
	wantDiagnosis(t, s, "warning", "nobody outside answers by wan0")
	ping(t, s, "-c", "100", "-i", "0.01")
	if sent, lost := between(t, s, 500, 2*time.Second, func() {}); lost > 0 {
		t.Errorf("%d of %d datagrams lost after the provider was left", lost, sent)
	}
	if sent, lost := between(t, s, 200, 2*time.Second, func() {
		rules("delete table ip6 t")
		t.Logf("up after %v", state("up", 2, 10*time.Second))
	}); lost > 0 {
		t.Errorf("%d of %d datagrams lost while the provider came back", lost, sent)
	}
	ping(t, s, "-c", "100", "-i", "0.01")
}
