package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"roam"
)

// RoleStatus is how one role of the daemon fares.
type RoleStatus struct {
	Name  string     `json:"name"`
	State string     `json:"state"`           // RoleRunning or RoleFailed
	Error string     `json:"error,omitempty"` // why it does not run, or what is amiss
	Do    string     `json:"do,omitempty"`    // what to do about that
	Facts []RoleFact `json:"facts,omitempty"` // what the role says of itself
}

// The states of a role.
const (
	RoleRunning = "running"
	RoleFailed  = "failed" // it could not start, or has ended early
)

// Runs reports whether the daemon has a role and that runs.
func (s Status) Runs(role string) bool {
	if len(s.Roles) == 0 {
		return role == hostRole
	}
	return slices.ContainsFunc(s.Roles, func(r RoleStatus) bool { return r.Name == role && r.State == RoleRunning })
}

// RunsHost reports whether the daemon is an ILNP host and that runs.
func (s Status) RunsHost() bool { return s.Runs(hostRole) }

// hostRole is the name of the role that a daemon has by default.
const hostRole = "host"

// FailedRole is how the warning begins that a role does not run.
func FailedRole(name string) string { return fmt.Sprintf("the role %q does not run", name) }

// FaultyRole is how the warning begins that something is amiss with a role that runs.
func FaultyRole(name string) string { return fmt.Sprintf("the role %q runs, but", name) }

// RoleFact is one line of a role's status.
type RoleFact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// RoleFinding is what a role adds to `roam doctor`.
type RoleFinding struct {
	Level string `json:"level"` // "ok", "note", "warning" or "fault"
	Text  string `json:"text"`  // a sentence
	Do    string `json:"do,omitempty"`
}

// RoleReport is all that a role says of itself beyond its counters.
type RoleReport struct {
	RoleStatus
	Findings []RoleFinding   `json:"findings"`
	Explain  []string        `json:"explain,omitempty"` // of the peer that was asked about
	Report   json.RawMessage `json:"report,omitempty"`  // the role's own form
}

// NoHost returns a Host that answers everything with err.
func NoHost(err error) Host { return noHost{err} }

type noHost struct{ err error }

func (n noHost) Locators(context.Context) ([]Locator, error) { return nil, n.err }

func (n noHost) EachSession(context.Context, func(Session) error) error { return n.err }

func (n noHost) Summary(context.Context) (Summary, error) { return Summary{}, n.err }

func (n noHost) Probe(context.Context, roam.NID) (Probed, error) { return Probed{}, n.err }

func (n noHost) Flows(context.Context, FlowRequest) ([]Flow, error) { return nil, n.err }

func (n noHost) SetMode(context.Context, Mode) error { return n.err }

func (n noHost) SetLinkEnabled(context.Context, string, bool) error { return n.err }

func (n noHost) Peers(context.Context) ([]KnownPeer, error) { return nil, n.err }

func (n noHost) AddPeer(context.Context, AddRequest) (Peer, error) { return Peer{}, n.err }

func (n noHost) RemovePeer(context.Context, RemoveRequest) (Removed, error) { return Removed{}, n.err }

func (n noHost) RenamePeer(context.Context, RenameRequest) (Peer, error) { return Peer{}, n.err }

func (n noHost) Export(context.Context) (Exported, error) { return Exported{}, n.err }
