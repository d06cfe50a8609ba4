package acceptance

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/node"
)

// observed is one line of `roam observer show`.
type observed struct {
	Link, Direction, Protocol string
	Flags                     []string
	Packets, Bytes            uint64
}

// observed lists what a host's observer has counted.
func (h *host) observed() (list []observed) {
	h.w.t.Helper()
	if err := h.AskFor(h.w.top.Context(), &list, "observer", "show"); err != nil {
		h.w.t.Fatal(err)
	}
	return list
}

// updates returns how many Locator Updates and acknowledgements passed a link in one
// direction.
func (h *host) updates(link, direction string) (n uint64) {
	h.w.t.Helper()
	for _, o := range h.observed() {
		if o.Link == link && o.Direction == direction && slices.Contains(o.Flags, "locator-update") {
			if o.Protocol != "icmpv6" || !slices.Contains(o.Flags, "nonce") {
				h.w.t.Errorf("a Locator Update counts as %+v", o)
			}
			n += o.Packets
		}
	}
	return n
}

// echoes returns how many ICMPv6 messages with a nonce passed a link in one direction,
// Locator Updates left out.
func (h *host) echoes(link, direction string) (n uint64) {
	h.w.t.Helper()
	for _, o := range h.observed() {
		if o.Link == link && o.Direction == direction && o.Protocol == "icmpv6" && slices.Equal(o.Flags, []string{"nonce"}) {
			n += o.Packets
		}
	}
	return n
}

// router0 is a daemon on a router of the world, with the role observer alone.
func (w *world) router0(t *testing.T) *host {
	t.Helper()
	n, err := node.New(w.r0, binaries, w.options("r0", settings{nid: 1, hosts: "# nobody\n"}))
	if err != nil {
		t.Fatal(err)
	}
	conf := fmt.Sprintf("[host]\nrun_dir = %q\nstate_dir = %q\n[metrics]\nlisten = \"127.0.0.1:9643\"\n"+
		"[role]\nrun = [\"observer\"]\n", n.RunDir(), n.RunDir()+"-state")
	if err := os.WriteFile(n.Config, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	h := &host{Node: n, w: w, name: "r0"}
	w.nodes = append(w.nodes, h)
	return h
}

// TestObserver observes a host beside its own role, and the router that it moves at,
// which has no other role.
func TestObserver(t *testing.T) {
	needs(t, "curl", "ping")
	w := newWorld(t, "observer", 2*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	mn := w.newHost("mn", settings{more: "[role]\nrun = [\"host\", \"observer\"]\n"})
	r0 := w.router0(t)
	if err := r0.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	mn.start()
	w.newHost("cn", settings{}).start()
	w.cable("mn", "net2", false)
	mn.becomes("net1")
	for _, h := range []*host{mn, r0} {
		if err := h.Monitor(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	w.must("mn", "ping", "-n", "-c", "3", "-i", "0.05", w.session("cn").String())
	w.sub("a move, on the host and on the router", func(t *testing.T) { observedMove(t, w, mn, r0) })
	w.sub("links", func(t *testing.T) { observedLinks(t, mn, r0) })
	w.sub("metrics", func(t *testing.T) {
		page := w.must("r0", "curl", "-s", "http://127.0.0.1:9643/metrics")
		line := regexp.MustCompile(`(?m)^roam_observer_packets_total\{link="core",direction="out",protocol="icmpv6",` +
			`flags="nonce,locator-update",checksum="none"\} [1-9]`)
		if !line.MatchString(page) {
			t.Errorf("no Locator Updates in\n%s", page)
		}
	})
	w.sub("a restart goes on counting", func(t *testing.T) { observedRestart(t, w, r0) })
	w.sub("a link that appears later", func(t *testing.T) {
		w.must("r0", "ip", "link", "add", "late", "type", "veth", "peer", "name", "later")
		defer w.must("r0", "ip", "link", "del", "late")
		w.must("r0", "ip", "link", "set", "later", "up")
		w.must("r0", "ip", "link", "set", "late", "up")
		testutil.Eventually(t, patience, func() bool {
			return slices.ContainsFunc(r0.observed(), func(o observed) bool { return o.Link == "late" })
		}, "its packets are counted")
	})
	w.sub("a link that is gone is forgotten", func(t *testing.T) {
		testutil.Eventually(t, patience, func() bool {
			return !slices.ContainsFunc(r0.observed(), func(o observed) bool {
				return o.Link == "" || strings.HasPrefix(o.Link, "late")
			})
		}, "its counts are gone")
	})
	w.sub("down removes it", func(t *testing.T) {
		for _, h := range []*host{r0, mn} {
			h.down()
			unmounted(t, h) // so nothing is pinned, and programs without pins are gone
		}
	})
}

// observedMove moves the host and compares what both observers saw of it.
func observedMove(t *testing.T, w *world, mn, r0 *host) {
	if n := mn.updates("net2", "out"); n != 0 {
		t.Errorf("%d updates before the move", n)
	}
	w.cable("mn", "net2", true)
	w.cable("mn", "net1", false)
	mn.becomes("net2")
	var sent, came uint64
	if !testutil.Wait(patience, func() bool {
		sent, came = mn.updates("net2", "out"), r0.updates("mn2", "in")
		return sent > 0 && sent == came && r0.updates("core", "out") >= came && mn.updates("net2", "in") > 0
	}) {
		t.Errorf("%d updates left the host, %d came to the router", sent, came)
	}
	for h, want := range map[*host]string{mn: "out on net2", r0: "in on mn2"} {
		testutil.Eventually(t, patience, func() bool {
			return slices.ContainsFunc(h.Events(), func(e node.Event) bool {
				return e.Kind == "update-seen" && e.Reason == want
			})
		}, h.name+" reports the first Locator Update "+want)
	}
}

// observedLinks wants every link but lo and Roam's own.
func observedLinks(t *testing.T, mn, r0 *host) {
	for h, want := range map[*host][]string{mn: {"net1", "net2"}, r0: {"core", "mn1", "mn2"}} {
		var links []string
		for _, o := range h.observed() {
			if o.Link != "" && !slices.Contains(links, o.Link) {
				links = append(links, o.Link)
			}
		}
		slices.Sort(links)
		programs := strings.Count(h.w.must(h.name, "ls", h.RunDir()+"/bpf/observer"), "link_")
		if !slices.Equal(links, want) || programs > 0 && programs != 2*len(want) { // clsact has no pins of links
			t.Errorf("%s observes %v, want %v, by %d programs", h.name, links, want, programs)
		}
	}
}

// observedRestart kills the daemon of a router: packets are counted meanwhile.
func observedRestart(t *testing.T, w *world, r0 *host) {
	was := r0.updates("mn2", "in")
	pings := r0.echoes("mn2", "in")
	r0.signal(syscall.SIGKILL)
	w.must("mn", "ping", "-n", "-c", "5", "-i", "0.05", w.session("cn").String())
	if err := r0.Start(w.top.Context()); err != nil {
		t.Fatal(err)
	}
	if now := r0.echoes("mn2", "in"); now < pings+5 {
		t.Errorf("%d echo messages with nonce before the daemon was killed, %d after five more", pings, now)
	}
	if now := r0.updates("mn2", "in"); now < was {
		t.Errorf("%d updates, %d before the restart", now, was)
	}
}
