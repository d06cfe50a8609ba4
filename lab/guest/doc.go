// Package guest asks whether Roam fits on a machine as people have it: a Debian
// with systemd that runs Roam from its package, with systemd-networkd or
// NetworkManager for its links, with VLANs and bonds, and that sleeps.
//
// Its tests take such a machine for themselves. They have the build tag guest,
// so that they run nowhere else, and are run by `make test-guest` in a QEMU
// guest. The machine is one end of the sessions; a router and a correspondent
// are network namespaces beside it.
//
// Time in the guest counts instructions: what is measured here is what gets
// lost and what stays, not how fast anything is.
package guest
