package ilnphost

import (
	"math/bits"

	"github.com/cilium/ebpf"
)

// DefaultSessions is how many sessions the maps have room for unless the
// configuration says otherwise; LeastSessions and MostSessions bound it.
const (
	DefaultSessions = 16384
	LeastSessions   = 256
	MostSessions    = 1 << 20
)

// leastSources is how many locators beyond eight a session all may have together. Where the
// sessions are many it is their number, rounded down to a power of two: the kernel rounds the
// buckets of the map up to one, and these take memory although hardly a session has so many.
const leastSources = 4096

// leastCollisions is how many locators and nonces all sessions under an alias may have.
const leastCollisions = 1024

// A table of pending peers holds as many as there may be sessions, within bounds: it
// is to outlast a round trip or two of a flood, and what is pushed out is made
// again.
const (
	leastUnvalidated = 4096
	mostUnvalidated  = 1 << 16
)

// resize gives the maps that grow with the number of sessions their sizes.
// docs/maps.md says what each takes.
func resize(spec *ebpf.CollectionSpec, sessions int) {
	n := uint32(sessions)
	for _, name := range []string{"session_lives", "session_details", "known_nids", "update_keys"} {
		spec.Maps[name].MaxEntries = n
	}
	spec.Maps["sessions"].MaxEntries = n + uint32(sparePlaces(sessions))
	spec.Maps["obstructed"].MaxEntries = 4 * n
	spec.Maps["flow_tables"].MaxEntries = max(spec.Maps["flow_tables"].MaxEntries, 2*n)
	spec.Maps["session_index"].MaxEntries = buckets(sessions)
	spec.Maps["nid_collisions"].MaxEntries = max(n, leastCollisions)
	spec.Maps["places"].MaxEntries = max(n, leastCollisions)
	spec.Maps["sources"].MaxEntries = max(uint32(1)<<(bits.Len32(n)-1), leastSources)
	for _, name := range []string{"pending_peers", "allowances"} {
		spec.Maps[name].MaxEntries = min(max(n, leastUnvalidated), mostUnvalidated)
	}
}
