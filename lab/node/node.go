// Package node runs Roam on a host of the lab, as a user would: the real roamd
// with a configuration of its own, asked and steered through the real roam.
//
// It omits everything that a user could not do: it reads no map and no state
// file. Experiments and benchmarks drive it.
package node

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"roam"
	"roam/lab/topo"
)

// Resolver is where every node's daemon answers names: loopback addresses are
// each host's own.
var Resolver = netip.MustParseAddr("127.0.0.54")

// patience bounds each wait for a daemon.
const patience = 20 * time.Second

// Binaries are the programs under test.
type Binaries struct {
	Roam, Roamd string // paths
}

// Options are the settings of one node.
type Options struct {
	NID   roam.NID
	Mode  string // "soft" if empty
	Hosts string // text of the hosts file
	More  string // lines appended to the configuration, with their section
	Log   string // path of the daemon's log; in the host's directory if empty
}

// Node is Roam on one host.
type Node struct {
	Host   *topo.Host
	Config string // path of roam.conf

	bin     Binaries
	logPath string
	daemon  *topo.Cmd
	ended   chan struct{}

	mu     sync.Mutex
	events []Event
}

// Event is one line of `roam monitor --json`.
type Event struct {
	Time       time.Time     `json:"time"`
	Kind       string        `json:"kind"`
	PeerName   string        `json:"peer_name"`
	From       []LinkLocator `json:"from"`
	To         []LinkLocator `json:"to"`
	RTTMs      float64       `json:"rtt_ms"`
	DurationMs float64       `json:"duration_ms"`
	Reason     string        `json:"reason"`
	Carried    bool          `json:"carried"` // the acknowledgement came in UDP
}

// LinkLocator is a locator with the name of its link.
type LinkLocator struct {
	Link string   `json:"link"`
	L64  roam.L64 `json:"l64"`
}

// Locator is one entry of `roam locator show --json`.
type Locator struct {
	Link  string   `json:"link"`
	L64   roam.L64 `json:"l64"`
	State string   `json:"state"`
}

// New writes the files of a node. Applications on the host ask its daemon for
// names from now on.
func New(h *topo.Host, bin Binaries, o Options) (*Node, error) {
	dir := h.Dir()
	if o.Mode == "" {
		o.Mode = "soft"
	}
	if o.Log == "" {
		o.Log = filepath.Join(dir, "roamd.log")
	}
	n := &Node{Host: h, Config: filepath.Join(dir, "roam.conf"), bin: bin, logPath: o.Log}
	text := fmt.Sprintf(`[host]
nid = %q
mode = %q
accept = "any"
run_dir = %q
state_dir = %q
hosts = %q
[dns]
listen = "%s:53"
upstream = []
manage_resolv_conf = false
resolv_conf = %q
[literals]
cgroup = %q
%s`, o.NID, o.Mode, filepath.Join(dir, "run"), filepath.Join(dir, "state"), filepath.Join(dir, "roam.hosts"), Resolver,
		filepath.Join(dir, "upstream.conf"), h.Cgroup(), o.More)
	for file, content := range map[string]string{n.Config: text, filepath.Join(dir, "roam.hosts"): o.Hosts, filepath.Join(dir, "upstream.conf"): ""} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			return nil, fmt.Errorf("configure %s: %w", h.Name(), err)
		}
	}
	return n, h.SetResolver(Resolver)
}

// Start starts the daemon and waits until it answers. The daemon lives no
// longer than ctx.
func (n *Node) Start(ctx context.Context) error {
	log, err := os.OpenFile(n.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open log of daemon: %w", err)
	}
	defer log.Close()
	n.daemon = n.Host.Command(ctx, n.bin.Roamd, "--config", n.Config)
	n.daemon.Stdout, n.daemon.Stderr = log, log
	if err := n.daemon.Start(); err != nil {
		return fmt.Errorf("start roamd on %s: %w", n.Host.Name(), err)
	}
	n.ended = make(chan struct{})
	go func(c *topo.Cmd, ended chan struct{}) { _ = c.Wait(); close(ended) }(n.daemon, n.ended)
	wctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = topo.Wait(wctx, "roamd on "+n.Host.Name(), func() bool {
		_, err := n.Ask(wctx)
		return err == nil || n.over()
	})
	if err == nil && n.over() {
		err = errors.New("it ended")
	}
	if err != nil {
		return fmt.Errorf("start roamd on %s: %w; it said: %s", n.Host.Name(), err, n.tail())
	}
	return nil
}

func (n *Node) over() bool {
	select {
	case <-n.ended:
		return true
	default:
		return false
	}
}

// tail returns the end of the daemon's log.
func (n *Node) tail() string {
	b, err := os.ReadFile(n.logPath)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-1500):]))
}

// Ask runs `roam --json` with args and returns what it printed.
func (n *Node) Ask(ctx context.Context, args ...string) ([]byte, error) {
	argv := append([]string{n.bin.Roam, "--config", n.Config, "--json"}, args...)
	out, err := n.Host.Command(ctx, argv...).Output()
	if err != nil {
		return nil, fmt.Errorf("roam %s on %s: %w", strings.Join(args, " "), n.Host.Name(), err)
	}
	return out, nil
}

// ask is Ask with its answer decoded into v.
func (n *Node) ask(ctx context.Context, v any, args ...string) error {
	b, err := n.Ask(ctx, args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("roam %s on %s: %w", strings.Join(args, " "), n.Host.Name(), err)
	}
	return nil
}

// Locators lists the host's locators.
func (n *Node) Locators(ctx context.Context) (list []Locator, err error) {
	err = n.ask(ctx, &list, "locator", "show")
	return list, err
}

// Counter is one entry of `roam counter show --json`.
type Counter struct {
	Name    string `json:"name"`
	Meaning string `json:"meaning"`
	Value   uint64 `json:"value"`
}

// Counters lists what the data plane and the daemon have counted.
func (n *Node) Counters(ctx context.Context) (list []Counter, err error) {
	err = n.ask(ctx, &list, "counter", "show")
	return list, err
}

// WaitActive waits until the host has an active locator on each of the links.
func (n *Node) WaitActive(ctx context.Context, links ...string) error {
	return n.waitLocators(ctx, links, "active")
}

// WaitUsable waits until the host has a locator on each of the links that it uses
// or could use.
func (n *Node) WaitUsable(ctx context.Context, links ...string) error {
	return n.waitLocators(ctx, links, "active", "valid")
}

func (n *Node) waitLocators(ctx context.Context, links []string, states ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return topo.Wait(ctx, fmt.Sprintf("locators of %s on %v, %s", n.Host.Name(), links, strings.Join(states, " or ")), func() bool {
		list, err := n.Locators(ctx)
		if err != nil {
			return false
		}
		there := make(map[string]bool)
		for _, l := range list {
			there[l.Link] = there[l.Link] || slices.Contains(states, l.State)
		}
		for _, l := range links {
			if !there[l] {
				return false
			}
		}
		return true
	})
}

// Established counts the correspondents with an established session.
func (n *Node) Established(ctx context.Context) (count int, err error) {
	var list []struct {
		State string `json:"state"`
	}
	if err := n.ask(ctx, &list, "session", "show"); err != nil {
		return 0, err
	}
	for _, s := range list {
		if s.State == "established" {
			count++
		}
	}
	return count, nil
}

// Monitor follows the daemon's events until ctx ends; heard, if not nil, is
// called with each of them.
func (n *Node) Monitor(ctx context.Context, heard func(Event)) error {
	cmd := n.Host.Command(ctx, n.bin.Roam, "--config", n.Config, "--json", "monitor")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("open output of monitor: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start monitor: %w", err)
	}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			var e Event
			if json.Unmarshal(s.Bytes(), &e) != nil {
				continue
			}
			n.mu.Lock()
			n.events = append(n.events, e)
			n.mu.Unlock()
			if heard != nil {
				heard(e)
			}
		}
		_ = cmd.Wait()
	}()
	return nil
}

// Events returns what Monitor has heard so far.
func (n *Node) Events() []Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]Event(nil), n.events...)
}

// Kill ends the daemon with kill -9 and waits until it is gone.
func (n *Node) Kill(ctx context.Context) error {
	if err := n.daemon.Process.Kill(); err != nil {
		return fmt.Errorf("kill roamd on %s: %w", n.Host.Name(), err)
	}
	return n.waitOver(ctx)
}

// Stop removes Roam from the host as a user would, and waits for the daemon.
func (n *Node) Stop(ctx context.Context) error {
	_, err := n.Ask(ctx, "down")
	if err != nil {
		_ = n.daemon.Process.Signal(syscall.SIGTERM)
	}
	return errors.Join(err, n.waitOver(ctx))
}

func (n *Node) waitOver(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return topo.Wait(ctx, "roamd to end on "+n.Host.Name(), n.over)
}
