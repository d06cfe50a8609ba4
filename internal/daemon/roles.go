package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"roam/internal/config"
	"roam/internal/control"
	"roam/internal/role"
	"roam/internal/role/border"
	"roam/internal/role/ilnphost"
	"roam/internal/role/observer"
)

// kinds are the roles that a daemon can have, in the order of config.Roles.
var kinds = []role.Kind{ilnphost.Kind, observer.Kind, border.Kind}

// member is one role of this daemon.
type member struct {
	name string
	role role.Role

	mu     sync.Mutex
	err    error // why it does not run; nil: it does
	closed bool
}

// failed says why the role does not run; nil: it does.
func (m *member) failed() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

var errEnded = errors.New("the role has ended by itself")

// startRoles starts the roles of the configuration one after the other. It fails only
// if none can start.
func (d *Daemon) startRoles(ctx context.Context) error {
	if !d.cfg.Has(config.RoleHost) {
		d.Host = control.NoHost(d.absent("ILNP host", config.RoleHost))
	}
	if !d.cfg.Has(config.RoleBorder) {
		d.Border = control.NoBorder(d.absent("site border", config.RoleBorder))
	}
	var errs []error
	for _, k := range d.kinds {
		if !d.cfg.Has(k.Name) {
			continue
		}
		m := &member{name: k.Name, role: k.New(d.env(k.Name))}
		d.roles = append(d.roles, m)
		if err := m.role.Start(ctx); err != nil {
			errs = append(errs, err)
			m.err = err
			d.closeRole(m)
		}
		if host, ok := m.role.(control.Host); ok {
			d.Host = host
			if m.err != nil {
				d.Host = control.NoHost(d.unavailable(m))
			}
		}
		if border, ok := m.role.(control.Border); ok {
			d.Border = border
			if m.err != nil {
				d.Border = control.NoBorder(d.unavailable(m))
			}
		}
	}
	if len(errs) == len(d.roles) {
		return errors.Join(errs...)
	}
	for _, m := range d.roles {
		if m.err != nil {
			d.opts.Log.Error("a role cannot start; the others run", "role", m.name, "err", m.err, "do", d.remedy(m.name, m.err))
		}
	}
	return nil
}

// env is what a role is lent.
func (d *Daemon) env(name string) role.Env {
	log := d.opts.Log
	if name != config.RoleHost {
		log = log.With("role", name)
	}
	return role.Env{
		Config: d.cfg, ConfigFile: d.opts.ConfigFile, Version: d.opts.Version, Started: d.started, Starts: d.starts,
		Log: log, Publish: d.publish, Hub: &d.hub, Waiting: notifyWaiting,
	}
}

// runRoles runs the roles that could start until ctx is done, or all have ended. A role
// that ends early leaves the others running.
func (d *Daemon) runRoles(ctx context.Context) error {
	type end struct {
		*member
		err error
	}
	ends := make(chan end)
	left := 0
	for _, m := range d.roles {
		if m.failed() == nil {
			left++
			go func() { ends <- end{m, m.role.Run(ctx)} }()
		}
	}
	notifyReady()
	var early, last []error
	for ; left > 0; left-- {
		e := <-ends
		if ctx.Err() != nil {
			last = append(last, e.err)
			continue
		}
		early = append(early, d.endedEarly(e.member, e.err, left-1))
	}
	if ctx.Err() == nil {
		return errors.Join(early...)
	}
	return errors.Join(last...)
}

// endedEarly notes why a role does not run any more, while so many others do.
func (d *Daemon) endedEarly(m *member, err error, others int) error {
	if err == nil {
		err = errEnded
	}
	if others > 0 { // before anyone is shown that it has failed, and looks for the reason
		d.opts.Log.Error("a role has ended; the others run", "role", m.name, "err", err, "do", d.remedy(m.name, err))
	}
	m.mu.Lock()
	m.err = err
	m.mu.Unlock()
	return err
}

func (d *Daemon) closeRole(m *member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.closed = true
	if err := m.role.Close(); err != nil {
		d.opts.Log.Warn("not everything could be closed", "role", m.name, "err", err)
	}
}

// absent is the error of what only a role answers that the daemon does not have; what says
// what the daemon is not.
func (d *Daemon) absent(what, name string) error {
	return control.Errorf(control.CodeUnavailable, "this daemon is no %s", what).
		WithHint("list %q in role.run (%s), then restart roamd", name, d.place())
}

// unavailable is the error of what a role answers that does not run.
func (d *Daemon) unavailable(m *member) error {
	err := m.failed()
	return control.Errorf(control.CodeUnavailable, "%s: %w", control.FailedRole(m.name), err).
		WithHint("%s", d.remedy(m.name, err))
}

// remedy says what to do about a role that does not run, for a reason.
func (d *Daemon) remedy(role string, err error) string {
	out := fmt.Sprintf("restart roamd, or take %q out of role.run (%s)", role, d.place())
	if hint := control.Hint(err); hint != "" {
		out = hint + "; then " + out
	}
	return out
}

// place names the file and the line where the roles are listed.
func (d *Daemon) place() string { return config.Place(d.opts.ConfigFile, config.KeyRoles) }
