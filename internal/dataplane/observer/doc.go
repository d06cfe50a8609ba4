// Package observer is the data plane of an observer: its programs (bpf/observer) on links,
// and what they have counted. internal/dataplane loads, pins and attaches them.
// docs/maps.md describes each map.
package observer
