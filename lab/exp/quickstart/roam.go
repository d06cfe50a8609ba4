package quickstart

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"roam"
	"roam/lab/exp"
	"roam/lab/topo"
)

// nids are the hosts' Node Identifiers: fixed, so that runs can be compared.
var nids = map[string]roam.NID{
	"mn":  0x1000_0000_0000_00a1,
	"cn1": 0x1000_0000_0000_00c1,
	"cn2": 0x1000_0000_0000_00c2,
}

// resolver is where the daemon answers names.
var resolver = netip.MustParseAddr("127.0.0.54")

// event is a line of `roam monitor --json`.
type event struct {
	Time       time.Time     `json:"time"`
	Kind       string        `json:"kind"`
	PeerName   string        `json:"peer_name"`
	From       []linkLocator `json:"from"`
	To         []linkLocator `json:"to"`
	RTTMs      float64       `json:"rtt_ms"`
	DurationMs float64       `json:"duration_ms"`
	Reason     string        `json:"reason"`
}

type linkLocator struct {
	Link string   `json:"link"`
	L64  roam.L64 `json:"l64"`
}

// node is Roam on one host.
type node struct {
	host         *topo.Host
	roam, config string
	daemon       *topo.Cmd
	log          *os.File
	ended        chan struct{}

	mu     sync.Mutex
	events []event
	heard  func(event)
}

// hostsFile names every host of the lab, as an administrator would: the
// correspondents with their locators, the mobile host without, since it moves.
func hostsFile() string {
	var b strings.Builder
	for i, name := range []string{"cn1", "cn2"} {
		v := roam.ILVFromAddr(cnPrefix(i).Addr())
		v.NID = nids[name]
		fmt.Fprintf(&b, "%s %s\n", v, name)
	}
	return b.String()
}

// config writes the files of a host and returns the path of its roam.conf.
func config(h *topo.Host) (string, error) {
	dir := h.Dir()
	text := fmt.Sprintf(`[host]
nid = %q
mode = "soft"
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
`, nids[h.Name()], filepath.Join(dir, "run"), filepath.Join(dir, "state"), filepath.Join(dir, "roam.hosts"), resolver, filepath.Join(dir, "upstream.conf"), h.Cgroup())
	path := filepath.Join(dir, "roam.conf")
	for file, content := range map[string]string{path: text, filepath.Join(dir, "roam.hosts"): hostsFile(), filepath.Join(dir, "upstream.conf"): ""} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			return "", fmt.Errorf("configure %s: %w", h.Name(), err)
		}
	}
	return path, h.SetResolver(resolver)
}

// startNode starts the daemon on a host and waits until it answers.
func startNode(ctx context.Context, env *exp.Env, h *topo.Host) (*node, error) {
	path, err := config(h)
	if err != nil {
		return nil, err
	}
	n := &node{host: h, roam: env.Roam, config: path, ended: make(chan struct{})}
	logPath := filepath.Join(env.Dir, h.Name()+".roamd.log")
	if n.log, err = os.Create(logPath); err != nil {
		return nil, fmt.Errorf("create log of daemon: %w", err)
	}
	n.daemon = h.Command(ctx, env.Roamd, "--config", path)
	n.daemon.Stdout, n.daemon.Stderr = n.log, n.log
	if err := n.daemon.Start(); err != nil {
		return nil, fmt.Errorf("start roamd on %s: %w", h.Name(), err)
	}
	go func() { _ = n.daemon.Wait(); close(n.ended) }()
	wctx, cancel := context.WithTimeout(ctx, setupWithin)
	defer cancel()
	err = topo.Wait(wctx, "roamd on "+h.Name(), func() bool {
		_, err := n.ask(wctx)
		return err == nil || n.over()
	})
	if err == nil && n.over() {
		err = errors.New("it ended")
	}
	if err != nil {
		return nil, fmt.Errorf("start roamd on %s: %w; it said: %s", h.Name(), err, tail(logPath))
	}
	return n, nil
}

func (n *node) over() bool {
	select {
	case <-n.ended:
		return true
	default:
		return false
	}
}

// ask runs the command line with --json and returns what it printed.
func (n *node) ask(ctx context.Context, args ...string) ([]byte, error) {
	argv := append([]string{n.roam, "--config", n.config, "--json"}, args...)
	out, err := n.host.Command(ctx, argv...).Output()
	if err != nil {
		return nil, fmt.Errorf("roam %s on %s: %w", strings.Join(args, " "), n.host.Name(), err)
	}
	return out, nil
}

// hasLocator reports whether the host has an active locator on the link.
func (n *node) hasLocator(ctx context.Context, link string) bool {
	list, err := n.locators(ctx)
	if err != nil {
		return false
	}
	for _, l := range list {
		if l.Link == link && l.State == "active" {
			return true
		}
	}
	return false
}

// locator is one entry of `roam locator show --json`.
type locator struct {
	Link  string   `json:"link"`
	L64   roam.L64 `json:"l64"`
	State string   `json:"state"`
}

func (n *node) locators(ctx context.Context) (list []locator, err error) {
	b, err := n.ask(ctx, "locator", "show")
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("read locators: %w", err)
	}
	return list, nil
}

// established counts the correspondents with an established session.
func (n *node) established(ctx context.Context) (count int, err error) {
	var list []struct {
		State string `json:"state"`
	}
	b, err := n.ask(ctx, "session", "show")
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err != nil {
		return 0, fmt.Errorf("read sessions: %w", err)
	}
	for _, s := range list {
		if s.State == "established" {
			count++
		}
	}
	return count, nil
}

// counter is one entry of `roam counter show --json`.
type counter struct {
	Name    string `json:"name"`
	Meaning string `json:"meaning"`
	Value   uint64 `json:"value"`
}

func (n *node) counters(ctx context.Context) (list []counter, err error) {
	b, err := n.ask(ctx, "counter", "show")
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	return list, nil
}

// monitor follows the daemon's events until ctx ends; heard is called with
// each of them.
func (n *node) monitor(ctx context.Context, heard func(event)) error {
	cmd := n.host.Command(ctx, n.roam, "--config", n.config, "--json", "monitor")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("open output of monitor: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start monitor: %w", err)
	}
	n.heard = heard
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			var e event
			if json.Unmarshal(s.Bytes(), &e) == nil {
				n.take(e)
			}
		}
		_ = cmd.Wait()
	}()
	return nil
}

func (n *node) take(e event) {
	n.mu.Lock()
	n.events = append(n.events, e)
	n.mu.Unlock()
	if n.heard != nil {
		n.heard(e)
	}
}

// all returns the events so far.
func (n *node) all() []event {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]event(nil), n.events...)
}

// stop removes Roam from the host as a user would and waits for the daemon.
func (n *node) stop(ctx context.Context) error {
	_, err := n.ask(ctx, "down")
	if err != nil {
		_ = n.daemon.Process.Signal(syscall.SIGTERM)
	}
	wctx, cancel := context.WithTimeout(ctx, setupWithin)
	defer cancel()
	return errors.Join(err, topo.Wait(wctx, "roamd to end on "+n.host.Name(), n.over))
}

// tail returns the end of a daemon's log.
func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-1500):]))
}
