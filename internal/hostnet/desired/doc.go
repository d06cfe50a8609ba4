// Package desired says what the roles of a daemon want of the network of their
// host, and in which order it is made so: addresses, routes, rules, neighbours,
// neighbour proxies, sysctls and devices.
//
// A State is what one owner wants. Owners merges the states of all of them: an
// item that several want is shared, and an owner that contradicts another is
// refused. Decide compares an item with what stands on the host, Sort orders
// what there is to do, and Undo orders what the journal names.
//
// It omits everything that has an effect: package hostnet looks at the host,
// writes the journal and makes the changes.
//
// Driven by internal/hostnet.
package desired
