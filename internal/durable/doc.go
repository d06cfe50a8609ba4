// Package durable replaces files so that they survive a loss of power.
//
// It owns no file and keeps no state. Hostnet's journal, the daemon's identity
// and the record of the sessions are written with it.
package durable
