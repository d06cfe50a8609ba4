// Package acceptance tests Roam as its users run it: unmodified programs on real kernels,
// with the two binaries as installed.
//
// It implements tests only, each named after the user's report of its failure. They build
// topologies with lab/topo, move hosts by disconnecting links of lab/linkem, load them with
// lab/workload, and check states, counters, messages and exit statuses through the command
// line. Their assertions are exact; they print times, which experiments judge. It omits
// benchmarks and everything that a package can test alone. It is driven by `go test` as
// root.
package acceptance
