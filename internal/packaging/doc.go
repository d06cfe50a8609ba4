// Package packaging holds the tests of the Debian package: what is in it, and
// what its scripts do to a made-up machine.
//
// It implements nothing else, and omits a machine with a real systemd. Driven
// by go test; packaging/deb has what is tested.
package packaging
