package acceptance

import (
	"context"
	"testing"
	"time"

	"roam/lab/site"
)

// TestBorderRebooted has a border lose its programs and flows under a session that goes on. By the
// preferred locator the session continues at once, and the nonces of the hosts' own probes bring
// the flow back, with both locators.
func TestBorderRebooted(t *testing.T) {
	s := newSite(t, site.Policy(0, "vlb", 50, 50), "")
	ping(t, s, "-c", "5", "-i", "0.1")
	announced(t, s)
	var back time.Duration
	sent, lost := between(t, s, 200, 12*time.Second, func() {
		if err := s.Border.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Border.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		ping(t, s, "-c", "10", "-i", "0.01", "-W", "3")
		announced(t, s)
		back = time.Since(began)
	})
	t.Logf("%d of %d datagrams lost while there were no programs; both locators in use %v after the start",
		lost, sent, back)
	if back > 12*time.Second {
		t.Errorf("both locators in use %v after the start", back)
	}
	if sent, lost := between(t, s, 500, 2*time.Second, func() {}); lost > 0 {
		t.Errorf("%d of %d datagrams lost afterwards", lost, sent)
	}
}
