// Package tcpassist helps the TCP connections of a host over a change of the paths
// that their packets take below TCP, which therefore learns of none: a Locator Update
// of ILNP, a switch to another address pair of shim6.
//
// It does two things. Connections whose peer is within reach again try again at once,
// though each may sit in a retransmission time-out that was doubled during the outage
// (wake.go). And connections on which nothing arrives after a move are shown once more
// to the stateful firewalls of their path, which may track connections and have not
// seen these begin there (resync.go).
//
// A Machine is driven by whoever runs the host, internal/role/ilnphost/engine or sim: it is told
// what became of the paths of a session (HandlePaths), of the end of one (HandleEnd),
// of a conntrack resync that a peer sent (HandleResync), and of the list of connections
// that it has asked for (HandleConnections). Poll says what is to be done. A session is
// whatever the driver has keys for; connections are values that name theirs.
//
// It omits the segments of a resync on the wire, which bear what proves their sender
// and so belong to the system that the paths belong to (wire/ilnp). It has no clock:
// times are handed in.
package tcpassist
