package ilnp

// Stats is how much a core holds in memory. All of it is bounded by what talks
// now and by what people made known: a host that has gone quiet is back at
// zero, Known excepted.
type Stats struct {
	Sessions     int // correspondents with which packets are exchanged
	PendingPeers int // nodes that showed a nonce and are not validated yet
	Probes       int // echo requests whose reply may still come
	Timers       int // machines that wait for a point in time
	Known        int // correspondents that somebody made known
	Awaited      int // acknowledgements that the last handoff waits for
	Links        int // links whose names are remembered
}

// Stats returns how much the core holds.
func (c *Core) Stats() Stats {
	return Stats{
		Sessions: len(c.sessions), PendingPeers: len(c.pendingPeers), Probes: len(c.probes), Timers: c.deadlines.Len(),
		Known: len(c.known), Awaited: len(c.handoff.waiting), Links: len(c.host.names),
	}
}
