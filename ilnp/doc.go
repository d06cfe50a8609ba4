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
//	HandleActivity(now, []Activity)      what the data plane counted
//	HandleTimeout(now)                   only once now >= PollTimeout()
//	Poll() (Output, bool)                drain before the next Handle
//	PollTimeout() (time.Time, bool)
package ilnp
