package main

import (
	"context"
	"fmt"
	"strings"

	"roam/internal/cli"
	"roam/internal/control"
	"roam/naming"

	"github.com/spf13/cobra"
)

func (a *app) exportCommand() *cobra.Command {
	v1 := false
	cmd := &cobra.Command{
		Use: "export", Short: "Print the line by which another host adds this one", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.export(cmd.Context(), v1) },
	}
	cmd.Flags().BoolVar(&v1, "v1", false, "leave this host's key out, for a peer whose Roam knows no keys")
	return cmd
}

func (a *app) addCommand() *cobra.Command {
	var q control.AddRequest
	cmd := &cobra.Command{
		Use: "add LINE", Short: "Add a peer by the line that `roam export` prints there",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("%q needs LINE, the output of `roam export` on the other host", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Line = strings.Join(args, " ") // a line of the hosts file has blanks; quotes are optional
			return a.add(cmd.Context(), q)
		},
	}
	cmd.Flags().StringVar(&q.As, "as", "", "give the peer `NAME` in place of the names in LINE")
	cmd.Flags().BoolVar(&q.Replace, "replace", false, "move the name from another peer to this one")
	cmd.Flags().BoolVar(&q.Force, "force", false, "accept a name that means something else on this host")
	return cmd
}

func (a *app) renameCommand() *cobra.Command {
	var q control.RenameRequest
	cmd := &cobra.Command{
		Use: "rename OLD NEW", Short: "Rename an added peer; its sessions continue", Args: cli.Exactly("OLD", "NEW"),
		ValidArgsFunction: a.completePeers,
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Old, q.New = args[0], args[1]
			return a.rename(cmd.Context(), q)
		},
	}
	cmd.Flags().BoolVar(&q.Replace, "replace", false, "move the name from another peer to this one")
	cmd.Flags().BoolVar(&q.Force, "force", false, "accept a name that means something else on this host")
	return cmd
}

func (a *app) removeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "remove PEER", Short: "Remove an added peer (name or NID) and end its sessions", Args: cli.Exactly("PEER"),
		ValidArgsFunction: a.completePeers,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.remove(cmd.Context(), args[0]) },
	}
}

func (a *app) export(ctx context.Context, v1 bool) error {
	var lines control.Exported
	err := a.ask(ctx, func(ctx context.Context, b control.Backend) (err error) {
		lines, err = b.Export(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if v1 && lines.V1 != "" {
		lines.Line, lines.V1 = lines.V1, ""
	}
	if a.JSON {
		return a.PrintJSON(lines)
	}
	fmt.Fprintln(a.Out, lines.Line)
	return nil
}

func (a *app) add(ctx context.Context, q control.AddRequest) error {
	// The command itself reports a damaged line, with or without a daemon.
	if _, err := naming.ParseAny(q.Line); err != nil {
		return control.Errorf(control.CodeInvalid, "add: %w", err).WithHint("on the other host: roam export")
	}
	var p control.Peer
	err := a.ask(ctx, func(ctx context.Context, b control.Backend) (err error) {
		p, err = b.AddPeer(ctx, q)
		return err
	})
	if err != nil {
		return err
	}
	if err := a.known(p); err != nil || a.JSON {
		return err
	}
	a.got(p)
	return nil
}

// got prints what stands for a peer that was added.
func (pr *printer) got(p control.Peer) {
	if p.Replaced != 0 {
		pr.Fill("", fmt.Sprintf("its key so far vouches for the new one: %v is forgotten", p.Replaced))
	}
	pr.Fill("proof: ", proofText(p.Proof))
	if !p.Plain {
		pr.Fill("", "plain IPv6 is not used with it: connections to it fail until this host's line is added there, "+
			"or if it has no ILNP")
	}
}

func (a *app) rename(ctx context.Context, q control.RenameRequest) error {
	var p control.Peer
	err := a.ask(ctx, func(ctx context.Context, b control.Backend) (err error) {
		p, err = b.RenamePeer(ctx, q)
		return err
	})
	if err != nil {
		return err
	}
	return a.known(p)
}

// known prints the present record of a peer.
func (a *app) known(p control.Peer) error {
	if a.JSON {
		return a.PrintJSON(p)
	}
	a.Fill("", fmt.Sprintf("%s is %v, reached as %s", strings.Join(p.Names, ", "), p.NID, p.Address))
	if p.Warning != "" {
		a.Warn("%s", p.Warning)
	}
	return nil
}

func (a *app) remove(ctx context.Context, peer string) error {
	var r control.Removed
	err := a.ask(ctx, func(ctx context.Context, b control.Backend) (err error) {
		r, err = b.RemovePeer(ctx, control.RemoveRequest{Peer: peer})
		return err
	})
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(r)
	}
	if len(r.Names) > 0 {
		fmt.Fprintf(a.Out, "removed %s, %v\n", strings.Join(r.Names, ", "), r.NID)
	} else {
		fmt.Fprintf(a.Out, "removed %v\n", r.NID)
	}
	if r.Warning != "" {
		a.Warn("%s", r.Warning)
	}
	return nil
}
