// Package acceptance proves the main job as its users would: unmodified
// programs on real kernels, with the two binaries as they are installed.
//
// It implements tests only, each named after the report that its failure would
// be. They build topologies with lab/topo, move hosts by pulling the cables of
// lab/linkem, load them with lab/workload, and look through the command line:
// states, counters, messages and exit statuses. What they assert is exact;
// times are printed and judged by the experiments. It omits benchmarks and
// whatever a package can prove alone. It is driven by `go test` as root.
package acceptance
