package acceptance

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/workload"
)

// answersFrom returns when datagrams from a port of the peer went to each locator, since a moment.
func (tap *wiretap) answersFrom(port uint16, since time.Time) map[roam.L64][]time.Time {
	to := make(map[roam.L64][]time.Time)
	for _, r := range tap.records() {
		f, at := r.packet, 40
		if len(f) > 48 && f[6] == 60 && f[40] == 17 {
			at = 48
		} else if len(f) < 48 || f[6] != 17 {
			continue
		}
		if len(f) >= at+2 && binary.BigEndian.Uint16(f[at:]) == port && !r.at.Before(since) {
			l := roam.L64(binary.BigEndian.Uint64(f[24:]))
			to[l] = append(to[l], r.at)
		}
	}
	return to
}

// TestAnswersToRules: the peer, which has no rules, answers a flow with a rule on the user's link, a
// link in reserve, and every other flow as before; when the link loses its carrier and when the
// rule is withdrawn, answers are back on the link in use within a second. A capture of what
// leaves the peer is the judge. Both hosts show the path of the rule as in use.
func TestAnswersToRules(t *testing.T) {
	w := newWorld(t, "answers", 5*time.Millisecond, place{name: "mn", links: 3, mobile: true}, place{name: "cn", links: 1})
	r := &ruled{world: w}
	rule := func(links string) string {
		return stay + fmt.Sprintf("[[rule]]\nports = [%d]\npolicy = \"failover\"\nlinks = [%s]\n", portFailover, links)
	}
	r.mn = w.newHost("mn", settings{mode: "soft", more: rule(`"net2"`)}).start()
	r.cn = w.newHost("cn", settings{mode: "soft"}).start()
	r.mn.becomes("net3")
	w.must("mn", "ping", "-c", "3", "-i", "0.2", "cn")
	r.mn.reaches("cn", "established")
	r.tap = w.tap(t, w.r1, "cn1", "ip6")
	for _, port := range []int{portFailover, portNone} {
		dir := r.scratch(fmt.Sprint(t.Name(), port))
		u, err := workload.StartUDP(r.top.Context(), r.hosts["cn"], r.hosts["mn"], dir, workload.UDPOptions{
			Name: fmt.Sprint("udp ", port), Target: "cn", Port: port, Up: 200, Down: 200, Size: 64,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(u.Kill)
		flows(t, u, 50)
	}
	r.answeredOn(t, "with the rule", 2, 0)
	r.mn.uses("cn", "in use, only for rule 1", func(p pathView) bool { return p.Link == "net2" })
	r.cn.uses("mn", "in use, for answers to the peer's rules", func(p pathView) bool { return p.Remote == r.loc(2) })
	out := strings.Join(strings.Fields(r.cn.roam("explain", "mn", "9")), " ")
	if !strings.Contains(out, "answered along the path that it came by") {
		t.Errorf("the peer explains a flow as\n%s", out)
	}
	begin := time.Now()
	r.mustReload(rule(`"net1"`))
	r.answeredOn(t, "with another rule", 1, time.Second)
	if other := r.tap.answersFrom(portNone, begin); len(other) != 1 || len(other[r.loc(3)]) == 0 {
		t.Errorf("the flow without a rule is answered at %v", slices.Collect(maps.Keys(other)))
	}
	r.mustReload(rule(`"net2", "net1"`))
	r.answeredOn(t, "with failover", 2, time.Second)
	w.must("mn", "ip", "link", "set", "net2", "down")
	r.answeredOn(t, "without its first link", 1, time.Second)
	w.must("mn", "ip", "link", "set", "net2", "up")
	r.mustReload(stay)
	r.answeredOn(t, "without a rule", 3, time.Second)
}

// answeredOn wants answers to the flow with a rule on a link alone, soon after now.
func (r *ruled) answeredOn(t *testing.T, when string, link int, within time.Duration) {
	t.Helper()
	begin, want := time.Now(), r.loc(link)
	var last time.Time // to another locator
	quiet := func() bool {
		to := r.tap.answersFrom(portFailover, begin)
		last = begin
		for l, at := range to {
			if l != want && at[len(at)-1].After(last) {
				last = at[len(at)-1]
			}
		}
		n := len(to[want])
		return n > 0 && to[want][n-1].Sub(last) > 500*time.Millisecond
	}
	if !testutil.Wait(patience, quiet) {
		t.Errorf("%s: answers do not come by net%d alone", when, link)
		return
	}
	t.Logf("%s: by net%d alone after %v", when, link, last.Sub(begin).Round(time.Millisecond))
	if within > 0 && last.Sub(begin) > within {
		t.Errorf("%s: only after %v, want %v", when, last.Sub(begin), within)
	}
}
