package main

import (
	"cmp"
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

func (a *app) peerCommand() *cobra.Command {
	show := func(cmd *cobra.Command, args []string) error { return a.peerShow(cmd.Context(), args) }
	noun := &cobra.Command{
		Use: "peer", Short: "Show the known peers and the files that list them", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return show(cmd, nil) },
	}
	noun.AddCommand(&cobra.Command{
		Use: "show [PEER]", Short: "Show all known peers, or one (name, NID or session address)",
		Args: cli.AtMost(1), RunE: show, ValidArgsFunction: a.completePeers,
	})
	return noun
}

func (a *app) peerShow(ctx context.Context, args []string) error {
	var list []control.KnownPeer
	err := a.ask(ctx, func(ctx context.Context, b control.Backend) (err error) {
		list, err = b.Peers(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if len(args) == 1 {
		all := list
		list = slices.DeleteFunc(slices.Clone(list), func(p control.KnownPeer) bool { return !meansPeer(p, args[0]) })
		if len(list) == 0 {
			return control.Errorf(control.CodeNotFound, "no peer is called %q", args[0]).WithHint("%s", listKnown(all))
		}
	}
	if a.JSON {
		return a.PrintJSON(list)
	}
	if len(list) == 0 {
		fmt.Fprintln(a.Out, noPeer)
	}
	for i, p := range list {
		if i > 0 {
			fmt.Fprintln(a.Out)
		}
		a.peer(p)
	}
	return nil
}

// peer prints the record of one peer.
func (pr *printer) peer(p control.KnownPeer) {
	pr.title(knownName(p), stateCell(p.State, p.Dead))
	line := func(name, format string, args ...any) {
		pr.Fill(fmt.Sprintf("  %-9s ", name), fmt.Sprintf(format, args...))
	}
	line("nid", "%v", p.NID)
	line("address", "%s", p.Address)
	if len(p.Names) > 1 {
		line("aliases", "%s", strings.Join(p.Names[1:], ", "))
	}
	if p.WhyPlain != "" {
		line("plain", "%s", p.WhyPlain)
	}
	for i, l := range p.Locators {
		line(map[bool]string{true: "locators"}[i == 0], "%s  preference %d", prefix(l.L64), l.Preference)
	}
	if len(p.Options) > 0 {
		line("options", "%s", strings.Join(p.Options, " "))
	}
	for i, w := range p.Written {
		line(map[bool]string{true: "written"}[i == 0], "%s", w)
	}
	if len(p.Written) == 0 {
		line("written", "nowhere: it came by itself")
	}
}

func knownName(p control.KnownPeer) string {
	return cmp.Or(strings.Join(p.Names[:min(1, len(p.Names))], ""), p.NID.String())
}

// meansPeer reports whether the user's word names this peer.
func meansPeer(p control.KnownPeer, word string) bool {
	if nid, err := roam.ParseNID(word); err == nil {
		return p.NID == nid
	}
	word = strings.ToLower(strings.TrimSuffix(word, "."))
	if addr, err := netip.ParseAddr(word); err == nil && addr.Is6() {
		return addr == p.Address
	}
	return slices.Contains(p.Names, word)
}

func listKnown(list []control.KnownPeer) string {
	if len(list) == 0 {
		return noPeer
	}
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = knownName(p)
	}
	return "known: " + strings.Join(names, ", ")
}
