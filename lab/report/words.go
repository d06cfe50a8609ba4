package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"roam/lab/result"
)

// engines say what an engine is to readers who do not know the lab.
var engines = map[string]string{
	"netns": "The experiment ran real programs on this machine's kernel, in network namespaces",
	"sim":   "The experiment ran in a simulated network in virtual time, without a kernel",
	"vm":    "The experiment ran real programs on a real kernel in a guest whose time is virtual",
}

// lead is the first paragraph of a report: what was done, what was found, how it compares.
func lead(r *result.Result) string {
	return strings.Join([]string{did(r), found(r), compares(r)}, " ")
}

// did says how it was run, below the title that says what.
func did(r *result.Result) string {
	s := engines[r.Engine]
	if s == "" {
		s = "The experiment ran"
	}
	if r.Runs > 1 {
		s += fmt.Sprintf(", %d times", r.Runs)
	}
	took := fmt.Sprintf("%.0f s", r.Seconds)
	if r.Seconds < 1 {
		took = "less than a second"
	}
	return s + fmt.Sprintf(" (preset %s, %s).", r.Preset, took)
}

// found says which claims hold, and names those that do not.
func found(r *result.Result) string {
	pass, fail, missed := r.Count()
	var failing []string
	for _, c := range r.Claims {
		if c.Measured && class(c) == "fail" {
			failing = append(failing, fmt.Sprintf("%s (%s, bound %s)", c.Says, value(c), bound(c)))
		}
	}
	s := fmt.Sprintf("%d of the %d claims that it measured hold", pass, pass+fail)
	switch {
	case pass+fail == 0:
		return "It measured none of its claims."
	case len(failing) > 3:
		s += fmt.Sprintf("; the first of %d that do not: %s", len(failing), failing[0])
	case len(failing) > 0:
		s += "; not: " + strings.Join(failing, "; ")
	case fail == 0 && pass > 1:
		s = fmt.Sprintf("All %d claims that it measured hold", pass)
	}
	switch n := unjudged(r); {
	case n == 1:
		missed--
		s += ", and 1 of time was not judged"
	case n > 1:
		missed -= n
		s += fmt.Sprintf(", and %d of time were not judged", n)
	}
	if missed > 0 {
		s += fmt.Sprintf(", and %d could not be measured", missed)
	}
	return strings.TrimSpace(r.Summary + " " + s + ".")
}

// compares sets the measured values beside the published ones, and names the one that is
// farthest from it.
func compares(r *result.Result) string {
	of, best, clearest, far := 0, 0, "", 0.0
	for _, c := range r.Claims {
		p, ok := spanOf(c)
		if !ok || !c.Measured {
			continue
		}
		of++
		if p.met(c.Op) {
			best++
		}
		if d := p.distance(); d > far {
			far = d
			says, _, _ := strings.Cut(c.Says, ". ")
			clearest = fmt.Sprintf("; the widest difference: %s, %s here, %s published", says, value(c),
				strings.TrimSpace(published(c)))
		}
	}
	switch of {
	case 0:
		if anyPublished(r) {
			return "The publication gives no numbers for what was measured."
		}
		return "No publication has these figures; the bounds are Roam's own."
	}
	return fmt.Sprintf("Published numbers that it meets or betters: %d of %d%s.", best, of, clearest)
}

// span is a published value beside the measured one, in one unit.
type span struct {
	lo, hi, value float64
	unit          string
}

// meanMax matches a mean and a maximum in words: "mean 2 %, max 8 %".
var meanMax = regexp.MustCompile(`^mean ([0-9.]+) (\S+), max ([0-9.]+) (\S+)$`)

// spanOf returns what was published as numbers. Nothing of whatever was counted is 0 % of it,
// so a claim that counts what a paper gives in per cent compares if it counted none.
func spanOf(c result.Claim) (s span, ok bool) {
	if c.Published == nil || c.Value == nil || isFlag(c) || c.Of != "" {
		return s, false
	}
	s = span{value: *c.Value, unit: c.Unit}
	if s.lo, s.hi, ok = c.Published.Range(c.Unit); ok {
		return s, true
	}
	m := meanMax.FindStringSubmatch(c.Published.Text)
	if m == nil || m[2] != m[4] || m[2] != c.Unit && (m[2] != "%" || *c.Value != 0) {
		return s, false
	}
	s.unit = m[2]
	s.lo, _ = strconv.ParseFloat(m[1], 64) // the expression lets only digits and dots through
	s.hi, _ = strconv.ParseFloat(m[3], 64)
	return s, true
}

// met reports whether the measured value is within the published one or on the good side.
func (s span) met(op string) bool {
	const slack = 1e-9
	switch op {
	case "<=":
		return s.value <= s.hi+slack
	case ">=":
		return s.value >= s.lo-slack
	}
	return s.value >= s.lo-slack && s.value <= s.hi+slack || s.value == 0 && s.lo > 0
}

// distance is how far the measured value is outside the published ones, relative to them.
func (s span) distance() float64 {
	size := max(s.hi, -s.hi, 1e-9)
	return max(0, s.lo-s.value, s.value-s.hi) / size
}

// words are the terms that reports use, each with what finds it in a page.
var words = []struct{ term, find, means string }{
	{"arm", `\barms?\b`,
		"One way of doing the same thing, to compare: with Roam, with plain IPv6, with another protocol."},
	{"control", `\b(static )?controls?\b`,
		"The same traffic without what is under test: plain IPv6, or a path that never changes."},
	{"correspondent", `\bcorrespondents?\b`, "The host at the other end of a session, which does not move."},
	{"duality", `\bduality\b`, "All links carry traffic at once."},
	{"gap", `\bgaps?\b`, "The time between two packets, or two reads, in which nothing arrived."},
	{"goodput", `\bgoodput\b`,
		"Bytes that the application received, by time; neither headers nor retransmissions."},
	{"hard handoff", `\bhard\b`, "The old link fails before the new one is in use: what is in flight is lost."},
	{"locator", `\blocators?\b`, "The high half of an IPv6 address: the network that a host is in."},
	{"Locator Update (LU)", `\bLocator Updates?\b|\bLU\b`,
		"The ICMPv6 message (type 156, RFC 6743) by which a host announces its locators to its peers; they acknowledge it."},
	{"nonce", `\bnonces?\b`,
		"A random number that both ends of a session know; a packet that moves a session must have it (RFC 6744)."},
	{"preset", `\bpreset\b`, "How much of an experiment is run, and for how long: quick, standard or full."},
	{"Router Advertisement (RA)", `\bRouter Advertisements?\b|\bRA\b`,
		"The message by which a router announces the prefix of its network."},
	{"RTT", `\bRTTs?\b|\bround-trip time`, "Round-trip time: from a packet to its answer."},
	{"soft handoff", `\bsoft\b`, "The new link is in use before the old one goes: nothing need be lost."},
	{"stall", `\bstall|stood still`, "A time in which a core did not run what was ready to run, grey in the figures. " +
		"Figures of time that were measured then are not judged, unless Roam's daemon itself kept the core (red)."},
}

// glossary explains the terms that occur in a report.
func glossary(r *result.Result) (out []row) {
	var b strings.Builder
	b.WriteString(r.Title + " preset ")
	for _, c := range r.Claims {
		b.WriteString(c.Says + " " + c.Source + " ")
	}
	for _, f := range r.Figures {
		b.WriteString(f.Title + " " + f.Caption + " ")
	}
	for _, t := range r.Tables {
		b.WriteString(t.Title + " " + t.Note + " " + strings.Join(t.Columns, " ") + " ")
		for _, cells := range t.Rows {
			b.WriteString(strings.Join(cells, " ") + " ")
		}
	}
	for _, e := range r.Events {
		b.WriteString(e.Label + " ")
	}
	if r.StallMonitor.Disturbed || len(r.StallMonitor.Stalls) > 0 {
		b.WriteString("stall ")
	}
	text := b.String()
	for _, w := range words {
		if regexp.MustCompile(`(?i)` + w.find).MatchString(text) {
			out = append(out, row{w.term, w.means})
		}
	}
	slices.SortFunc(out, func(a, b row) int { return strings.Compare(strings.ToLower(a.Key), strings.ToLower(b.Key)) })
	return out
}
