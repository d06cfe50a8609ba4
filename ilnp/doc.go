// Package ilnp is the core of an ILNPv6 host: the Identifier-Locator
// Communication Cache, the life cycle of locators, session set-up and
// fallback, the Locator Update exchange, soft and hard handoff, duality, and
// path liveness (RFC 6740, RFC 6741 §5, RFC 6743, RFC 6744).
//
// The core is pure: it sees no socket, no clock and no goroutine. The engine
// (or package sim) feeds it with Handle methods, drains Poll to false, and
// calls HandleTimeout when PollTimeout has come.
//
//	HandleLocator(now, LocatorEvent)     a prefix came, was refreshed, or went
//	HandlePacket(now, link, packet)      a control packet that the data plane admitted, whole
//	HandleObservation(now, Observation)  what the data plane saw
//	HandleActivity(now, []Activity)      what the data plane counted: changes, and what is Watched
//	HandleTimeout(now)                   only once now >= PollTimeout()
//	Poll() (Output, bool)                drain before the next Handle
//	PollTimeout() (time.Time, bool)
//
// Commands are AddPeer, RemovePeer, Expect, SetMode, SetLinkDisabled and Detach; they
// are followed by draining Poll too. Export and Restore carry the sessions
// over a restart.
// SetLinkMTU and HandleTooBig tell what is known of sizes.
//
// Where a path drops destination options or ICMPv6, control messages go in UDP
// (udpencap.go).
//
// A session is made from either side:
//
//	this host first                       the correspondent first
//	SeenMiss -> nonce, entry Initiated    SeenPending -> probe of its locator
//	SeenNonce or a probe's reply          the probe's reply
//	         -> Established                        -> Established
//	Parameter Problem, or 1 s of silence
//	         -> Plain
//
// A few known correspondents have preinstalled entries, made before any packet
// (preinstall.go); SeenFirst replaces SeenMiss there.
//
// It omits Locator Updates of the draft form other than "replace" when it
// sends (it applies all of them), IPsec for ILNP, site border rewriting, and
// ephemeral identifiers.
//
// Where it departs from an RFC on purpose, the place is marked and docs/rfc
// says why.
package ilnp
