package ilnp

import "time"

// A state outlives the process, and the wall clock may jump before a successor reads it, or may have
// jumped while its author ran. So both say when the host's monotonic clock began by their own
// wall clock, Config.Boot, and the successor moves all times by the difference. They have
// readings of the monotonic clock then, as all that it compares them with.

// jump is the least difference of two clocks that counts as a jump of the wall clock.
const jump = time.Second

// rebase moves all times of a state from one beginning of the monotonic clock to another one.
// Without one of the two they stay.
func (st *savedState) rebase(from, to time.Time) {
	if from.IsZero() || to.IsZero() {
		return
	}
	// Two readings of the same beginning differ by what passes between the two clocks' readings, and
	// by what the wall clock was slewed. That is no jump, and times that name a session stay the same.
	if d := from.Round(0).Sub(to.Round(0)); d.Abs() < jump {
		to = to.Add(d)
	}
	move := func(times ...*time.Time) {
		for _, t := range times {
			if !t.IsZero() {
				*t = to.Add(t.Sub(from))
			}
		}
	}
	// What users see of a time is its wall clock, which two readings of the clocks or a slew set
	// apart from the monotonic one: a time that is shown stays as it was shown.
	moveShown := func(t *time.Time) {
		shown := t.Round(0)
		move(t)
		if d := shown.Sub(t.Round(0)); d.Abs() < jump {
			*t = t.Add(d)
		}
	}
	remotes := func(list []savedRemote) {
		for i := range list {
			move(&list[i].Expires, &list[i].Until)
		}
	}
	for i := range st.Locals {
		move(&st.Locals[i].Expires)
		moveShown(&st.Locals[i].Since)
	}
	for i := range st.Known {
		v := &st.Known[i]
		remotes(v.Locators)
		move(&v.PerFlow.Until, &v.PlainUntil)
	}
	for i := range st.Sessions {
		v := &st.Sessions[i]
		remotes(v.Remotes)
		move(&v.PerFlow.Until, &v.ToldAt, &v.NonceUntil, &v.LastRx, &v.LastTx, &v.LastMove, &v.MACNextSince)
		for k := range v.Paths {
			move(&v.Paths[k].Heard, &v.Paths[k].Confirmed)
		}
		moveShown(&v.Started)
		for k := range v.Told {
			move(&v.Told[k])
		}
	}
}
