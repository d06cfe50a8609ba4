// Package bench measures Roam's cost against plain IPv6 in the same run, and the time of a
// Locator Update against an echo on the same path, with the real programs in network
// namespaces. `make bench` runs it, as root.
//
// It measures ratios in interleaved pairs until the 95 % confidence interval is within
// +-0.015, or 40 pairs are done, and reports the interval. A figure that has a bound fails
// its benchmark beyond it. All of it is in test files: nothing imports this package.
//
// ROAM_BINARIES names a directory with the roam and roamd to measure in place of this
// tree's, ROAM_BINARIES_BEFORE one with another build that stands beside it, ROAM_RESULTS
// the file that keeps the figures.
package bench
