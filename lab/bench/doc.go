// Package bench measures what Roam costs against plain IPv6 in the same run,
// and how long a Locator Update takes against an echo on the same path, with
// the real programs in network namespaces. `make bench` runs it, as root.
//
// Ratios are measured in interleaved pairs until the 95 % confidence interval
// is within +-0.015, or 40 pairs are done; the interval is reported with them.
// All of it is in test files: nothing imports this package.
package bench
