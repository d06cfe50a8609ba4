// Package ilnphost is the role of an ILNPv6 host: identity, data plane, host
// network, core, engine, names and resolver, put together.
//
// Start takes over what an earlier process left pinned, or builds it; Close leaves
// the data plane to a successor; Restore gives the host back as it was.
//
// It omits what any daemon does: the run directory, the control socket, the history
// of events. Driven by package daemon.
package ilnphost
