package doctor

import (
	"slices"
	"strings"

	"roam/internal/config"
	"roam/internal/control"
)

// hostLooks returns the looks at an ILNP host. Of a daemon that is none, or whose host
// does not run, only those are left that do not ask for one.
func hostLooks(f Facts) []func(*examination, Facts) {
	anyway := []func(*examination, Facts){lookClock, lookDisk}
	switch {
	case f.Daemon != nil && !f.Daemon.RunsHost() && f.Config.Has(config.RoleHost):
		return append([]func(*examination, Facts){lookHosts, lookKernel, lookForwarding, lookFirewall}, anyway...)
	case f.Daemon != nil && !f.Daemon.RunsHost():
		return anyway
	case f.Incomplete != "":
		return append([]func(*examination, Facts){
			lookHosts, lookKernel, lookSession, lookForwarding, lookFirewall, lookNames, lookNotAdmitted,
		}, anyway...)
	}
	return []func(*examination, Facts){
		lookHosts, lookKernel, lookLinks, lookPolicies, lookSession, lookForwarding, lookFirewall, lookNames, lookClock,
		lookDisk, lookPlainSessions, lookOwnKey, lookNotAdmitted,
	}
}

// lookRoles has each role that does not run, and what the others say.
func lookRoles(e *examination, f Facts) {
	for _, r := range f.Roles {
		about := "role " + r.Name
		switch {
		case r.State == control.RoleFailed:
			e.add(Fault, about, r.Do, "the role does not run: %s", r.Error)
		case r.Error != "" && r.Name == config.RoleBorder && e.amiss("border"):
			// lookBorder has it, in more detail
		case r.Error != "":
			e.add(Warning, about, r.Do, "the role runs, but: %s", r.Error)
		}
		for _, x := range r.Findings {
			e.add(levelOf(x.Level), about, x.Do, "%s", x.Text)
		}
		if r.Name != config.RoleHost && len(r.Findings) == 0 && r.Error == "" && e.clean(about) {
			facts := make([]string, len(r.Facts))
			for i, x := range r.Facts {
				facts[i] = x.Name + " " + x.Value
			}
			e.ok(about, "%s", strings.Join(append([]string{"the role runs"}, facts...), "; "))
		}
	}
}

// levelOf returns the level of that name; one that is unknown here, from a newer daemon,
// deserves a look.
func levelOf(name string) Level {
	if l := Level(name); slices.Contains([]Level{OK, Note, Warning, Fault}, l) {
		return l
	}
	return Warning
}

// isRoleWarning reports whether a warning of the daemon is about a role that does not run,
// or with which something is amiss.
func isRoleWarning(roles []control.RoleStatus, warning string) bool {
	return slices.ContainsFunc(roles, func(r control.RoleStatus) bool {
		return strings.HasPrefix(warning, control.FailedRole(r.Name)) ||
			strings.HasPrefix(warning, control.FaultyRole(r.Name))
	})
}
