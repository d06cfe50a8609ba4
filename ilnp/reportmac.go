package ilnp

import (
	"crypto/hmac"
	"errors"
	"slices"
	"time"

	"roam/multipath"
	ilnpwire "roam/wire/ilnp"
)

// In a keyed session a report counts with a MAC only (wire/ilnp.ReportMAC), which the peer's programs make. So a
// node on the path that reads the nonce and the token of a probe cannot lie in the peer's name. A build before these
// makes none, and counts as one only if it has said nothing else: by the proof at set-up, or by a report with a MAC.

// reportMACs is what is known of a keyed session's peer.
type reportMACs uint8

const (
	macsSought reportMACs = iota // probes ask for them
	macsNone                     // it has answered such probes without a report: they ask for one without a MAC
	macsSure                     // a report had one
)

const (
	suppressedLately = 5 * time.Second  // so long after a report answers without one do not show that the peer makes none
	suppressedPause  = 30 * time.Second // so long a peer that makes MACs is asked for none when answers bring none
)

// sealsReports reports whether the peer of a keyed session has shown that its reports have MACs. It stays so.
func sealsReports(s *session) bool {
	return s.reports.macs == macsSure || s.agreed != nil && s.agreed.reports
}

// asksSealed reports whether probes of a session ask for reports with a MAC.
func asksSealed(s *session) bool {
	return s.keys != nil && (s.reports.macs != macsNone || sealsReports(s))
}

// reportIn returns the report in the answer to a probe; false: there is none that counts. All reports come by here.
func (c *node) reportIn(now time.Time, s *session, pr probe, p ilnpwire.Packet) (r ilnpwire.Report, ok bool) {
	m, err := ilnpwire.ParseEcho(p.Payload)
	if !pr.report || p.Type != ilnpwire.TypeEchoReply || err != nil {
		return r, false
	}
	r, err = ilnpwire.ParseReport(m.Data)
	if errors.Is(err, ilnpwire.ErrNotFilled) {
		s.reports.noteUnfilled(now, pr, sealsReports(s))
		return r, false
	}
	reason := ""
	if err != nil {
		reason = reasonReport
	} else if s.keys != nil && (pr.sealed || r.Sealed || sealsReports(s)) {
		reason = s.keys.faultOfReport(pr, r, m.Data)
	}
	if reason != "" {
		c.refuse(now, s.key, reason)
		return r, false
	}
	if s.reports.unfilled, s.reports.came = 0, now; r.Sealed && s.keys != nil {
		s.reports.macs = macsSure
	}
	return r, true
}

// faultOfReport returns why a report is not the peer's own, about the path that its probe asks for, or "".
func (k *keying) faultOfReport(pr probe, r ilnpwire.Report, data []byte) string {
	if !r.Sealed {
		return reasonReportNoMAC
	}
	if k.out == nil {
		return reasonReportWrongMAC
	}
	about := pr.countsOf()
	mac := ilnpwire.ReportMAC([ilnpwire.MACKeyLen]byte(k.out), data, about.Remote, about.Local.L64)
	if !hmac.Equal(mac[:], r.MAC[:]) {
		return reasonReportWrongMAC
	}
	return ""
}

// noteUnfilled takes an answer without a report; sure: the peer has shown a MAC. A peer that has never shown one may
// be of a build that does not know the longer request. One that has still makes them if another path brings reports.
func (r *pathReports) noteUnfilled(now time.Time, pr probe, sure bool) {
	if pr.train != nil || pr.sealed && sure && now.Sub(r.came) < suppressedLately {
		return
	}
	r.unfilled++
	if r.unfilled < reportsUnfilled {
		return
	}
	r.stopped = now
	if pr.sealed && !sure {
		r.macs, r.unfilled = macsNone, 0
	}
}

// resume ends that a peer that makes MACs is asked for no reports: somebody has suppressed them on all paths, who may
// have left, or is not on a path that came into use. It counts anew, so that each of two paths is asked.
func (r *pathReports) resume(now time.Time, sure bool) {
	if sure && r.unfilled >= reportsUnfilled && now.Sub(r.stopped) >= suppressedPause {
		r.unfilled = 0
	}
}

// seekMACs takes the first message with a right MAC under the present keys: the peer has this host's key by now. Its
// programs may have lacked that key when answers had no MAC.
func (r *pathReports) seekMACs() {
	if r.macs == macsNone {
		r.macs, r.unfilled = macsSought, 0
	}
}

// askInstead asks for the counts of a path along another one, as an answer that came by it brought no report that
// counts, although the peer makes them. Somebody on the path may drop the data, let probes pass, and suppress
// what the peer has counted.
func (c questions) askInstead(now time.Time, s *session, pr probe, e *estimate) {
	own := pr.sealed && pr.about == Path{}
	if s.keys == nil || !own || !sealsReports(s) || !slices.Contains(s.carriers(), pr.path) {
		return
	}
	if e.aside == nil {
		e.aside = &multipath.Estimator{}
	}
	c.askAbout(now, s, pr.path)
}

// takeInstead takes such counts. The path is avoided if nothing arrives of what is sent there.
func (c questions) takeInstead(now time.Time, s *session, pr probe, r ilnpwire.Report) {
	e := s.reports.estimates[pr.about]
	if e == nil || e.aside == nil || !r.Other {
		return
	}
	if reason := c.judgeReport(now, s, pr, e.aside, r); reason != "" {
		c.refuse(now, s.key, reason)
		return
	}
	c.leaveBlackHole(now, s, pr.about, e.aside.State(now).Out)
}
