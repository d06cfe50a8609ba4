package ilnp

import (
	"slices"
	"time"
)

// monitor asks each of several paths in use whether it works: the answers that
// come over one of them keep silence from telling that another is dead. So do
// packets that come in elsewhere than where ours leave, hence the only path in
// use is asked too, if there is another one to take: of ours or, as a late packet may
// have led to where the correspondent is no more, of the correspondent's.
//
// asked: the correspondent has shown that it may receive nothing, so it does not matter when the last
// packet went to it.
func (c *liveness) monitor(now time.Time, s *session, asked bool) {
	idle := s.watch.state == quiet || s.watch.state == proving && s.backoff(probeMin) > monitorEvery
	every := monitorEvery
	if len(s.carriers()) == 1 {
		every = monitorOne
	}
	choice := len(s.entry.Paths) > 1 || len(s.entry.Paths) == 1 && (len(c.host.usable(now)) > 1 || s.hasOther())
	last := s.spokeLast(now)
	if last {
		choice, every = true, 0
	}
	sends := last || asked || now.Sub(later(s.lastTx, s.started)) <= monitorEvery
	if !idle || s.state != Established || !choice || now.Sub(s.monitored) < every || !sends {
		return
	}
	if last {
		s.update.asked++
	}
	s.monitored = now
	s.watch = watch{state: settling, proved: s.watch.round, since: now, regular: true}
	c.settleRound(now, s)
}

// spokeLast reports whether this host has fallen silent since it announced its locators to
// the correspondent, or shortly before. If the answer to the correspondent's probe was
// lost, all that it may send here before an answer is spent: only packets from here give
// it more, also where a program here only answers or receives. The programs report its
// second and fourth packet, so one more is not enough.
func (s *session) spokeLast(now time.Time) bool {
	const still, times = time.Second, 3
	recent := now.Sub(s.update.first) <= monitorEvery && s.update.first.Sub(s.used) <= monitorEvery
	return s.update.state == acknowledged && s.update.asked < times && now.Sub(s.lastTx) >= still &&
		(s.lastTx.After(s.update.first) && now.Sub(s.lastTx) <= monitorEvery || recent && now.Sub(s.update.first) >= still)
}

// hasOther reports whether the correspondent has a locator that is not sent to. It may
// speak from there, and be sent to where a late packet of it came from.
func (s *session) hasOther() bool {
	return slices.ContainsFunc(s.remotes, func(r remote) bool {
		return r.standing == current && !slices.ContainsFunc(s.entry.Paths, func(p Path) bool { return p.Remote == r.l64 })
	})
}
