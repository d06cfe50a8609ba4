// Package cli is what the command lines of Roam have in common: tables, JSON,
// colours, checks of arguments, and how a failure is reported.
//
// Implements the rules of docs/cli.md that concern every verb: standard output
// has what was asked for and nothing else, a failure names what to do, and the
// exit status says which kind of failure it was. Omits the verbs, and all that
// they ask of the daemon or of the lab. Driven by the commands roam and
// roam-lab.
package cli
