// Package node runs Roam on a host of the lab as a user would: the real roamd with a
// configuration of its own, controlled through the real roam.
//
// It omits operations that a user cannot do: it reads no map and no state file. It is
// driven by experiments and benchmarks.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"roam"
	"roam/lab/topo"
)

// Resolver is the address on which each node's daemon answers names. Loopback addresses are
// per host, so all nodes share it.
var Resolver = netip.MustParseAddr("127.0.0.54")

// patience bounds each wait for a daemon.
const patience = 20 * time.Second

// Options are the settings of one node.
type Options struct {
	NID         roam.NID
	FromAddress bool   // the NID is that of an address of the host; NID is ignored
	Mode        string // "soft" if empty
	Accept      string // "any" if empty
	Hosts       string // text of the hosts file
	More        string // lines appended to the configuration, with their section
	// OwnResolver leaves resolv.conf to the daemon, which is its default. Otherwise New
	// points the host's applications to the daemon permanently.
	OwnResolver bool
	Log         string // path of the daemon's log; in the host's directory if empty
}

// Node is Roam on one host.
type Node struct {
	Host   *topo.Host
	Config string // path of roam.conf
	Log    string // path of the daemon's log

	bin    Binaries
	daemon *topo.Cmd
	ended  chan struct{}

	mu     sync.Mutex
	events []Event
}

// New writes the files of a node, see Write.
func New(h *topo.Host, bin Binaries, o Options) (*Node, error) {
	n := &Node{Host: h, Config: filepath.Join(h.Dir(), "roam.conf"), Log: o.Log, bin: bin}
	if n.Log == "" {
		n.Log = filepath.Join(h.Dir(), "roamd.log")
	}
	if err := n.Write(o); err != nil || o.OwnResolver {
		return n, err
	}
	return n, h.SetResolver(Resolver)
}

// Use has the daemon run by another build from its next start on, and the command line at once.
func (n *Node) Use(bin Binaries) { n.bin = bin }

// RunDir is the daemon's run directory, which the daemon creates.
func (n *Node) RunDir() string { return filepath.Join(n.Host.Dir(), "run") }

// stateDir is the directory that survives a reboot.
func (n *Node) stateDir() string { return filepath.Join(n.Host.Dir(), "state") }

// Reboot removes the files that a reboot removes. The daemon must be down.
func (n *Node) Reboot() error { return os.RemoveAll(n.RunDir()) }

// LoseSessions removes both files in which a daemon keeps its sessions.
func (n *Node) LoseSessions() error {
	var errs []error
	for _, dir := range []string{n.RunDir(), n.stateDir()} {
		if err := os.Remove(filepath.Join(dir, "sessions")); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Forget is Reboot of a host that has lost the record of its sessions, too.
func (n *Node) Forget() error { return errors.Join(n.LoseSessions(), n.Reboot()) }

// Hosts is the path of the hosts file.
func (n *Node) Hosts() string { return filepath.Join(n.Host.Dir(), "roam.hosts") }

// Write rewrites configuration and hosts file; the log keeps its place. A running daemon
// reads them on reload or at its next start.
func (n *Node) Write(o Options) error {
	nid, resolv := o.NID.String(), filepath.Join(n.Host.Dir(), "upstream.conf")
	if o.FromAddress {
		nid = "from-address"
	}
	files := map[string]string{n.Hosts(): o.Hosts}
	if o.OwnResolver {
		resolv = n.Host.ResolvConf()
	} else {
		files[resolv] = "" // the daemon's is the only server
	}
	files[n.Config] = fmt.Sprintf(`[host]
nid = %q
mode = %q
accept = %q
run_dir = %q
state_dir = %q
hosts = %q
[dns]
listen = "%s:53"
manage_resolv_conf = %t
resolv_conf = %q
[literals]
cgroup = %q
%s`, nid, cmp.Or(o.Mode, "soft"), cmp.Or(o.Accept, "any"), n.RunDir(), n.stateDir(), n.Hosts(),
		Resolver, o.OwnResolver, resolv, n.Host.Cgroup(), o.More)
	for file, content := range files {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			return fmt.Errorf("configure %s: %w", n.Host.Name(), err)
		}
	}
	return nil
}

// Start starts the daemon and waits until it answers. The daemon lives no
// longer than ctx.
func (n *Node) Start(ctx context.Context) error {
	log, err := os.OpenFile(n.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
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
	err = topo.WaitSparing(wctx, "roamd on "+n.Host.Name(), func() bool {
		_, err := n.Ask(wctx)
		return err == nil || n.Over()
	})
	if err == nil && n.Over() {
		err = errors.New("it ended")
	}
	if err != nil {
		return fmt.Errorf("start roamd on %s: %w; it said: %s", n.Host.Name(), err, n.tail())
	}
	return nil
}

// Over reports whether a daemon that Start started has ended.
func (n *Node) Over() bool {
	select {
	case <-n.ended:
		return true
	default:
		return false
	}
}

// tail returns the end of the daemon's log.
func (n *Node) tail() string {
	b, err := os.ReadFile(n.Log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-1500):]))
}

// Signal sends the daemon a signal and waits until it has ended.
func (n *Node) Signal(ctx context.Context, s syscall.Signal) error {
	if err := n.daemon.Process.Signal(s); err != nil {
		return fmt.Errorf("send %v to roamd on %s: %w", s, n.Host.Name(), err)
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
	return topo.Wait(ctx, "roamd to end on "+n.Host.Name(), n.Over)
}
