package acceptance

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/linkem"
)

// direction is what `roam path show` has of one direction of a path.
type direction struct {
	Rate float64  `json:"rate_bps"`
	Loss *float64 `json:"loss"`
	Life string   `json:"life"`
}

// pathView is one path of `roam --json path show`.
type pathView struct {
	Link   string     `json:"link"`
	Remote roam.L64   `json:"remote"`
	InUse  bool       `json:"in_use"`
	Why    string     `json:"why"`
	RTT    float64    `json:"rtt_ms"`
	Least  float64    `json:"least_rtt_ms"`
	Out    *direction `json:"out"`
	In     *direction `json:"in"`
}

func (h *host) paths(peer string) (list []pathView) {
	h.w.t.Helper()
	var all []struct {
		Paths []pathView `json:"paths"`
	}
	if err := json.Unmarshal([]byte(h.roam("--json", "path", "show", peer)), &all); err != nil {
		h.w.t.Fatal(err)
	}
	for _, p := range all {
		list = append(list, p.Paths...)
	}
	return list
}

// uses waits until a host shows one path to a peer as in use for a reason, and as one that carries data.
func (h *host) uses(peer, why string, is func(pathView) bool) {
	h.w.t.Helper()
	testutil.Eventually(h.w.t, patience, func() bool {
		for _, p := range h.paths(peer) {
			if is(p) {
				return p.InUse && p.Why == why && p.Out != nil && p.Out.Rate > 0
			}
		}
		return false
	}, h.name+" shows a path as "+why)
}

// isKnown reports whether of a direction a loss is known that is near to another one.
func (d *direction) isKnown(loss float64) bool {
	return d != nil && d.Loss != nil && math.Abs(*d.Loss-loss) < 0.02 && d.Life == "lives" && d.Rate > 100_000
}

// wantLoss waits until a host knows of two paths to a peer, of which one loses this share in one
// direction, and nothing else is lost.
func (h *host) wantLoss(peer string, loss float64, lossy, sound func(pathView) *direction) {
	h.w.t.Helper()
	var last string
	so := testutil.Wait(patience, func() bool {
		bad, good := 0, 0
		last = ""
		for _, p := range h.paths(peer) {
			b, _ := json.Marshal(p)
			last += fmt.Sprintln(string(b))
			switch {
			case p.RTT == 0 || !sound(p).isKnown(0):
			case lossy(p).isKnown(loss):
				bad++
			case lossy(p).isKnown(0):
				good++
			}
		}
		return bad == 1 && good == 1
	})
	h.w.t.Logf("%s knows of its paths\n%s", h.name, last)
	if !so {
		h.w.t.Errorf("%s does not know that one of two paths loses %.2f", h.name, loss)
	}
}

// TestReports sends 1,000 datagrams a second each way by two paths, of which one loses every
// twentieth packet that leaves the mobile host. Its daemon learns from the peer what arrives on
// each path, and the peer's daemon from it.
func TestReports(t *testing.T) {
	w := newWorld(t, "reports", 10*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	const loss = 0.05
	if err := w.links["mn/net2"].Set(linkem.AB, linkem.Params{Delay: 5 * time.Millisecond, Loss: loss}); err != nil {
		t.Fatal(err)
	}
	mn, cn := w.newHost("mn", settings{mode: "duality"}).start(), w.newHost("cn", settings{}).start()
	mn.becomes("net1", "net2")
	w.udp(t, "mn", "cn", "cn", 7100, 1000)
	cn.reaches("mn", "established")
	mn.sendsFrom("cn", "net1", "net2")
	away := func(p pathView) *direction { return p.Out }
	back := func(p pathView) *direction { return p.In }
	mn.wantLoss("cn", loss, away, back)
	cn.wantLoss("mn", loss, back, away)
	for _, h := range []*host{mn, cn} {
		for name, n := range h.counters() {
			if strings.HasPrefix(name, "core_refused") && strings.Contains(name, "report") && n > 0 {
				t.Errorf("%s of %s: %d", name, h.name, n)
			}
		}
	}
}
