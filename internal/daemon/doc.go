// Package daemon puts roamd together: configuration, identity, data plane,
// host network, core, names and control socket. It is the only package that
// imports all of them.
//
// Its life: Run takes over what an earlier process left pinned, or builds it;
// SIGTERM ends the process and leaves the data plane to its successor; a
// shutdown with removal, or Restore after a crash, gives the host back as it
// was.
package daemon
