// Package multipath decides how the traffic towards one correspondent is spread
// over several paths: which paths the flows of each bucket take and what share each path gets
// (Machine.Choose), by the lengths and rates of the paths, their queues, what tracks connections, and rules.
//
// A Machine is made for each correspondent and is told what was seen. Its path
// type P is whatever its owner sends along: two locators and a link, two
// addresses, an interface.
//
//	HandleAnswer     a probe was answered        HandleStall   TCP had time-outs
//	HandleNoAnswer   paths left probes alone     HandleQueue   segments of TCP wait
//	HandleSettled    a round of probes is over   HandleWish    what the other end wants
//	HandleSound      all paths answered it       Expire        time has passed
//	HandleFlows      what connections have sent  HandleRTT     any probe was answered
//	HandleLate       a path has become slower    HandleLoss    packets were lost
//	HandleOverflow   and many of them at once
//
// Its answers are values: Choose says how to send, and Spread shows that; that paths are
// to be probed is what Doubtful, Unasked, HandleQueue and HandleSettled return. The
// owner sends the probes, and says with Use what it sends along now. A Spell, for
// which connections keep to one path each, is the owner's to keep, as it may outlast
// the machine.
//
// A Health is what is known of one path: how long an answer is waited for, after how many
// probes without one the path is suspected, and for how long it is left alone then.
//
// A Rate is what short trains of packets have measured of a path (Train).
//
// An Estimator turns the reports of the other end (PathReport) into the rates, losses, queues
// and round trips of one path, each direction by itself (PathState).
//
// It is pure: it sees no socket, no clock and no goroutine. It omits which paths are in
// use, and what follows from a suspicion. It is driven by the
// core ilnp, and made for other systems with several paths: site borders, shim6,
// Multipath TCP.
package multipath
