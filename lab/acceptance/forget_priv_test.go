package acceptance

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/workload"
)

// How soon both ends have a session that carries data after they have lost
// state, and for how long it must then stay the one that it is.
const (
	settleWithin = 8 * time.Second
	settledFor   = 5 * time.Second
)

// TestForget takes the state of sessions from either end and from both, again
// and again, with old packets under way and with two links: each time the ends
// agree soon, and then neither makes its session anew.
func TestForget(t *testing.T) {
	needs(t, "curl")
	w := newWorld(t, "forget", 10*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	w.serve(t, "cn", 8080)
	mn, cn := w.newHost("mn", settings{mode: "duality"}).start(), w.newHost("cn", settings{}).start()
	settle(t, w, mn, cn)
	old := map[*host][]byte{mn: mn.kept(), cn: cn.kept()}
	for _, c := range []struct {
		name   string
		forget []*host
		back   map[*host][]byte // with what its predecessor left, else with nothing
	}{
		{"one end", []*host{cn}, nil},
		{"the other end", []*host{mn}, nil},
		{"one after the other", []*host{mn, cn}, nil},
		{"the other order", []*host{cn, mn}, nil},
		{"one end has an old state", []*host{cn}, old},
		{"the other has an old state", []*host{mn}, old},
		{"both have old states", []*host{mn, cn}, old},
	} {
		w.sub(c.name, func(t *testing.T) {
			for _, n := range c.forget {
				// A connection that is under way when the state goes.
				talk := w.host("mn").AppCommand(w.within(settleWithin), "curl", "-6", "-sS", "-o", "/dev/null", "http://cn:8080/")
				if err := talk.Start(); err != nil {
					t.Fatal(err)
				}
				n.signal(syscall.SIGKILL)
				n.roam("down")
				if err := n.Forget(); err != nil {
					t.Fatal(err)
				}
				if b := c.back[n]; b != nil {
					put(t, filepath.Join(n.RunDir(), "sessions"), b)
				}
				n.start()
				_ = talk.Wait() // whether it got through is not the question
			}
			settle(t, w, mn, cn)
		})
	}
}

// TestForgetUnderConnections takes the sessions alone from either end, as a daemon
// does that dies before it has saved them: programs, addresses and sockets stay.
// Connections between session addresses live on, whoever of the two sends first.
func TestForgetUnderConnections(t *testing.T) {
	w := newWorld(t, "lost", 10*time.Millisecond, place{"mn", 1, true}, place{"cn", 1, false})
	// The correspondent knows nobody: it cannot bring the session back by itself.
	mn, cn := w.newHost("mn", settings{}).start(), w.newHost("cn", settings{hosts: "# nobody\n"}).start()
	down, up := w.tcp(t, "mn", "cn", "cn", 7001, true), w.tcp(t, "mn", "cn", "cn", 7002, false)
	mn.reaches("cn", "established")
	for _, n := range []*host{cn, mn} {
		w.sub(n.name+" loses its sessions", func(t *testing.T) {
			for range 3 {
				bare(t, n, down, up)
				n.signal(syscall.SIGKILL)
				if err := n.LoseSessions(); err != nil {
					t.Fatal(err)
				}
				n.start()
				flows(t, down, 50)
				flows(t, up, 50)
			}
		})
	}
	ctx := w.within(patience)
	for _, c := range []*workload.TCP{down, up} {
		if _, err := c.Stop(ctx); err != nil {
			t.Error(err)
		}
	}
	t.Logf("segments without their session: %d at mn, %d at cn", mn.counter("drop_session_lost"), cn.counter("drop_session_lost"))
}

// bare waits until the correspondent's segments come without nonce, as they do when
// a session has lasted for a while: with one, a host that has forgotten knows what
// they are.
func bare(t *testing.T, n *host, running ...workload.Session) {
	t.Helper()
	testutil.Eventually(t, patience, func() bool {
		before := n.counters()
		for _, s := range running {
			flows(t, s, 20)
		}
		after := n.counters()
		return after["rx_nonce"] == before["rx_nonce"] && after["rx_packets"] > before["rx_packets"]
	}, "segments without nonce at "+n.name)
}

// kept waits until the daemon has saved its sessions, and returns that state.
func (n *host) kept() (b []byte) {
	testutil.Eventually(n.w.t, patience, func() bool {
		var err error
		b, err = os.ReadFile(filepath.Join(n.RunDir(), "sessions"))
		return err == nil && len(b) > 0
	}, "saved sessions of "+n.name)
	return b
}

func put(t *testing.T, file string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// settle connects until a connection stands, and goes on connecting, as each
// first segment shows its sender's nonce: the sessions of both ends have to stay
// the same ones.
func settle(t *testing.T, w *world, mn, cn *host) {
	t.Helper()
	connects := func() bool {
		_, err := w.run("mn", "curl", "-6", "-sSf", "--max-time", "5", "-o", "/dev/null", "http://cn:8080/")
		return err == nil
	}
	stands := func() bool {
		return connects() && mn.with("cn").State == "established" && cn.with("mn").State == "established"
	}
	began := time.Now()
	testutil.Eventually(t, settleWithin, stands, "a connection, and sessions on both ends")
	// The second connection shows each end what the other one has by now.
	var since [2]time.Time
	look := func() [2]time.Time { return [2]time.Time{mn.with("cn").Since, cn.with("mn").Since} }
	testutil.Eventually(t, settleWithin, func() bool {
		was := since
		since = look()
		return stands() && since == was
	}, "the same sessions after another connection")
	t.Logf("settled after %v", time.Since(began).Round(10*time.Millisecond))
	for until := time.Now().Add(settledFor); time.Now().Before(until); {
		if !connects() {
			t.Error("no connection although the sessions had settled")
		}
		if now := look(); now != since {
			t.Fatalf("sessions of %v were made anew: they are of %v", since, now)
		}
	}
}
