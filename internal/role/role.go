package role

import (
	"context"
	"io"
	"log/slog"
	"time"

	"roam"
	"roam/internal/config"
	"roam/internal/control"
)

// Role is one role of a running daemon. The daemon calls Start, then Run in a
// goroutine of its own, and Close at the end, also after a Start that failed.
// Every other method may be called from several goroutines at once, between the
// return of Start and the call of Close.
//
// A role has at least these methods; what it has nothing to say to, it takes
// from Silent.
type Role interface {
	// Start prepares the host and the kernel. Its error says why the role cannot
	// start; a *control.Error says with its hint what to do, and has
	// CodeUnsupported where the kernel lacks a feature. Start changes nothing on
	// the host before it knows that it can succeed, as far as that can be known.
	Start(ctx context.Context) error
	// Run works until ctx is done, and returns nil then. Any earlier return ends
	// the role; its error says why. The other roles run on.
	Run(ctx context.Context) error
	// Close lets go of everything. Programs, their maps and changes to the host
	// stay for the next daemon; Kind.Restore removes them.
	Close() error
	// Check refuses what Reload would refuse of next, and changes nothing. Before any
	// role reloads, each has been asked.
	Check(next config.Config) error
	// Reload makes the keys of next effective that need no restart. next is the
	// configuration in force from now on: keys that wait for a restart have their
	// old values in it. A role that refuses has changed nothing. Only the first role
	// may refuse what its Check has let pass: the others would be left behind.
	Reload(ctx context.Context, next config.Config) error

	// Status adds the role's part to `roam status`: own is its entry in s.Roles,
	// with the name and the state filled in. Only the host writes to s itself.
	Status(ctx context.Context, s *control.Status, own *control.RoleStatus) error
	// Counters lists the role's counters, zero or not, in a stable order. Those
	// of every role but the host begin with its name and "_".
	Counters(ctx context.Context) ([]control.Counter, error)
	// Metrics writes the role's metrics for Prometheus; package metrics has the
	// writers. Names begin with "roam_" and, except the host's, the role's name.
	Metrics(ctx context.Context, w io.Writer) error
	// Doctor lists what `roam doctor` says of the role: faults, warnings, and
	// what was looked at and found well.
	Doctor(ctx context.Context) ([]control.RoleFinding, error)
	// Explain lists what the role adds to `roam explain` of a peer: sentences.
	Explain(ctx context.Context, peer roam.NID) ([]string, error)
	// Report returns what else is worth showing, as a value for JSON: `roam report`
	// puts it into the archive, and a noun of the role prints it as a table. It
	// holds no secret.
	Report(ctx context.Context) (any, error)
}

// Env is what the daemon lends a role.
type Env struct {
	Config     config.Config // in force at the start
	ConfigFile string
	Version    string
	Started    time.Time // of the daemon
	Starts     uint64    // of daemons since the run directory was made, this one included
	Log        *slog.Logger
	// Publish passes an event to those that watch, and keeps it for `roam report`. It
	// never waits.
	Publish func(control.Event)
	// Hub is where Publish tells those that watch. A role that waits for events of its
	// own subscribes there, and publishes there what the history should not keep.
	Hub *control.Hub
	// Waiting reports to the service manager what the role waits for in Start; nil: nobody wants to know.
	Waiting func(what string)
}

// Kind is a role that a daemon can have.
type Kind struct {
	Name string // as in role.run
	// New makes the role. It has no effect.
	New func(Env) Role
	// Restore undoes what the role has left on the host and in the kernel, also
	// if the process that left it has been killed, and if the role is not listed
	// any more. Nothing to undo is no error. It runs while no daemon does. It ends what
	// programs do, and leaves their pins to the daemon, which removes those of all roles
	// afterwards.
	Restore func(config.Config) error
}

// Silent is embedded by a role that has nothing to bring to some of the verbs.
type Silent struct{}

// Check refuses nothing.
func (Silent) Check(config.Config) error { return nil }

// Reload changes nothing: every key waits for a restart.
func (Silent) Reload(context.Context, config.Config) error { return nil }

// Status adds nothing.
func (Silent) Status(context.Context, *control.Status, *control.RoleStatus) error { return nil }

// Counters lists nothing.
func (Silent) Counters(context.Context) ([]control.Counter, error) { return nil, nil }

// Metrics writes nothing.
func (Silent) Metrics(context.Context, io.Writer) error { return nil }

// Doctor finds nothing.
func (Silent) Doctor(context.Context) ([]control.RoleFinding, error) { return nil, nil }

// Explain adds nothing.
func (Silent) Explain(context.Context, roam.NID) ([]string, error) { return nil, nil }

// Report has nothing to show.
func (Silent) Report(context.Context) (any, error) { return nil, nil }
