package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"time"

	"roam"
	"roam/internal/config"
	"roam/internal/control"
	"roam/internal/role"
)

// each calls f for every role that runs. What one does not answer, the others do: it
// fails only if all fail.
func (d *Daemon) each(f func(m *member) error) error {
	var errs []error
	answered := false
	for _, m := range d.roles {
		if m.failed() != nil {
			continue
		}
		err := f(m)
		answered = answered || err == nil
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	if answered && err != nil {
		d.opts.Log.Warn("a role does not answer", "err", err)
		return nil
	}
	return err
}

// Status says what the daemon is and how it fares.
func (d *Daemon) Status(ctx context.Context) (control.Status, error) {
	s := control.Status{
		Version: d.opts.Version, PID: os.Getpid(), State: "running", Warnings: []string{}, Notes: []string{},
		Started: d.started, UptimeS: time.Since(d.started).Seconds(), Config: d.opts.ConfigFile,
	}
	asked := make(map[string]control.RoleStatus)
	err := d.each(func(m *member) error {
		own := control.RoleStatus{Name: m.name, State: control.RoleRunning}
		err := m.role.Status(ctx, &s, &own)
		if err != nil {
			own.Error = err.Error()
		}
		asked[m.name] = own
		return err
	})
	s.Warnings = append(s.Warnings, d.warnings...)
	for _, m := range d.roles {
		own, ok := asked[m.name]
		if !ok {
			own = d.failure(m)
		}
		s.Roles = append(s.Roles, d.unlisted(own))
	}
	s.Roles = append(s.Roles, d.unstarted()...)
	for _, own := range s.Roles {
		if own.Error != "" {
			s.Warnings = append(s.Warnings, roleWarning(own))
		}
	}
	if len(s.Roles) == 1 && s.Roles[0].Name == config.RoleHost {
		s.Roles = nil // all that there is to say stands above
	}
	if len(s.Warnings) > 0 {
		s.State = "degraded"
	}
	return s, err
}

// roleWarning is what `roam` warns of a role: what is amiss, and what to do.
func roleWarning(own control.RoleStatus) string {
	warning := control.FaultyRole(own.Name)
	if own.State == control.RoleFailed {
		warning = control.FailedRole(own.Name)
	}
	warning += ": " + own.Error
	if own.Do != "" {
		warning += "; " + own.Do
	}
	return warning
}

// unlisted says in the status of a role that runs that the file no longer lists it, in
// place of what else is amiss.
func (d *Daemon) unlisted(own control.RoleStatus) control.RoleStatus {
	wanted := d.wanted.Load()
	if wanted != nil && own.State == control.RoleRunning && !slices.Contains(*wanted, own.Name) {
		own.Error, own.Do = "role.run ("+d.place()+") no longer lists it", "restart roamd to end it, or list it again"
	}
	return own
}

// unstarted returns the status of roles that the file lists since the daemon has started.
func (d *Daemon) unstarted() (list []control.RoleStatus) {
	wanted := d.wanted.Load()
	if wanted == nil {
		return nil
	}
	for _, name := range *wanted {
		if !slices.ContainsFunc(d.roles, func(m *member) bool { return m.name == name }) {
			list = append(list, control.RoleStatus{
				Name: name, State: control.RoleFailed, Error: "role.run (" + d.place() + ") lists it since roamd has started",
				Do: "restart roamd",
			})
		}
	}
	return list
}

// failure is the status of a role that does not run.
func (d *Daemon) failure(m *member) control.RoleStatus {
	own := control.RoleStatus{Name: m.name, State: control.RoleFailed, Do: d.remedy(m.name, m.failed())}
	if err := m.failed(); err != nil {
		own.Error = err.Error()
	}
	return own
}

// Counters lists the counters of every role.
func (d *Daemon) Counters(ctx context.Context) ([]control.Counter, error) {
	var out []control.Counter
	err := d.each(func(m *member) error {
		list, err := m.role.Counters(ctx)
		out = append(out, list...)
		return err
	})
	return out, err
}

// Roles lists all that each role says of itself and of a peer.
func (d *Daemon) Roles(ctx context.Context, peer roam.NID) ([]control.RoleReport, error) {
	var out []control.RoleReport
	for _, m := range d.roles {
		if m.failed() != nil {
			out = append(out, control.RoleReport{RoleStatus: d.failure(m)})
			continue
		}
		r, err := m.report(ctx, peer)
		if err != nil {
			r.Error = err.Error()
		}
		r.RoleStatus = d.unlisted(r.RoleStatus)
		out = append(out, r)
	}
	for _, own := range d.unstarted() {
		out = append(out, control.RoleReport{RoleStatus: own})
	}
	return out, nil
}

// report asks a role for all that it says.
func (m *member) report(ctx context.Context, peer roam.NID) (out control.RoleReport, err error) {
	out.Name, out.State = m.name, control.RoleRunning
	var whole control.Status // the role's own part is wanted only
	if err := m.role.Status(ctx, &whole, &out.RoleStatus); err != nil {
		return out, err
	}
	if out.Findings, err = m.role.Doctor(ctx); err != nil {
		return out, err
	}
	if peer != 0 {
		if out.Explain, err = m.role.Explain(ctx, peer); err != nil {
			return out, err
		}
	}
	value, err := m.role.Report(ctx)
	if err != nil || value == nil {
		return out, err
	}
	out.Report, err = json.Marshal(value)
	return out, err
}

// Subscribe returns the events from now on.
func (d *Daemon) Subscribe(ctx context.Context) (<-chan control.Event, error) {
	return d.hub.Subscribe(ctx)
}

// History returns the latest events, the oldest first.
func (d *Daemon) History(context.Context) ([]control.Event, error) { return d.history.all(), nil }

// Reload reads the configuration again and lets the roles apply the differences. The
// list of roles itself waits for a restart: what runs goes on.
func (d *Daemon) Reload(ctx context.Context) (control.Reloaded, error) {
	out := control.Reloaded{Applied: []string{}, Restart: []string{}}
	d.reloading.Lock() // before the file is read, or an older text could follow a newer one
	defer d.reloading.Unlock()
	next, err := d.load(d.opts.ConfigFile)
	if err != nil {
		return out, control.Errorf(control.CodeInvalid, "%w", err).WithHint("nothing was changed")
	}
	if absent := config.AbsentCgroups(d.opts.ConfigFile, next, config.IsCgroup); len(absent) > 0 {
		return out, control.Errorf(control.CodeInvalid, "%w", absent).WithHint("nothing was changed")
	}
	merged := config.Merge(d.cfg, next)
	check := func(r role.Role) error { return r.Check(merged) }
	reload := func(r role.Role) error { return r.Reload(ctx, merged) }
	for _, f := range []func(role.Role) error{check, reload} {
		for _, m := range d.roles {
			if m.failed() != nil {
				continue
			}
			if err := f(m.role); err != nil {
				return out, err
			}
		}
	}
	for _, c := range config.Diff(d.cfg, next) {
		if c.Restart || d.fails(c.Role) {
			out.Restart = append(out.Restart, c.String())
		} else {
			out.Applied = append(out.Applied, c.String())
		}
	}
	d.cfg = merged
	d.keepConfig()
	d.wanted.Store(&next.Roles)
	return out, nil
}

// reloadOnSignal reloads for each signal until ctx is done. A signal has no answer, so the log has it.
func (d *Daemon) reloadOnSignal(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.opts.Reload:
		}
		out, err := d.Reload(ctx)
		if err != nil {
			d.opts.Log.Error("the configuration is not reloaded", "err", err, "do", control.Hint(err))
			continue
		}
		d.opts.Log.Info("the configuration is reloaded", "applied", out.Applied, "restart", out.Restart)
	}
}

// fails reports whether a role of that name is there and does not run.
func (d *Daemon) fails(name string) bool {
	return slices.ContainsFunc(d.roles, func(m *member) bool { return m.name == name && m.failed() != nil })
}

// Shutdown ends the daemon.
func (d *Daemon) Shutdown(_ context.Context, removePlane bool) error {
	d.remove.Store(removePlane)
	d.stop()
	return nil
}
