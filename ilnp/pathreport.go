package ilnp

import (
	"errors"
	"maps"
	"time"

	"roam/multipath"
	ilnpwire "roam/wire/ilnp"
)

// The programs of a correspondent that runs Roam count what arrives along each path of a session
// whose paths are counted, and report it in their answers to probes that ask for it
// (package wire/ilnp, Report). This host counts what it sends. The two together say what a path
// delivers, and what it loses, in each direction: multipath.Estimator. Reports decide about this
// host's own packets to that correspondent and about nothing else.
const (
	reportsUnfilled = 3               // answers without a report after which none is asked for
	estimatesMost   = 2 * MaxPaths    // paths of a session of which something is kept
	estimateLasts   = 5 * time.Minute // of a path that is not in use
)

// PathCounts is what the data plane has counted of the data along one path of a session. The
// epoch changes when it begins anew.
type PathCounts struct {
	Epoch          uint32
	Told           uint8 // what the path costs by the correspondent's measure, as its last probe said,
	IsTold         bool  // if there was one in this epoch
	Sent, Received multipath.Traffic
}

// pathReports is what the reports of a session's correspondent say of its paths.
type pathReports struct {
	estimates map[Path]*estimate
	told      map[Path]uint8 // what paths cost by its measure; nil: it has given no report yet
	unfilled  int            // answers in a row that came back without a report
	came      time.Time      // when one came that counts
	stopped   time.Time      // when unfilled became reportsUnfilled; zero: paths have changed since
	macs      reportMACs     // of a keyed session
	wished    bool           // its last probe asks that paths be counted,
	answers   bool           // and that flows which it marks be answered on their paths
	crosses   bool           // it withholds blocks of SACK, as its last report says
}

// estimate is what is known of one path.
type estimate struct {
	multipath.Estimator
	last  time.Time            // when an answer came
	aside *multipath.Estimator // by reports that other paths bring, as the path's own do not count; nil: they do
}

// asksReport reports whether probes of a session ask for reports: of other stacks, and of Roam
// before there were reports, a few answers show that they come back as they went.
func (s *session) asksReport() bool { return s.mayReport() && s.runsRoam() }

// mayReport reports whether the correspondent may give reports, for all that is known of it.
func (s *session) mayReport() bool {
	return s.state == Established && s.reports.unfilled < reportsUnfilled && (s.keys == nil || s.keys.out != nil)
}

// isSeveral reports whether a session uses several paths, those for rules and for answers to them among them, would
// if it did not avoid one, did until a moment ago, or may have to change over as its only one seems to drop data.
func (s *session) isSeveral(paths []Path) bool {
	return len(paths) > 1 || s.isAvoiding() || len(s.left) > 0 || !s.check.counts.IsZero()
}

// countsPaths reports whether the data plane is to count the data of a session path by path, as
// either end uses several. Of a single path the counts of the session say enough.
func (c *node) countsPaths(s *session, paths []Path) bool {
	return c.cfg.PathCounts != nil && s.state == Established && s.runsRoam() && (s.isSeveral(paths) || s.reports.wished)
}

// wishCounts takes whether the correspondent asks that paths be counted. That it runs Roam may have
// shown since the entry was written.
func (c *steering) wishCounts(now time.Time, s *session, wished bool) {
	s.reports.wished = wished
	if s.entry.Seq != 0 && s.entry.Counted != c.countsPaths(s, s.carriers()) {
		c.upsert(now, s, s.entry.Paths)
	}
}

// askReport makes a probe of a path that data take ask for a report, if there may be one. To
// locators that are not validated probes stay short.
func (c *node) askReport(pr *probe) {
	s, ok := pr.from.(*session)
	if !ok || !pr.lone {
		return
	}
	if s.reports.resume(pr.sent, sealsReports(s)); !s.asksReport() && (pr.train == nil || !s.mayReport()) {
		return // a train asks early, as the report has the time of arrival
	}
	if r := s.remotes.find(pr.path.Remote); r == nil || !r.validated {
		return
	}
	pr.report, pr.sealed = true, asksSealed(s)
	pr.counts, pr.answers = s.entry.Counted && s.isSeveral(s.carriers()), c.rules.marks(s.entry.Rules)
	if pr.counts {
		pr.cost = s.multipath.RateCost(pr.path)
		pr.left, pr.counted = c.cfg.PathCounts(s.key, pr.countsOf())
	}
}

// countsOf returns the path whose counts a probe asks for.
func (pr probe) countsOf() Path {
	if (pr.about != Path{}) {
		return pr.about
	}
	return pr.path
}

// estimateOf returns what is known of a path; nil: there are too many.
func (s *session) estimateOf(now time.Time, p Path) *estimate {
	if e := s.reports.estimates[p]; e != nil {
		e.last = now
		return e
	}
	maps.DeleteFunc(s.reports.estimates, func(_ Path, e *estimate) bool { return now.Sub(e.last) > estimateLasts })
	if len(s.reports.estimates) >= estimatesMost {
		return nil
	}
	if s.reports.estimates == nil {
		s.reports.estimates = make(map[Path]*estimate)
	}
	s.reports.estimates[p] = &estimate{last: now}
	return s.reports.estimates[p]
}

// restEstimates drops single reports of a session that sends nothing for now.
func (s *session) restEstimates() {
	for _, e := range s.reports.estimates {
		e.Rest()
		e.aside = nil
	}
}

// takeReport takes what the answer to a probe says of its path.
func (c *liveness) takeReport(now time.Time, s *session, pr probe, p ilnpwire.Packet) {
	if pr.form > FormUDP || pr.sizing || p.Type != ilnpwire.TypeEchoReply {
		return
	}
	e := s.estimateOf(now, pr.path)
	if e == nil {
		return
	}
	e.HandleAnswer(now, pr.sent)
	s.multipath.HandleRTT(now, pr.path, pr.sent)
	s.check.noteAsked(pr)
	r, ok := c.reportIn(now, s, pr, p)
	if !ok {
		questions{c}.askInstead(now, s, pr, e)
		return
	}
	s.reports.crosses = r.Crosses
	if r.Cross && pr.cross != (ilnpwire.Connections{}) {
		crossings{&c.steering}.begin(now, s)
	}
	c.takeCost(now, s, pr)
	if (pr.about != Path{}) {
		c.takeAlive(now, s, pr, r)
		questions{c}.takeDelivery(now, s, pr, r)
		c.takeLoss(now, s, pr, r)
		questions{c}.takeInstead(now, s, pr, r)
		return
	}
	e.aside = nil
	if reason := c.judgeReport(now, s, pr, &e.Estimator, r); reason != "" {
		c.refuse(now, s.key, reason)
		return
	}
	out := e.State(now).Out
	s.multipath.HandleLoss(now, pr.path, out.LossKnown && out.Loss > 0)
	if out.Overflows {
		s.multipath.HandleOverflow(now, pr.path)
	}
	c.checkRate(now, s, pr.path, out.Rate, now.Sub(pr.sent))
	c.leaveSlower(now, s, pr.path, out)
	c.leaveBlackHole(now, s, pr.path, out)
}

// takeCost takes what the correspondent has told of the path of a probe that it answered with a report. It has
// this host's measure from that probe, so both ends deal whole connections alike.
func (c *liveness) takeCost(now time.Time, s *session, pr probe) {
	if (pr.about != Path{}) || !pr.counts {
		return
	}
	own, ok := c.cfg.PathCounts(s.key, pr.path)
	told := min(own.Told, multipath.CostMost)
	if !own.IsTold {
		told = s.reports.told[pr.path] // counting has begun anew since
	}
	if !ok || s.reports.told != nil && s.reports.told[pr.path] == told {
		return
	}
	if s.reports.told == nil {
		s.reports.told = make(map[Path]uint8)
	}
	if s.reports.told[pr.path] = told; told == 0 {
		delete(s.reports.told, pr.path)
	}
	c.upsert(now, s, s.entry.Paths)
}

// judgeReport hands a report to an estimator of the path that it is about. It returns the reason to refuse it, or "".
func (c *liveness) judgeReport(now time.Time, s *session, pr probe, e *multipath.Estimator, r ilnpwire.Report) string {
	if !pr.counted || !r.Counted {
		return ""
	}
	own, ok := c.cfg.PathCounts(s.key, pr.countsOf())
	if !ok || own.Epoch != pr.left.Epoch {
		return ""
	}
	err := e.HandleReport(multipath.PathReport{
		Sent: pr.sent, Clock: r.Clock, Came: now, Epoch: r.Epoch, OwnEpoch: own.Epoch,
		Left: pr.left.Sent, LeftNow: own.Sent, Arrived: multipath.Traffic(r.Received),
		PeerLeft: multipath.Traffic(r.Sent), Got: own.Received,
	})
	switch {
	case errors.Is(err, multipath.ErrReportBack):
		return reasonReportBack
	case errors.Is(err, multipath.ErrReportAbove):
		return reasonReportAbove
	case errors.Is(err, multipath.ErrReportClock):
		return reasonReportClock
	}
	return ""
}
