package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"roam/internal/cli"
	"roam/internal/config"
	"roam/internal/control"

	"github.com/spf13/cobra"
)

func (a *app) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use: "explain PEER [PORT]", Short: "Explain a session, or with PORT the path of its packets",
		Args: peerAndPort, ValidArgsFunction: a.completePeers,
		RunE: func(cmd *cobra.Command, args []string) error { return a.explain(cmd.Context(), args[0], args[1:]) },
	}
}

// explanation is what `roam explain --json` prints.
type explanation struct {
	Session    control.Session `json:"session"`
	Paragraphs []paragraph     `json:"paragraphs"`
	Events     []control.Event `json:"events"` // of the peer, and moves of this host
	Flows      []control.Flow  `json:"flows,omitempty"`
}

type paragraph struct {
	About string `json:"about"` // "who", "setup", "paths", "past", "next", "rules", or "role" and its name
	Text  string `json:"text"`
}

// situation is the input of an explanation.
type situation struct {
	status   control.Status
	locators []control.Locator
	session  control.Session
	history  []control.Event // both of the following, as they happened
	events   []control.Event // of the peer
	moves    []control.Event // of this host
	roles    []control.RoleReport
	port     int // of the flows that were asked about
	flows    []control.Flow
	idle     string // after which a session ends
	fallback string // for which "no ILNP there" is remembered
	uplinks  config.Uplinks
}

func (a *app) explain(ctx context.Context, word string, port []string) error {
	var s situation
	err := a.ask(ctx, func(ctx context.Context, b control.Backend) (err error) {
		if err = s.ask(ctx, b, word); err == nil {
			err = s.askFlows(ctx, b, port)
		}
		return err
	})
	if err != nil {
		return err
	}
	if cfg, err := inForce(a); err == nil {
		s.idle, s.fallback, s.uplinks = span(cfg.ILNP.IdleTimeout), span(cfg.ILNP.FallbackLifetime), cfg.Uplinks
	}
	out := explanation{Session: s.session, Events: append([]control.Event{}, s.history...), Flows: s.flows}
	for _, p := range append([]paragraph{
		{"who", s.who()}, {"setup", s.setup(a)}, {"paths", s.ways()}, {"past", s.past(a)}, {"next", s.next()},
		{"rules", s.rules()},
	}, s.ofRoles()...) {
		if p.Text != "" {
			out.Paragraphs = append(out.Paragraphs, p)
		}
	}
	if a.JSON {
		return a.PrintJSON(out)
	}
	for _, p := range out.Paragraphs {
		a.Fill(a.Paint(cli.Bold, fmt.Sprintf("%-5s", p.About))+"  ", p.Text)
	}
	if len(out.Events) > 0 {
		fmt.Fprintln(a.Out)
	}
	runs := runsOf(out.Events)
	for _, r := range runs[max(0, len(runs)-12):] {
		a.folded(r)
	}
	return nil
}

// ask collects the situation of the peer that word names.
func (s *situation) ask(ctx context.Context, b control.Backend, word string) error {
	var others known
	found := false
	err := b.EachSession(ctx, func(one control.Session) error {
		switch {
		case found:
		case isPeer(one, word):
			s.session, found = one, true
		default:
			others.add(one)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !found {
		return others.refuse(word)
	}
	if s.status, err = b.Status(ctx); err != nil {
		return err
	}
	if s.locators, err = b.Locators(ctx); err != nil {
		return err
	}
	events, err := b.History(ctx)
	for _, e := range events {
		since := s.session.Since
		switch {
		case e.Peer == s.session.RemoteAlias:
			s.events = append(s.events, e)
		case e.Peer == 0 && strings.HasPrefix(e.Kind, "handoff-") && !since.IsZero() && !e.Time.Before(since):
			s.moves = append(s.moves, e)
		default:
			continue
		}
		s.history = append(s.history, e)
	}
	if err != nil || len(s.status.Roles) == 0 {
		return err
	}
	s.roles, err = b.Roles(ctx, s.session.NID)
	return err
}

// ofRoles returns the paragraphs of the roles.
func (s situation) ofRoles() (out []paragraph) {
	for _, r := range s.roles {
		if len(r.Explain) > 0 {
			out = append(out, paragraph{"role " + r.Name, strings.Join(r.Explain, " ")})
		}
	}
	return out
}

func (s situation) who() string {
	out := fmt.Sprintf("%v", s.session.NID)
	if len(s.session.Names) > 0 {
		out = fmt.Sprintf("%s is %v", s.session.Names[0], s.session.NID)
	}
	out += fmt.Sprintf("; applications know it as %s.", s.session.Address)
	switch {
	case s.session.State == control.StateKnown:
		return out + " It is known, and there is no session with it."
	case s.session.Dead:
		out += " The session with it is " + s.session.State + ", but no path works at present."
	default:
		out += " The session with it is " + s.session.State + "."
	}
	if s.session.CountsError != "" {
		return out + " What was sent is not known: " + s.session.CountsError + "."
	}
	return out + fmt.Sprintf(" Sent: %d packets, %s; received: %d packets, %s.", s.session.TxPackets,
		nbytes(s.session.TxBytes), s.session.RxPackets, nbytes(s.session.RxBytes))
}

// last returns the newest event of a kind.
func last(list []control.Event, kind string) (control.Event, bool) {
	for _, e := range slices.Backward(list) {
		if e.Kind == kind {
			return e, true
		}
	}
	return control.Event{}, false
}

// setup explains how the session was set up.
func (s situation) setup(a *app) string {
	if s.session.State == control.StateKnown {
		return ""
	}
	out := "It began " + a.ago(s.session.Since)
	began, ok := last(s.events, control.KindSessionStarted)
	switch {
	case ok && began.Reason != "":
		out += ": " + began.Reason
	case s.session.Since.Before(s.status.Started):
		out += ", before this daemon, which took it over"
	}
	if e, established := last(s.events, "session-established"); established && !e.Time.Before(began.Time) {
		out += "; the nonces were exchanged"
		if took := e.Time.Sub(began.Time); ok && took > 0 {
			out += " within " + millis(control.Millis(took))
		}
	}
	switch {
	case s.session.State == "initiated":
		out += "; the correspondent has sent no nonce yet"
	case s.session.State == "plain":
		out += "; it is plain IPv6, without ILNP (" + s.session.WhyPlain + ")"
	}
	if s.session.Checksum == "rfc6741" {
		out += "; checksums count locators as zero, as RFC 6741 has it"
	}
	if s.session.ChecksumICMP == "rfc6741" {
		out += "; checksums of ICMPv6 count locators as zero"
	}
	switch s.session.UpdateForm {
	case "draft":
		out += "; Locator Updates have the draft's form"
	case "linux":
		out += "; Locator Updates have the form of a Linux kernel with ILNP"
	}
	if s.session.OptionOn == "always" {
		out += "; every packet carries the nonce"
	}
	if s.session.Encapsulation == "udp" {
		out += "; the path drops destination options or ICMPv6, so control goes in UDP and data without the nonce"
	}
	switch s.session.Spread {
	case "flow":
		out += "; something on a path in use tracks connections, so each TCP connection keeps to one path"
	case "length":
		out += "; some paths take more than twice as long as others, so TCP is spread over the short ones"
	}
	return out + "."
}

// ways explains which paths are in use.
func (s situation) ways() string {
	if s.session.State == control.StateKnown {
		return ""
	}
	if len(s.session.Paths) == 0 && len(s.session.Obstructed) > 0 {
		return "It has no path, and its packets are dropped: " + s.obstacles()
	}
	if len(s.session.Paths) == 0 {
		return "It has no path: " + map[bool]string{
			true: "this host has no locator that can be used.", false: "no locator of the correspondent is left.",
		}[len(s.usable()) == 0]
	}
	var links, remotes []string
	for _, p := range s.session.Paths {
		if w := p.Link + " (" + prefix(p.Local) + ")"; !slices.Contains(links, w) {
			links = append(links, w)
		}
		if w := prefix(p.Remote); !slices.Contains(remotes, w) {
			remotes = append(remotes, w)
		}
	}
	out := "Packets leave by " + strings.Join(links, " and ") + ", " + s.why(len(links)) + ", towards " +
		strings.Join(remotes, " and ") + s.whyThere() + "."
	if s.session.InUse != nil && len(s.session.Paths) > 1 {
		out += " The last ones took " + pathText(*s.session.InUse) + "."
	}
	var others []string
	for _, v := range ruledPaths(s.session) {
		others = append(others, pathText(v.Path)+" is "+v.Why)
	}
	if len(others) > 0 {
		out += " Besides, " + strings.Join(others, "; ") + "."
	}
	if len(s.session.Obstructed) > 0 {
		out += " Not used: " + s.obstacles()
	}
	return out
}

// obstacles names the paths that policies of this host obstruct.
func (s situation) obstacles() string {
	var out []string
	for _, o := range s.session.Obstructed {
		out = append(out, pathText(o.Path)+" is obstructed by "+o.By)
	}
	return strings.Join(out, "; ") + "."
}

func (s situation) why(links int) string {
	switch {
	case s.session.State == "plain":
		return "where it was when it fell back: a plain session stays on its locators"
	case links > 1:
		return "because in mode " + s.status.Mode + " every link that works carries its share"
	case len(s.usable()) == 1:
		return "the only link that can be used"
	case s.status.Mode == "duality":
		return "the only link on which the correspondent answers"
	}
	used, active := s.session.Paths[0].Link, s.active()
	if used != active {
		return s.whyNot(active)
	}
	all := "everything"
	if len(ruledPaths(s.session)) > 0 {
		all += " that no rule sends elsewhere"
	}
	return "because in mode " + s.status.Mode + " the " + s.preference(used) + " carries " + all
}

// active returns the link by which the host prefers to send, if it does not send by several.
func (s situation) active() string {
	i := slices.IndexFunc(s.locators, func(l control.Locator) bool {
		return !l.Disabled && (l.State == "active" || l.State == "expired")
	})
	if i < 0 {
		return s.session.Paths[0].Link
	}
	return s.locators[i].Link
}

// preference says what made the host prefer a link to the others that can be used.
func (s situation) preference(link string) string {
	others := slices.DeleteFunc(s.usable(), func(l string) bool { return l == link })
	equals := slices.DeleteFunc(slices.Clone(others), func(l string) bool {
		return s.uplinks.PreferenceOf(l) != s.uplinks.PreferenceOf(link)
	})
	if len(equals) == 0 {
		return "link with the lowest uplinks.preference that works"
	}
	placed := len(equals)
	equals = slices.DeleteFunc(equals, func(l string) bool { return s.uplinks.Place(l) != s.uplinks.Place(link) })
	switch {
	case len(equals) == 0:
		return "first link of uplinks.prefer that works"
	case placed < len(others) || len(equals) < placed:
		return "newest of the links that uplinks.preference and uplinks.prefer put first"
	}
	return "newest link that works"
}

// whyNot says why packets do not leave by the link that the host prefers.
func (s situation) whyNot(link string) string {
	out := "although the host prefers " + link
	for _, v := range s.session.Views {
		if v.Link == link && (strings.HasPrefix(v.Why, "avoided") || strings.HasPrefix(v.Why, "left")) {
			return out + ", as " + pathText(v.Path) + " is " + v.Why
		}
	}
	returned, ok := last(s.events, "handoff-returned")
	if moved, _ := last(s.moves, "handoff-started"); ok && !returned.Time.Before(moved.Time) {
		return out + ", as the correspondent has acknowledged no Locator Update with its locator"
	}
	return out
}

// whyThere explains the choice between the peer's locators.
func (s situation) whyThere() string {
	var out []string
	used := func(l control.RemoteLocator) bool {
		return slices.ContainsFunc(s.session.Paths, func(p control.SessionPath) bool { return p.Remote == l.L64 })
	}
	for _, l := range s.session.Locators {
		switch {
		case used(l) && !l.Validated:
			out = append(out, fmt.Sprintf("%s is not validated yet", prefix(l.L64)))
		case !used(l):
			out = append(out, fmt.Sprintf("%s (%s, preference %d) is held in reserve", prefix(l.L64), l.State, l.Preference))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "; " + strings.Join(out, "; ")
}

// usable returns the links with a usable locator.
func (s situation) usable() (out []string) {
	for _, l := range s.locators {
		if !l.Disabled && (l.State == "active" || l.State == "valid" || l.State == "expired") && !slices.Contains(out, l.Link) {
			out = append(out, l.Link)
		}
	}
	return out
}

// past describes the last move of either end, and its cost.
func (s situation) past(a *app) string {
	var out []string
	if e, ok := last(s.moves, "handoff-done"); ok {
		line := fmt.Sprintf("This host moved %s (%s): from %s to %s", a.ago(e.Time), e.Reason, linkLocators(e.From),
			linkLocators(e.To))
		if acked, ok := s.firstAck(); ok {
			line += fmt.Sprintf("; the correspondent's acknowledgement came %s after the Locator Update", millis(acked.RTTMS))
		}
		out = append(out, line+".")
	}
	if cost := s.cost(a); cost != "" {
		out = append(out, cost)
	}
	if e, ok := last(s.events, control.KindUpdateReceived); ok {
		out = append(out, fmt.Sprintf("The correspondent last announced its locators %s.", a.ago(e.Time)))
	}
	if e, ok := last(s.events, "peer-dead"); ok {
		line := fmt.Sprintf("No path worked %s", a.ago(e.Time))
		if alive, ok := last(s.events, "peer-alive"); ok && alive.Time.After(e.Time) {
			line += ", for " + millis(control.Millis(alive.Time.Sub(e.Time)))
		}
		out = append(out, line+".")
	}
	if len(out) == 0 && s.session.State != control.StateKnown {
		return "Neither end has moved since, as far as this daemon remembers."
	}
	return strings.Join(out, " ")
}

// cost says how many packets were lost as data last left a path.
func (s situation) cost(a *app) string {
	moved, known := last(s.moves, "handoff-started")
	left, ok := last(s.events, "path-avoided")
	if ok && left.Time.After(moved.Time) {
		moved, known = left, true
	}
	e, ok := last(s.events, control.KindPacketsLost)
	switch {
	case ok && !e.Time.Before(moved.Time) && e.Path != nil && e.Lost != nil:
		return fmt.Sprintf("As data left %s, %s, it lost %s of the packets sent and %s of those that the correspondent sent.",
			pathText(*e.Path), a.ago(e.Time), count(e.Lost.Sent), count(e.Lost.Received))
	case known:
		return "How many packets that cost is unknown: no report of the correspondent says so."
	}
	return ""
}

// firstAck returns the first acknowledgement since this host last began to move: later ones are
// those of refreshes.
func (s situation) firstAck() (control.Event, bool) {
	began, _ := last(s.moves, "handoff-started")
	for _, e := range s.events {
		if e.Kind == control.KindUpdateAcked && !e.Time.Before(began.Time) {
			return e, true
		}
	}
	return control.Event{}, false
}

// next predicts the next event.
func (s situation) next() string {
	var reserve []string
	for _, l := range s.usable() {
		if !slices.ContainsFunc(s.session.Paths, func(p control.SessionPath) bool { return p.Link == l }) {
			reserve = append(reserve, l)
		}
	}
	switch {
	case s.session.State == control.StateKnown:
		return "The first packet to it opens a session; it carries a nonce, and the answer says whether the peer has ILNP."
	case s.session.Dead:
		return "Roam probes every path, at first once a second and later every 15 s; the first answer revives " +
			"the session, and TCP retries by itself."
	case s.session.State == "initiated":
		return "A nonce in the answer establishes it; if none has come a second after the first packet, it goes on " +
			"as plain IPv6."
	case s.session.State == "plain":
		return "It stays plain until it has been idle for " + cli.OrDash(s.idle) + "; that there is no ILNP is " +
			"remembered for " + cli.OrDash(s.fallback) + ", or until a nonce is seen."
	case len(s.session.Paths) == 0:
		return "Packets wait; as soon as this host has a locator, a Locator Update leaves from it, and then they do."
	case len(reserve) > 0:
		return "If that link is lost, packets leave by " + strings.Join(reserve, " or ") + " at once, behind a " +
			"Locator Update. Without packets for " + cli.OrDash(s.idle) + " the session ends."
	case len(s.usable()) > 1:
		return "If one link is lost, the others carry everything at once. Without packets for " +
			cli.OrDash(s.idle) + " the session ends."
	}
	return "If that link is lost, packets wait for another one, and TCP tries every half second. Without packets for " +
		cli.OrDash(s.idle) + " the session ends."
}
