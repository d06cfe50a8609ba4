// Package config reads roam.conf, the configuration of one host.
//
// It implements defaults, strict reading of TOML (an unknown key is an error),
// checks of every value, errors that name file, line, column, key and what is
// allowed, and the differences between two configurations for a reload. It
// omits the correspondents: those are in the hosts file, which package naming
// reads. The daemon and cmd/roam drive it; nothing of it enters a core.
package config
