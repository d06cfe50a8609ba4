package acceptance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/peergen"
)

// forgedFor is how long each half of the flood lasts.
const forgedFor = 4 * time.Second

// learned returns the facts of a host's session with another that no third node may change.
func (h *host) learned(peer string) map[string]any {
	h.w.t.Helper()
	var list []map[string]any
	if err := json.Unmarshal([]byte(h.roam("session", "show", "--json")), &list); err != nil {
		h.w.t.Fatal(err)
	}
	for _, s := range list {
		if s["address"] != h.w.session(peer).String() {
			continue
		}
		out := map[string]any{}
		for _, name := range []string{"nid", "names", "state", "dead", "checksum", "checksum_icmp", "update_form",
			"option_on", "encapsulation", "spread", "since"} {
			if out[name] = s[name]; s[name] == nil {
				h.w.t.Fatalf("the session shows no %s: %v", name, s)
			}
		}
		var locators []string
		for _, l := range s["locators"].([]any) {
			l := l.(map[string]any)
			locators = append(locators, fmt.Sprint(l["l64"])) // which are in use a move changes
		}
		slices.Sort(locators)
		out["locators"] = locators
		return out
	}
	h.w.t.Fatalf("no session with %s: %v", peer, list)
	return nil
}

// TestForgedForms floods a host with a live session by forged messages of every form, under
// both checksum rules, without nonces and with wrong ones, at half of what the machine can
// take: nothing is lost, nothing learned, and its correspondent's move works.
func TestForgedForms(t *testing.T) {
	w := newWorld(t, "forms", 2*time.Millisecond, place{"b", 2, true}, place{"a", 1, false})
	a := w.newHost("a", settings{accept: "known", hosts: w.hostsFile("b")}).start()
	b := w.newHost("b", settings{accept: "known", hosts: w.hostsFile("a")}).start()
	w.echo(t, "a", claimPort)
	stage := w.stage(t)
	b.becomes("net2")
	udp := w.udp(t, "b", "a", "a", 7000, 50)
	tcp := w.stream(t, "b", "tcp6", "a", claimPort)
	b.reaches("a", "established")
	a.reaches("b", "established")
	testutil.Eventually(t, patience, func() bool {
		return a.learned("b")["checksum_icmp"] != "sought" && b.learned("a")["checksum_icmp"] != "sought"
	}, "both ends know each other's rule")

	f := peergen.Forger{
		Random: rand.New(rand.NewPCG(6740, 6745)), Own: roam.ILV{L64: firstOffPath + 1, NID: 0x1000_0000_0000_0bad},
		Victims: []roam.ILV{roam.ILVFromAddr(w.wire("b", 1)), roam.ILVFromAddr(w.wire("b", 2))},
		Targets: []roam.ILV{roam.ILVFromAddr(w.wire("a", 1))}, Port: claimPort, UDPPort: 6740,
	}
	packets := make([][]byte, 1<<14)
	for i := range packets {
		p, err := f.Next()
		if err != nil {
			t.Fatal(err)
		}
		packets[i] = p
	}
	next := func(i int) []byte { return packets[i%len(packets)] }
	began, n := time.Now(), 0
	for ; time.Since(began) < 250*time.Millisecond; n++ {
		if err := stage.send(next(n)); err != nil {
			t.Fatal(err)
		}
	}
	most := float64(n) / time.Since(began).Seconds()

	atA, atB := a.learned("b"), b.learned("a")
	unchanged := func(when string) {
		t.Helper()
		if now := a.learned("b"); !reflect.DeepEqual(atA, now) {
			t.Errorf("%s, at a:\n%v\nand before:\n%v", when, now, atA)
		}
		if now := b.learned("a"); !reflect.DeepEqual(atB, now) {
			t.Errorf("%s, at b:\n%v\nand before:\n%v", when, now, atB)
		}
	}
	refused := total(a.counters())
	began = time.Now()
	stop := stage.start(most/2, next)
	lasts := func(d time.Duration) {
		testutil.Eventually(t, patience, func() bool { return time.Since(began) > d }, "the flood lasts")
	}
	lasts(forgedFor)
	unchanged("in the flood")
	b.roam("locator", "disable", "net1")
	b.roam("locator", "enable", "net1") // the newest leads
	b.becomes("net1")
	b.sendsFrom("a", "net1")
	tcp.goesOn(t, 50, patience)
	lasts(2 * forgedFor)
	sent := stop()
	lasted := time.Since(began).Seconds()
	unchanged("after the flood and a move")
	tcp.whole(t)
	w.lossless(t, udp, began)
	refused = total(a.counters()) - refused
	t.Logf("%d packets at %.0f a second, half of %.0f; %d refused", sent, float64(sent)/lasted, most, refused)
	if refused < uint64(sent)/4 {
		t.Errorf("%d of %d forged packets were refused", refused, sent)
	}
}
