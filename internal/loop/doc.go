// Package loop runs the cores of a host against the real world: one goroutine that
// feeds them, carries out in order what they want done, and arms one timer for all of
// them.
//
// A core is a value without locks, goroutines and clock. So everything that touches one
// happens in the goroutine of Run: values of channels (Source), what was left over
// (Backlog), deadlines (Machine), and what other goroutines want done (Do). Each of them
// is one event. It is handled at one time, and what the cores want done because of it is
// carried out before the next event:
//
//	urgent sources, at most UrgentInARow events
//	backlogs, as far as they were filled when their turn came
//	late machines
//	one event of any source, a deadline, or Do; sources take turns
//
// and again from the top. So an urgent source goes before everything else, and still
// nothing waits longer for it than for UrgentInARow events of it.
//
// The package knows no core. It omits threads: what takes long belongs in a goroutine of
// its own, whose result comes back by a channel. It does not recover from panics.
// Driven by internal/role/ilnphost/engine.
package loop
