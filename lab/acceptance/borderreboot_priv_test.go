package acceptance

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/site"
)

// TestBorderRebooted has a border lose its programs and flows under a session that goes on. By the
// preferred locator the session continues at once, and the nonces of the hosts' own probes bring
// the flow back, with both locators. What is lost was sent while no programs were there.
func TestBorderRebooted(t *testing.T) {
	s := newSite(t, site.Policy(0, "vlb", 50, 50), "")
	ping(t, s, "-c", "5", "-i", "0.1")
	announced(t, s)
	const rate = 200
	var down, back time.Duration
	sent, lost := between(t, s, rate, 12*time.Second, func() {
		stopped := time.Now()
		if err := s.Border.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Border.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		down = began.Sub(stopped)
		ping(t, s, "-c", "10", "-i", "0.01", "-W", "3")
		announced(t, s)
		back = time.Since(began)
	})
	most := int(2 * rate * (down + time.Second/5).Seconds()) // both ways
	t.Logf("%d of %d datagrams lost, %d at most, no programs for %v; both locators in use %v after the start",
		lost, sent, most, down, back)
	if lost > most {
		t.Errorf("%d of %d datagrams lost, %d at most in %v without programs", lost, sent, most, down)
	}
	if back > 12*time.Second {
		t.Errorf("both locators in use %v after the start", back)
	}
	if sent, lost := between(t, s, 500, 2*time.Second, func() {}); lost > 0 {
		t.Errorf("%d of %d datagrams lost afterwards", lost, sent)
	}
}

// TestBorderOtherABI has a build whose maps have another layout take a border over under a session that
// goes on. The old programs forward until they are replaced. Then flows are unknown, the session
// continues by the preferred locator, and nonces bring the flow back, with both locators.
func TestBorderOtherABI(t *testing.T) {
	s := newSite(t, site.Policy(0, "vlb", 50, 50), "")
	ping(t, s, "-c", "5", "-i", "0.1")
	announced(t, s)
	sent, lost := between(t, s, 200, 12*time.Second, func() {
		if err := s.Border.Signal(t.Context(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		// Maps without the map that holds their number are not used.
		abi := filepath.Join(s.Border.RunDir(), "bpf", "border", "abi")
		if err := os.Remove(abi); err != nil {
			t.Fatal(err)
		}
		if err := s.Border.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		announced(t, s)
		if _, err := os.Stat(abi); err != nil {
			t.Error(err)
		}
	})
	if lost > 0 {
		t.Errorf("%d of %d datagrams lost", lost, sent)
	}
}

// TestBorderAsksForNonces has a session go on that nothing disturbs. The inside host has one path, so
// nothing of its own has a nonce, and it waits for no sign of life. Since the border asks for
// nonces every 10 s, one packet each way has one, and a border that takes over knows the flow.
func TestBorderAsksForNonces(t *testing.T) {
	s := newSite(t, site.Policy(0, "vlb", 50, 50), "[uplinks]\nrelaxed = [\"net*\"]\n")
	ping(t, s, "-c", "5", "-i", "0.1")
	announced(t, s)
	// A destination option, and an echo request behind a nonce of 4 bytes.
	requests := &wiretap{t: t, file: filepath.Join(t.TempDir(), "requests.pcap")}
	began := time.Now()
	capture, err := s.Router.Capture(t.Context(), "lan", requests.file, 100, "src", "net",
		site.Internals[0].String(), "and", "ip6[6]==60 and ip6[40]==58 and ip6[48]==128")
	if err != nil {
		t.Fatal(err)
	}
	// What a session begins with is over after 3 s, and the next notice of the border comes within 10 s.
	sent, lost := between(t, s, 100, 4*time.Second, func() {
		testutil.Eventually(t, 14*time.Second, func() bool {
			list := requests.records()
			return len(list) > 0 && list[len(list)-1].at.Sub(began) > 3*time.Second
		}, "a request with a nonce")
	})
	if _, err := capture.Stop(); err != nil {
		t.Error(err)
	}
	if lost > 0 {
		t.Errorf("%d of %d datagrams lost", lost, sent)
	}
}
