// Package sbr is the core of a site border router: it rewrites locators at the edge of a
// site, so that hosts that know only the site's internal locators use all its providers
// (RFC 6748 §§2.3, 3; Simpson's site border router).
//
// It has the policy table (ParsePolicy) with the groups of site locators that internal ones
// are rewritten to, the choice of a locator by policy (Chooser), the model of the rewriting
// that bpf/sbr does per packet (Rewrite), and a Core for what is decided once a flow:
// Locator Updates that cross the border, updates of the border's own, and ICMPv6 errors.
//
// The methods of Core are those of any core: Handle... report what happened, Poll returns
// what to do, PollTimeout and HandleTimeout its time.
//
// A Locator Update in fragments is joined, translated and split again. One with a MAC passes with its
// body as it is: its sender lists the site locators itself.
//
// Omitted: several borders that share flows. Driven by internal/role/border.
package sbr
