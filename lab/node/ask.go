package node

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"roam"
	"roam/lab/topo"
)

// Status is the daemon's part of `roam --json`.
type Status struct {
	PID            int        `json:"pid"`
	Version        string     `json:"version"`
	State          string     `json:"state"` // running, degraded or stopping
	Warnings       []string   `json:"warnings"`
	NID            roam.NID   `json:"nid"`
	Mode           string     `json:"mode"`
	SessionAddress netip.Addr `json:"session_address"`
	Plane          struct {
		Attach  string   `json:"attach"`  // tcx or clsact
		Adopted bool     `json:"adopted"` // taken over from an earlier daemon
		Uplinks []string `json:"uplinks"`
	} `json:"plane"`
}

// Locator is one entry of `roam locator show --json`.
type Locator struct {
	Link  string   `json:"link"`
	L64   roam.L64 `json:"l64"`
	State string   `json:"state"`
}

// Session is one entry of `roam session show --json`; roam(8) has the values.
type Session struct {
	NID           roam.NID      `json:"nid"`
	Address       netip.Addr    `json:"address"` // by which applications know it
	Names         []string      `json:"names"`
	State         string        `json:"state"`
	Dead          bool          `json:"dead"`
	Locators      []PeerLocator `json:"locators"`
	Paths         []SessionPath `json:"paths"`
	InUse         *Path         `json:"in_use"` // nil: none yet
	RTTMs         float64       `json:"rtt_ms"`
	Since         time.Time     `json:"since"`
	OptionOn      string        `json:"option_on"`
	Encapsulation string        `json:"encapsulation"`
	Spread        string        `json:"spread"`
	Proof         string        `json:"proof"`
	Proved        bool          `json:"proved"`
	MoveMs        float64       `json:"last_move_ms"`
	TxPackets     uint64        `json:"tx_packets"`
	RxPackets     uint64        `json:"rx_packets"`
}

// PeerLocator is a locator of a correspondent.
type PeerLocator struct {
	L64       roam.L64 `json:"l64"`
	State     string   `json:"state"`
	Validated bool     `json:"validated"`
}

// Path is a pair of locators on a link.
type Path struct {
	Link   string   `json:"link"`
	Local  roam.L64 `json:"local"`
	Remote roam.L64 `json:"remote"`
}

// SessionPath is a path that a session uses.
type SessionPath struct {
	Path
	RTTMs float64 `json:"rtt_ms"` // 0: unknown
	Share float64 `json:"share"`  // of the bytes that are spread by packet
	Long  bool    `json:"long"`
}

// Counter is one entry of `roam counter show --json`.
type Counter struct {
	Name    string `json:"name"`
	Meaning string `json:"meaning"`
	Value   uint64 `json:"value"`
}

// Event is one line of `roam monitor --json`.
type Event struct {
	Time         time.Time     `json:"time"`
	Kind         string        `json:"kind"`
	PeerName     string        `json:"peer_name"`
	From         []LinkLocator `json:"from"`
	To           []LinkLocator `json:"to"`
	RTTMs        float64       `json:"rtt_ms"`
	DurationMs   float64       `json:"duration_ms"`
	Reason       string        `json:"reason"`
	Encapsulated bool          `json:"encapsulated"` // UDP encapsulation carried the acknowledgement
}

// LinkLocator is a locator with the name of its link.
type LinkLocator struct {
	Link string   `json:"link"`
	L64  roam.L64 `json:"l64"`
}

// Cmd returns the command line of roam on the host, as a user types it, without starting
// it.
func (n *Node) Cmd(ctx context.Context, args ...string) *topo.Cmd {
	return n.Host.Command(ctx, append([]string{n.bin.Roam, "--config", n.Config}, args...)...)
}

// Ask runs `roam --json` with args and returns its output. It waits for 30 s at most.
func (n *Node) Ask(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := n.Cmd(ctx, append([]string{"--json"}, args...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("roam %s on %s: %w", strings.Join(args, " "), n.Host.Name(), err)
	}
	return out, nil
}

// AskFor is Ask with the answer decoded into v.
func (n *Node) AskFor(ctx context.Context, v any, args ...string) error {
	b, err := n.Ask(ctx, args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("roam %s on %s: %w", strings.Join(args, " "), n.Host.Name(), err)
	}
	return nil
}

// Status returns the daemon's status.
func (n *Node) Status(ctx context.Context) (Status, error) {
	var all struct {
		Status Status `json:"status"`
	}
	err := n.AskFor(ctx, &all)
	return all.Status, err
}

// Locators lists the host's locators.
func (n *Node) Locators(ctx context.Context) (list []Locator, err error) {
	err = n.AskFor(ctx, &list, "locator", "show")
	return list, err
}

// Sessions lists the host's correspondents, including those without a session.
func (n *Node) Sessions(ctx context.Context) (list []Session, err error) {
	err = n.AskFor(ctx, &list, "session", "show")
	return list, err
}

// Established counts the correspondents with an established session.
func (n *Node) Established(ctx context.Context) (count int, err error) {
	list, err := n.Sessions(ctx)
	for _, s := range list {
		if s.State == "established" {
			count++
		}
	}
	return count, err
}

// Keyed counts the established sessions that are keyed.
func (n *Node) Keyed(ctx context.Context) (count int, err error) {
	list, err := n.Sessions(ctx)
	for _, s := range list {
		if s.State == "established" && s.Proved && s.Proof == "keyed" {
			count++
		}
	}
	return count, err
}

// Counters lists the counters of the data plane and the daemon.
func (n *Node) Counters(ctx context.Context) (list []Counter, err error) {
	err = n.AskFor(ctx, &list, "counter", "show")
	return list, err
}

// Counts returns the Counters by name; a missing name means a missing counter.
func (n *Node) Counts(ctx context.Context) (map[string]uint64, error) {
	list, err := n.Counters(ctx)
	m := make(map[string]uint64, len(list))
	for _, c := range list {
		m[c.Name] = c.Value
	}
	return m, err
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
	return topo.WaitSparing(ctx, fmt.Sprintf("locators of %s on %v, %s", n.Host.Name(), links,
		strings.Join(states, " or ")), func() bool {
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

// Monitor follows the daemon's events until ctx ends, and calls heard, if not nil, with
// each.
func (n *Node) Monitor(ctx context.Context, heard func(Event)) error {
	cmd := n.Cmd(ctx, "--json", "monitor")
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

// Events returns the events of Monitor so far.
func (n *Node) Events() []Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]Event(nil), n.events...)
}
