// Package ilnphost is the data plane of an ILNP host: the typed tables of sessions,
// pending peers, NID collisions, plain flows, uplinks, settings and literal addresses,
// and what its programs (bpf/ilnp) report. internal/dataplane loads, pins and attaches
// them. docs/maps.md describes each map.
package ilnphost
