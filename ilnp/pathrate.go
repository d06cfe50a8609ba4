package ilnp

import (
	"maps"
	"slices"
	"time"

	"roam"
	"roam/multipath"
	ilnpwire "roam/wire/ilnp"
)

// A train is two probes with a few large packets between them (multipath/rate.go). These are
// echo replies that no program waits for: the other end drops them, so nothing of that size
// comes back, and the way there alone is measured.
const (
	trainPackets = 10
	trainSize    = 1200                            // bytes of data of each
	trainBytes   = trainPackets * (trainSize + 70) // on a link, with its own header and those of IPv6, ICMPv6 and nonce
	trainAgain   = time.Second                     // after one that was lost, at most,
	trainSoon    = 4                               // or so many waits for an answer while TCP has left the path
	trainsRest   = time.Minute                     // without data, after which no rate is measured anew
	ratesMost    = 2 * MaxPaths                    // paths of a session whose rates are kept
	leaveAfter   = 25 * time.Millisecond           // beyond the wait for an answer,
	leaveSure    = 10 * time.Millisecond           // before a short queue, beyond that and its longest round trip
)

// pathTrain is the train that is under way on a path.
type pathTrain struct {
	multipath.Train
	sent  time.Time
	check bool // the rate is known: it may have risen
	void  bool // a doubt began: it may have waited in a queue
}

// rates are those of the paths of one session. Each session measures its own: a train's answer is what the peer
// says, and other peers at the same locator have the same paths.
type rates map[Path]multipath.Rate

// measureRates sends trains along the paths in use whose rates are not known.
func (c *steering) measureRates(now time.Time, s *session) {
	for _, p := range s.entry.Paths {
		c.measureRate(now, s, p)
	}
}

// measureRate sends a train along a path in use whose rate is not known.
func (c *steering) measureRate(now time.Time, s *session, p Path) { c.sendTrain(now, s, p, false) }

// checkRate sends a train along a path that data fill: they cannot show that it has become faster. With a queue it has
// not, and a train might overflow that.
func (c *steering) checkRate(now time.Time, s *session, p Path, rate float64, rtt time.Duration) {
	if !s.multipath.IsQueue(p, rtt) && s.rates[p].Checks(now, rate, trainBytes) {
		c.sendTrain(now, s, p, true)
	}
}

// leaveLate has TCP leave a path in doubt that data fill and that is late with what another one has delivered, until
// its rate is measured anew. Each further round trip would cost TCP a part of its window. If it was but a lost probe,
// the path is back within some round trips. An answer is late only by more than a busy host delays one that is there. A
// short queue that is full swallows a probe, so there the second one, which leaves after the wait for the first, is to
// be late, too.
func (c *steering) leaveLate(now time.Time, s *session, h *checkedPath) {
	takes := func(p Path) bool { return slices.Contains(s.entry.Paths, p) && !slices.Contains(s.entry.Long, p) }
	after := leaveAfter
	if most, short := s.multipath.ShortQueue(now, h.Path); short {
		after = max(leaveAfter, most+leaveSure)
	}
	e, late := s.reports.estimates[h.Path], h.since.Add(h.Wait(c.timingOf(h.Path), s.rtt)+after)
	if now.Before(late) || !takes(h.Path) || e == nil || !s.rates[h.Path].IsFilled(now, e.State(now).Out.Most) {
		return
	}
	answers := slices.ContainsFunc(s.check.paths, func(o *checkedPath) bool {
		return o != h && takes(o.Path) && !o.Heard().Before(h.since)
	})
	if answers && c.doubtRate(now, s, h.Path) {
		s.multipath.HandleLate(now, h.Path)
		c.upsert(now, s, s.entry.Paths)
	}
}

// leaveSlower has TCP leave a path whose queue empties more slowly than its rate says, until that is measured anew. A
// short queue overflows before a probe is late. Where packets are lost at once, it asks a train.
func (c *steering) leaveSlower(now time.Time, s *session, p Path, out multipath.Direction) {
	takes := slices.Contains(s.entry.Paths, p) && !slices.Contains(s.entry.Long, p)
	r := s.rates[p]
	if !takes || !r.IsFilled(now, out.Most) {
		return
	}
	if r.IsSlower(now, out.Carries) && c.doubtRate(now, s, p) {
		s.multipath.HandleLate(now, p)
		c.upsert(now, s, s.entry.Paths)
	} else if alarmed, ok := r.Alarmed(now); ok && out.Overflows {
		s.rates.put(now, p, s.entry.Paths, alarmed)
		c.sendTrain(now, s, p, true)
	}
}

// doubtRate has a known rate measured anew, unless that was done too often of late.
func (c *steering) doubtRate(now time.Time, s *session, p Path) bool {
	r, anew := s.rates[p].Doubted(now, trainBytes)
	if anew {
		s.rates.put(now, p, s.entry.Paths, r)
		if t := s.trains[p]; t != nil {
			t.void = true
			delete(s.trains, p)
		}
	}
	return anew
}

// sendTrain sends one along a path in use if the rate is not known, or may have risen.
func (c *steering) sendTrain(now time.Time, s *session, p Path, check bool) {
	r := s.remotes.find(p.Remote)
	known := r != nil && r.validated && s.update.lists(p.Local.L64)
	if !known || !c.mayTrain(s, p) || !check && !s.rates[p].Measured(now).Wants {
		return
	}
	// The trains of both ends pass for data of the session: renewed with each Locator Update, they would keep it for ever.
	if s.rates[p].Last() > 0 && s.idleIn(trainsRest, now) <= 0 {
		return
	}
	if t := s.trains[p]; t != nil {
		if now.Sub(t.sent) < c.trainWait(s, p) {
			return
		}
		delete(s.trains, p)
		if t.check {
			s.rates.put(now, p, s.entry.Paths, s.rates[p].Checked(now))
		} else if s.rates.put(now, p, s.entry.Paths, s.rates[p].Without(now)); !s.rates[p].Measured(now).Wants {
			c.upsert(now, s, s.entry.Paths) // TCP waits no longer
			return
		}
	}
	if drained, ask := s.multipath.IsDrained(now, p); !drained {
		if ask {
			c.sendProbe(now, c.ask(now, s), probe{path: p, moot: true, lone: true})
		}
		return
	}
	t := &pathTrain{sent: now, check: check}
	if s.trains == nil {
		s.trains = make(map[Path]*pathTrain)
	}
	s.trains[p] = t
	before, ok := c.makeProbe(now, c.ask(now, s), probe{path: p, moot: true, lone: true, train: t})
	behind, also := c.makeProbe(now, c.ask(now, s), probe{path: p, moot: true, lone: true, train: t, behind: true})
	src, dst := roam.ILV{NID: s.localNID, L64: p.Local.L64}, roam.ILV{NID: s.remoteNID, L64: p.Remote}
	large, err := ilnpwire.BuildEcho(src, dst, s.localNonce, false, ^c.cfg.ProbeID, 0, make([]byte, trainSize))
	if !ok || !also || err != nil {
		return
	}
	train := append(slices.Repeat([][]byte{large}, trainPackets), behind)
	c.emit(Transmit{Link: p.Local.Link, Packet: before, Behind: train})
}

// trainWait returns how long the answers to a train are waited for. A queue that has overflowed drops some when TCP has
// just left the path, and TCP waits for them.
func (c *steering) trainWait(s *session, p Path) time.Duration {
	if h := s.check.find(p); h != nil && s.multipath.IsLate(p) {
		return min(trainSoon*h.Wait(c.timingOf(p), s.rtt), trainAgain)
	}
	return trainAgain
}

// trainAnswered takes the answer to a probe, and reports whether it is one of a train. Of these
// the first one alone shows how long the path is.
func (c *steering) trainAnswered(now time.Time, s *session, pr probe, p ilnpwire.Packet) bool {
	switch {
	case pr.train == nil:
		return false
	case !pr.behind:
		c.noteLength(now, s, pr)
	}
	if rate, ok := pr.train.HandleAnswer(c.arrivalOf(now, s, pr, p), pr.behind, trainBytes); ok && !pr.train.void {
		if s.trains[pr.path] == pr.train {
			delete(s.trains, pr.path)
		}
		c.noteTrain(now, s, pr, rate)
		c.upsert(now, s, s.entry.Paths)
		c.measureRate(now, s, pr.path)
	}
	return true
}

// noteTrain takes the rate of a train.
func (c *steering) noteTrain(now time.Time, s *session, pr probe, bytes float64) {
	r := s.rates[pr.path]
	if pr.train.check {
		queue := s.multipath.IsQueue(pr.path, pr.train.Took(pr.train.sent)) // of a path that has risen none is left
		rises, falls := r.IsRise(now, bytes) && !queue, r.IsFall(now, bytes)
		if r = r.Checked(now); rises || falls {
			if anew, ok := r.Doubted(now, trainBytes); ok {
				r = anew.With(now, bytes)
				if falls {
					s.multipath.HandleLate(now, pr.path)
				}
			}
		}
	} else {
		r = r.With(now, bytes)
	}
	s.rates.put(now, pr.path, s.entry.Paths, r)
}

// arrivalOf returns when a probe arrived, given its answer.
func (c *steering) arrivalOf(now time.Time, s *session, pr probe, p ilnpwire.Packet) multipath.Arrival {
	a := multipath.Arrival{Came: now}
	if r, ok := c.reportIn(now, s, pr, p); ok {
		if a.Timed, a.Clock = true, r.Clock; r.Counted {
			a.Epoch, a.Data = r.Epoch, multipath.Traffic(r.Received)
		}
	}
	return a
}

// put keeps the rate of a path. A host that moves leaves its paths behind: where there are too many, those of old
// rates are forgotten, and then those that are not in use.
func (rs *rates) put(now time.Time, p Path, used []Path, r multipath.Rate) {
	if *rs == nil {
		*rs = make(rates)
	}
	if len(*rs) >= ratesMost {
		maps.DeleteFunc(*rs, func(_ Path, r multipath.Rate) bool { return r.IsOld(now) })
	}
	if len(*rs) >= ratesMost {
		maps.DeleteFunc(*rs, func(p Path, _ multipath.Rate) bool { return !slices.Contains(used, p) })
	}
	(*rs)[p] = r
}

// mayTrain reports whether the rate of a session's path is measured: in UDP no train is sent.
func (c *steering) mayTrain(s *session, p Path) bool {
	used := len(s.entry.Paths) > 1 && slices.Contains(s.entry.Paths, p)
	return c.cfg.Trains && used && s.echoes && s.state == Established && !s.encaps(p)
}

// ratesOf returns the rates of paths; nil: they are not measured.
func (c *steering) ratesOf(now time.Time, s *session, paths []Path) map[Path]multipath.Measured {
	if !c.cfg.Trains || len(paths) < 2 || s.leavesProbes() {
		return nil
	}
	rates := make(map[Path]multipath.Measured, len(paths))
	for _, p := range paths {
		switch v := s.passages[p]; {
		case v.isFresh():
			rates[p] = multipath.Measured{Wants: true}
		case !v.encap:
			rates[p] = s.rates[p].Measured(now)
		}
	}
	return rates
}
