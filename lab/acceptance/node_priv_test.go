package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"roam/internal/testutil"
	"roam/lab/topo"
)

// node is Roam on one host of a world.
type node struct {
	w      *world
	name   string
	host   *topo.Host
	config string
	log    string
	daemon *topo.Cmd
	ended  chan struct{}
}

// settings are the parts of a configuration that tests vary.
type settings struct {
	mode, accept string
	hosts        string // text of the hosts file; "": every host of the world
	nid          string // "": that of the host's name
	more         string // lines appended to the file
}

// newNode writes the files of a host.
func (w *world) newNode(name string, s settings) *node {
	w.t.Helper()
	h := w.hosts[name]
	n := &node{
		w: w, name: name, host: h, config: filepath.Join(h.Dir(), "roam.conf"),
		log: filepath.Join(w.dir, name+".roamd.log"),
	}
	n.write(s)
	w.nodes = append(w.nodes, n)
	return n
}

// write replaces configuration and hosts file.
func (n *node) write(s settings) {
	n.w.t.Helper()
	or := func(v, def string) string {
		if v == "" {
			return def
		}
		return v
	}
	dir := n.host.Dir()
	text := fmt.Sprintf(`[host]
nid = %q
mode = %q
accept = %q
run_dir = %q
state_dir = %q
hosts = %q
[dns]
listen = "127.0.0.53:53"
resolv_conf = %q
[literals]
cgroup = %q
%s`, or(s.nid, n.w.nid(n.name)), or(s.mode, "soft"), or(s.accept, "any"), n.runDir(), filepath.Join(dir, "state"),
		n.hostsPath(), n.host.ResolvConf(), n.host.Cgroup(), s.more)
	hosts := or(s.hosts, n.w.hostsFile(n.w.names()...))
	if err := errors.Join(os.WriteFile(n.config, []byte(text), 0o644), os.WriteFile(n.hostsPath(), []byte(hosts), 0o644)); err != nil {
		n.w.t.Fatal(err)
	}
}

func (n *node) runDir() string    { return filepath.Join(n.host.Dir(), "run") }
func (n *node) hostsPath() string { return filepath.Join(n.host.Dir(), "roam.hosts") }

// start starts the daemon and waits until it has an active locator.
func (n *node) start() *node {
	n.w.t.Helper()
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		n.w.t.Fatal(err)
	}
	defer log.Close()
	// The daemon outlives a subtest, so its context is that of the world.
	n.daemon = n.host.Command(n.w.top.Context(), roamdBin, "--config", n.config)
	n.daemon.Stdout, n.daemon.Stderr = log, log
	if err := n.daemon.Start(); err != nil {
		n.w.t.Fatal(err)
	}
	n.ended = make(chan struct{})
	go func(c *topo.Cmd, ended chan struct{}) { _ = c.Wait(); close(ended) }(n.daemon, n.ended)
	testutil.Eventually(n.w.t, patience, func() bool {
		return n.over() || slices.ContainsFunc(n.locators(), func(l locator) bool { return l.State == "active" })
	}, "roamd on "+n.name+" has an active locator")
	if n.over() {
		n.w.t.Fatalf("roamd on %s ended at once", n.name)
	}
	return n
}

func (n *node) over() bool {
	select {
	case <-n.ended:
		return true
	default:
		return false
	}
}

// signal ends the daemon by a signal and waits for its end.
func (n *node) signal(s syscall.Signal) {
	n.w.t.Helper()
	if err := n.daemon.Process.Signal(s); err != nil {
		n.w.t.Fatal(err)
	}
	testutil.Eventually(n.w.t, patience, n.over, "end of roamd on "+n.name)
}

// command runs the command line as a user would, and returns output, error
// output and error.
func (n *node) command(args ...string) (string, string, error) {
	ctx, cancel := context.WithTimeout(n.w.top.Context(), 30*time.Second)
	defer cancel()
	c := n.host.Command(ctx, append([]string{roamBin, "--config", n.config}, args...)...)
	var out, diag bytes.Buffer
	c.Stdout, c.Stderr = &out, &diag
	err := c.Run()
	return out.String(), diag.String(), err
}

// roam runs the command line and fails the test if that fails.
func (n *node) roam(args ...string) string {
	n.w.t.Helper()
	out, diag, err := n.command(args...)
	if err != nil {
		n.w.t.Fatalf("%s: roam %s: %v: %s", n.name, strings.Join(args, " "), err, diag)
	}
	return out
}

// ask is roam with --json; false while the daemon does not answer.
func (n *node) ask(into any, args ...string) bool {
	out, _, err := n.command(append([]string{"--json"}, args...)...)
	return err == nil && json.Unmarshal([]byte(out), into) == nil
}

type locator struct {
	Link     string `json:"link"`
	L64      string `json:"l64"`
	State    string `json:"state"`
	Disabled bool   `json:"disabled"`
}

func (n *node) locators() (list []locator) {
	n.ask(&list, "locator", "show")
	return list
}

// active lists the links with an active locator.
func (n *node) active() (links []string) {
	for _, l := range n.locators() {
		if l.State == "active" {
			links = append(links, l.Link)
		}
	}
	slices.Sort(links)
	return links
}

// becomes waits until exactly these links have an active locator.
func (n *node) becomes(links ...string) {
	n.w.t.Helper()
	testutil.Eventually(n.w.t, patience, func() bool { return slices.Equal(n.active(), links) },
		fmt.Sprintf("active locators of %s on %v only", n.name, links))
}

type path struct {
	Link   string `json:"link"`
	Local  string `json:"local"`
	Remote string `json:"remote"`
}

type session struct {
	NID       string    `json:"nid"`
	Address   string    `json:"address"`
	Names     []string  `json:"names"`
	State     string    `json:"state"`
	Dead      bool      `json:"dead"`
	Paths     []path    `json:"paths"`
	Since     time.Time `json:"since"`
	LastMove  time.Time `json:"last_move"`
	RxPackets uint64    `json:"rx_packets"`
	TxPackets uint64    `json:"tx_packets"`
	Locators  []struct {
		L64        string   `json:"l64"`
		Preference uint16   `json:"preference"`
		State      string   `json:"state"`
		LifetimeS  *float64 `json:"lifetime_s"`
		Proven     bool     `json:"proven"`
	} `json:"locators"`
}

func (n *node) sessions() (list []session) {
	n.ask(&list, "session", "show")
	return list
}

// with returns the session with a host, or an empty one.
func (n *node) with(peer string) session {
	for _, s := range n.sessions() {
		if slices.Contains(s.Names, peer) || s.Address == n.w.session(peer).String() {
			return s
		}
	}
	return session{}
}

// reaches waits until the session with a host has that state.
func (n *node) reaches(peer, state string) {
	n.w.t.Helper()
	testutil.Eventually(n.w.t, patience, func() bool { return n.with(peer).State == state },
		fmt.Sprintf("session of %s with %s is %s", n.name, peer, state))
}

// sendsFrom waits until what goes to a host leaves by exactly these links, and
// the host has been told and has proven it by sending there.
func (n *node) sendsFrom(peer string, links ...string) {
	n.w.t.Helper()
	testutil.Eventually(n.w.t, patience, func() bool {
		var have []string
		for _, p := range n.with(peer).Paths {
			if !slices.Contains(have, p.Link) {
				have = append(have, p.Link)
			}
		}
		slices.Sort(have)
		return slices.Equal(have, links)
	}, fmt.Sprintf("%s sends to %s by %v only", n.name, peer, links))
}

// counters returns all counters by name.
func (n *node) counters() map[string]uint64 {
	var list []struct {
		Name  string `json:"name"`
		Value uint64 `json:"value"`
	}
	n.ask(&list, "counter", "show")
	m := map[string]uint64{}
	for _, c := range list {
		m[c.Name] = c.Value
	}
	return m
}

type status struct {
	PID      int      `json:"pid"`
	State    string   `json:"state"`
	Warnings []string `json:"warnings"`
	NID      string   `json:"nid"`
	Mode     string   `json:"mode"`
	Plane    struct {
		Attach  string   `json:"attach"`
		Adopted bool     `json:"adopted"`
		Uplinks []string `json:"uplinks"`
	} `json:"plane"`
	DNS struct {
		Listen string `json:"listen"`
	} `json:"dns"`
}

// status returns how the daemon fares.
func (n *node) status() status {
	var s struct {
		Status status `json:"status"`
	}
	n.ask(&s)
	return s.Status
}
