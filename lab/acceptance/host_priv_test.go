package acceptance

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/node"
)

// host is Roam on one host of a world.
type host struct {
	*node.Node
	w    *world
	name string
}

// settings are the parts of a configuration that tests vary.
type settings struct {
	mode, accept string
	hosts        string   // text of the hosts file; "": every host of the world
	nid          roam.NID // 0: that of the host's name
	more         string   // lines appended to the file
}

// options are those of a node on a host, whose daemon points the host's
// applications to itself, as an installed one does.
func (w *world) options(name string, s settings) node.Options {
	return node.Options{
		NID: cmp.Or(s.nid, w.nid(name)), Mode: s.mode, Accept: s.accept, Hosts: cmp.Or(s.hosts, w.hostsFile(w.names()...)),
		More: s.more, OwnResolver: true, Log: filepath.Join(w.dir, name+".roamd.log"),
	}
}

// newHost writes the files of a host.
func (w *world) newHost(name string, s settings) *host {
	w.t.Helper()
	n, err := node.New(w.hosts[name], binaries, w.options(name, s))
	if err != nil {
		w.t.Fatal(err)
	}
	h := &host{Node: n, w: w, name: name}
	w.nodes = append(w.nodes, h)
	return h
}

// write replaces configuration and hosts file.
func (h *host) write(s settings) {
	h.w.t.Helper()
	if err := h.Write(h.w.options(h.name, s)); err != nil {
		h.w.t.Fatal(err)
	}
}

// start starts the daemon and waits until it has an active locator. The daemon outlives a
// subtest, so its context is that of the world.
func (h *host) start() *host {
	h.w.t.Helper()
	if err := h.Start(h.w.top.Context()); err != nil {
		h.w.t.Fatal(err)
	}
	testutil.Eventually(h.w.t, patience, func() bool { return h.Over() || len(h.active()) > 0 }, "roamd on "+h.name+
		" has an active locator")
	if h.Over() {
		h.w.t.Fatalf("roamd on %s ended at once", h.name)
	}
	return h
}

// signal ends the daemon by a signal and waits for its end.
func (h *host) signal(s syscall.Signal) {
	h.w.t.Helper()
	if err := h.Signal(h.w.top.Context(), s); err != nil {
		h.w.t.Fatal(err)
	}
}

// down removes Roam from the host, and waits for the end of the daemon.
func (h *host) down() {
	h.w.t.Helper()
	if err := h.Stop(h.w.top.Context()); err != nil {
		h.w.t.Fatal(err)
	}
}

// command runs the command line as a user would, and returns output, error
// output and error.
func (h *host) command(args ...string) (string, string, error) {
	ctx, cancel := context.WithTimeout(h.w.top.Context(), 30*time.Second)
	defer cancel()
	c := h.Cmd(ctx, args...)
	c.Env = append(c.Environ(), "COLUMNS=10000") // tests look for texts that a terminal's width would break
	var out, diag bytes.Buffer
	c.Stdout, c.Stderr = &out, &diag
	err := c.Run()
	return out.String(), diag.String(), err
}

// roam runs the command line and fails the test if that fails.
func (h *host) roam(args ...string) string {
	h.w.t.Helper()
	out, diag, err := h.command(args...)
	if err != nil {
		h.w.t.Fatalf("%s: roam %s: %v: %s", h.name, strings.Join(args, " "), err, diag)
	}
	return out
}

// locators are empty, as all that follows, while the daemon does not answer.
func (h *host) locators() []node.Locator {
	list, _ := h.Locators(h.w.top.Context())
	return list
}

// active lists the links with an active locator.
func (h *host) active() (links []string) {
	for _, l := range h.locators() {
		if l.State == "active" {
			links = append(links, l.Link)
		}
	}
	slices.Sort(links)
	return links
}

// becomes waits until exactly these links have an active locator.
func (h *host) becomes(links ...string) {
	h.w.t.Helper()
	testutil.Eventually(h.w.t, patience, func() bool { return slices.Equal(h.active(), links) },
		fmt.Sprintf("active locators of %s on %v only", h.name, links))
}

func (h *host) sessions() []node.Session {
	list, _ := h.Sessions(h.w.top.Context())
	return list
}

// with returns the session with a host, or an empty one.
func (h *host) with(peer string) node.Session {
	for _, s := range h.sessions() {
		if slices.Contains(s.Names, peer) || s.Address == h.w.session(peer) {
			return s
		}
	}
	return node.Session{}
}

// reaches waits until the session with a host has that state.
func (h *host) reaches(peer, state string) {
	h.w.t.Helper()
	testutil.Eventually(h.w.t, patience, func() bool { return h.with(peer).State == state },
		fmt.Sprintf("session of %s with %s is %s", h.name, peer, state))
}

// sendsFrom waits until what goes to a host leaves by exactly these links, and
// the host has been told and has validated it by sending there.
func (h *host) sendsFrom(peer string, links ...string) {
	h.w.t.Helper()
	testutil.Eventually(h.w.t, patience, func() bool {
		var have []string
		for _, p := range h.with(peer).Paths {
			if !slices.Contains(have, p.Link) {
				have = append(have, p.Link)
			}
		}
		slices.Sort(have)
		return slices.Equal(have, links)
	}, fmt.Sprintf("%s sends to %s by %v only", h.name, peer, links))
}

// counters returns all counters by name.
func (h *host) counters() map[string]uint64 {
	m, _ := h.Counts(h.w.top.Context())
	return m
}

// counter returns one counter. A name unknown to the daemon fails the test, since a counter
// that does not exist would read as zero.
func (h *host) counter(name string) uint64 {
	h.w.t.Helper()
	counts, err := h.Counts(h.w.top.Context())
	n, known := counts[name]
	if err != nil || !known {
		h.w.t.Fatalf("counter %s of %s: known %v, %v", name, h.name, known, err)
	}
	return n
}

// status returns how the daemon fares.
func (h *host) status() node.Status {
	s, _ := h.Status(h.w.top.Context())
	return s
}
