// Package guest tests Roam on a complete machine: a Debian with systemd that runs Roam from
// its package, with systemd-networkd or NetworkManager for its links, with VLANs and bonds,
// and with suspend.
//
// Its tests take over such a machine. They have the build tag guest, so that they run
// nowhere else, and `make test-guest` runs them in a QEMU guest. The machine is one end of
// the sessions; a router and a correspondent are network namespaces beside it.
//
// Time in the guest counts instructions, so the tests measure loss and persistence, not
// speed.
package guest
