package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"roam"
	"roam/internal/cli"
	"roam/internal/control"

	"github.com/spf13/cobra"
)

// noPeer is printed on a host without known peers.
const noPeer = "no correspondent is known: add one with `roam add LINE` or in the hosts file"

func (a *app) sessionCommand() *cobra.Command {
	show := func(cmd *cobra.Command, args []string) error { return a.sessionShow(cmd.Context(), args) }
	noun := &cobra.Command{
		Use: "session", Short: "Show the peers and their sessions", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return show(cmd, nil) },
	}
	noun.AddCommand(&cobra.Command{
		Use: "show [PEER]", Short: "Show all peers, or one (name, NID or session address)",
		Args: cli.AtMost(1), RunE: show, ValidArgsFunction: a.completePeers,
	})
	return noun
}

// eachSession calls f for those of all peers, or of the one that args names, as they come.
func (a *app) eachSession(ctx context.Context, args []string, f func(control.Session) error) error {
	var others known
	found := false
	err := a.ask(ctx, func(ctx context.Context, b control.Backend) error {
		return b.EachSession(ctx, func(s control.Session) error {
			if len(args) > 0 && !isPeer(s, args[0]) {
				others.add(s)
				return nil
			}
			found = true
			return f(s)
		})
	})
	if err == nil && len(args) > 0 && !found {
		err = others.refuse(args[0])
	}
	return err
}

// sessionsOf returns those of all peers, or of the one that args names.
func sessionsOf(ctx context.Context, a *app, args []string) ([]control.Session, error) {
	list := []control.Session{}
	err := a.eachSession(ctx, args, func(s control.Session) error {
		list = append(list, s)
		return nil
	})
	return list, err
}

// sessionShow prints sessions as they come: a host may have very many.
func (a *app) sessionShow(ctx context.Context, args []string) error {
	if a.JSON {
		list := a.JSONList()
		err := a.eachSession(ctx, args, func(s control.Session) error { return list.Add(s) })
		if err != nil {
			return err
		}
		return list.End()
	}
	n := 0
	err := a.eachSession(ctx, args, func(s control.Session) error {
		if n++; n > 1 {
			if _, err := fmt.Fprintln(a.Out); err != nil {
				return fmt.Errorf("print: %w", err)
			}
		}
		a.session(s)
		return nil
	})
	if err == nil && n == 0 {
		fmt.Fprintln(a.Out, noPeer)
	}
	return err
}

// title prints the first line about a peer; a long name has it to itself.
func (pr *printer) title(name string, state cli.Cell) {
	between := "  "
	if limit := pr.Columns(); limit > 0 && len(name)+len(between)+len(state.Text) > limit {
		between = "\n  "
	}
	fmt.Fprintf(pr.Out, "%s%s%s\n", pr.Paint(cli.Bold, name), between, pr.Paint(state.Colour, state.Text))
}

// session prints all facts about one session.
func (pr *printer) session(s control.Session) {
	pr.title(peerName(s), stateCell(s.State, s.Dead))
	line := func(name, format string, args ...any) {
		pr.Fill(fmt.Sprintf("  %-9s ", name), fmt.Sprintf(format, args...))
	}
	line("nid", "%v", s.NID)
	line("address", "%s", s.Address)
	if s.Claims {
		line("claims", "its identifier only: no record has that where this node was validated")
	}
	if len(s.Names) > 1 {
		line("aliases", "%s", strings.Join(s.Names[1:], ", "))
	}
	if s.State != control.StateKnown {
		pr.sessionFigures(line, s)
	}
	if s.Refused.Why != "" {
		line("refused", "%s, as its key is known: %s", refusedLevel(s.Refused.Why), s.Refused.Why)
		line("", "to allow it: %s", s.Refused.Allow)
	}
	name := "locators"
	for _, l := range s.Locators {
		validated := "validated"
		if !l.Validated {
			validated = "not validated"
		}
		line(name, "%s  %s, %s, preference %d, %s", prefix(l.L64), l.State, validated, l.Preference, left(l.LifetimeS))
		name = ""
	}
	name = "paths"
	for _, p := range s.Paths {
		pr.path(line, name, p.Path, notesOn(s, p))
		name = ""
	}
	for _, v := range ruledPaths(s) {
		pr.path(line, name, v.Path, v.Why)
		name = ""
	}
	for _, o := range s.Obstructed {
		pr.path(line, name, o.Path, "not used: "+o.By)
		name = ""
	}
}

// refusedLevel says what is not used with a peer that shows too little.
func refusedLevel(why string) string {
	if why == control.WhyNoProof {
		return "ILNP without a proof"
	}
	return "plain IPv6"
}

// path prints a path with remarks on it: below it, where they do not fit behind it.
func (pr *printer) path(line func(name, format string, args ...any), name string, p control.Path, notes string) {
	const before = 12 // what line puts there
	text := pathText(p)
	whole := text + "  (" + notes + ")"
	switch {
	case notes == "":
		line(name, "%s", text)
	case pr.Columns() == 0 || before+len(whole) <= pr.Columns():
		line(name, "%s", whole)
	default:
		line(name, "%s", text)
		pr.Fill(strings.Repeat(" ", before+2), notes)
	}
}

// notesOn returns remarks on a path of a session.
func notesOn(s control.Session, p control.SessionPath) string {
	var notes []string
	if p.RTTMS > 0 {
		notes = append(notes, "rtt "+millis(p.RTTMS))
	}
	if slices.ContainsFunc(s.Paths, func(o control.SessionPath) bool { return o.Share != p.Share }) {
		notes = append(notes, fmt.Sprintf("gets %.0f %%", 100*p.Share))
	}
	if p.Long && s.Spread == "length" {
		notes = append(notes, "too long for tcp")
	}
	if s.InUse != nil && *s.InUse == p.Path {
		notes = append(notes, "in use")
	}
	return strings.Join(notes, ", ")
}

// proofText says what a proof is worth.
func proofText(proof string) string {
	switch proof {
	case control.ProofKeyed:
		return "keyed: Locator Updates need a MAC by its key"
	case control.ProofListed:
		return "listed locator: it was validated where its record lists it; its nonce moves the session"
	case control.ProofNonce:
		return "nonce: no record lists where it is; its nonce moves the session"
	}
	return "none: plain IPv6"
}

// sessionFigures prints the facts that only a peer with a session has.
func (pr *printer) sessionFigures(line func(name, format string, args ...any), s control.Session) {
	switch {
	case s.Proved:
		line("proof", "keyed: it has proven its key at set-up; Locator Updates need a MAC")
	case s.Proof == control.ProofKeyed:
		line("proof", "%s; the session began without a proof", proofText(s.Proof))
	default:
		line("proof", "%s", proofText(s.Proof))
	}
	if s.LacksKey {
		line("", "one without came and was refused: a forgery, or it lacks this host's key; "+
			"`roam export` here, `roam add LINE` there")
	}
	if len(s.KeyCopy) > 0 {
		line("", "two hosts have its key: at %s; docs/howto/keys.md says what to do", joined(s.KeyCopy))
	}
	if len(s.OwnKeyCopy) > 0 {
		line("", "it says that two hosts have the key of this one: at %s; docs/howto/keys.md says what to do",
			joined(s.OwnKeyCopy))
	}
	line("since", "%s", pr.ago(s.Since))
	line("rtt", "%s", millis(s.RTTMS))
	if s.LastMove.IsZero() {
		line("moved", "never")
	} else {
		line("moved", "%s", pr.ago(s.LastMove))
	}
	if s.LastMoveMS > 0 {
		line("acked in", "%s: the last Locator Update about a move of this host", millis(s.LastMoveMS))
	}
	if s.Encapsulation == "udp" {
		line("control", "in UDP: a path in use drops destination options or ICMPv6")
	}
	switch s.Spread {
	case "flow":
		line("tcp", "one path for each connection: something on a path in use tracks connections")
	case "length":
		line("tcp", "over the short paths; longer ones serve whole connections")
	}
	if s.CountsError != "" {
		line("counts", "not known: %s", s.CountsError)
		return
	}
	line("sent", "%d packets, %s", s.TxPackets, nbytes(s.TxBytes))
	line("received", "%d packets, %s", s.RxPackets, nbytes(s.RxBytes))
}

// isPeer reports whether the user's word names this peer.
func isPeer(s control.Session, word string) bool {
	if nid, err := roam.ParseNID(word); err == nil {
		return s.NID == nid
	}
	word = strings.ToLower(strings.TrimSuffix(word, "."))
	if addr, err := netip.ParseAddr(word); err == nil && addr.Is6() {
		return addr == s.Address || roam.ILVFromAddr(addr).NID == s.NID
	}
	return slices.Contains(s.Names, word)
}

// known are the names of peers, of which a message lists a few.
type known struct {
	names []string
	more  int
}

func (k *known) add(s control.Session) {
	if len(k.names) < 20 {
		k.names = append(k.names, peerName(s))
		return
	}
	k.more++
}

// refuse is the error that no peer has the name that the user gave.
func (k *known) refuse(word string) error {
	hint := noPeer
	if len(k.names) > 0 {
		hint = "known: " + strings.Join(k.names, ", ")
	}
	if k.more > 0 {
		hint += fmt.Sprintf(" and %d more", k.more)
	}
	return control.Errorf(control.CodeNotFound, "no peer is called %q", word).WithHint("%s", hint)
}

func (a *app) completePeers(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(args) == 0 {
		ctx, cancel := context.WithTimeout(cmd.Context(), patience)
		defer cancel()
		// Completion has nowhere to report a failure.
		_ = a.ask(ctx, func(ctx context.Context, b control.Backend) error {
			return b.EachSession(ctx, func(s control.Session) error {
				names = append(names, peerName(s))
				return nil
			})
		})
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// joined lists locators in a sentence.
func joined(list []roam.L64) string {
	var words []string
	for _, l := range list {
		words = append(words, l.String())
	}
	return strings.Join(words, ", ")
}
