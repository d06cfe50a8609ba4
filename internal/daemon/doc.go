// Package daemon is roamd without its roles: the run directory and its lock, the
// configuration in force, the control socket, the history of events, the metrics,
// and the restoration of the host.
//
// Run starts the roles that roam.conf lists, one after the other, and joins what
// they bring. One that cannot start, or ends early, is logged and shown, and the
// others run on; the daemon ends when none is left. SIGTERM ends the process and
// leaves the data planes to its successor; a shutdown with removal, or Restore after
// a crash, gives the host back as it was, for every role that there is.
//
// It omits what any role does: that is below package role.
package daemon
