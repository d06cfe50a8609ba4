// Package role says what a daemon can be: the interface of a role, such as the
// ILNP host or an observer, and what the daemon lends each.
//
// A daemon has one role or several; role.run in roam.conf lists them. Each has
// its own data plane and its own state, and none knows of the others. The daemon
// starts them in a fixed order, ends them in reverse, and joins what each brings
// to the control socket, the metrics and the restoration of the host. A role
// that cannot start, or ends early, says why; the others run on.
//
// It implements no role: those are in the packages below this one, and package
// config knows their names, which ones exclude each other, and the keys of each.
// Driven by package daemon.
package role
