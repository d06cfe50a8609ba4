package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"roam"
	"roam/internal/cli"
	"roam/lab/interop"
	"roam/lab/interop/suite"
	"roam/lab/runner"
	"roam/naming"

	"github.com/spf13/cobra"
)

// foreignFlags describe a host that matches no profile.
type foreignFlags struct {
	link, nid, agent string
	l64              []string
	port             uint16
}

func (a *app) interopCommand() *cobra.Command {
	var opt runner.InteropOptions
	var host foreignFlags
	cmd := &cobra.Command{
		Use:   "interop TARGET",
		Short: "Test Roam against another ILNPv6 stack",
		Long: "Run set-up, moves, duality and reboots against TARGET, and print a table.\n" +
			"TARGET is a scripted stack:\n  " + strings.Join(interop.ProfileNames(), ", ") + ";\n" +
			"or, with --link, --nid and --l64, a name for a host on a link of this machine.",
		Args: cli.Exactly("TARGET"), ValidArgsFunction: profileNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			opt.Target = args[0]
			var err error
			if opt.Foreign, err = host.parse(); err != nil {
				return cli.Usage(err)
			}
			if _, err := naming.ParseHosts("--options", "nid=1:2:3:4 l64=1:2:3:4 "+opt.Hosts+" target\n"); err != nil {
				return cli.Usagef("--options: %w", err)
			}
			return a.interop(cmd.Context(), opt)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&opt.Cases, "case", nil, "run the case `NAME` only; may be repeated")
	f.StringVar(&opt.Hosts, "options", "", "put `OPTIONS` into the target's line in the hosts file, such as \"checksum=rfc6741 nonce=always\"")
	f.StringVar(&opt.JSON, "json", "", "write the result to `FILE`")
	f.StringVar(&opt.Report, "report", "", "write the HTML report to `FILE`")
	f.StringVar(&opt.Logs, "logs", "", "keep the daemon's log of each case in `DIR`")
	f.StringVar(&host.link, "link", "", "reach the target by `DEVICE` of this machine")
	f.StringVar(&host.nid, "nid", "", "use `NID` as the target's identifier")
	f.StringSliceVar(&host.l64, "l64", nil, "use `L64` as the target's network; after a comma, one that it can move to")
	f.Uint16Var(&host.port, "port", 7, "use `PORT` for the target's echo services, TCP and UDP")
	f.StringVar(&host.agent, "agent", "", "run `COMMAND` to make the target act as a case requires")
	return cmd
}

// profileNames completes the first argument.
func profileNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return interop.ProfileNames(), cobra.ShellCompDirectiveNoFileComp
}

func (a *app) interop(ctx context.Context, opt runner.InteropOptions) error {
	opt.Out, opt.Row = a.Out, a.Fill
	res, err := runner.Interop(ctx, opt)
	if errors.Is(err, runner.ErrTarget) || errors.Is(err, suite.ErrUnknownCase) {
		return cli.Usage(err)
	}
	if err != nil {
		return err
	}
	return verdict(res) // the table has said which cases fail
}

// parse returns the host that the flags describe; nil if they describe none.
func (f foreignFlags) parse() (*suite.Foreign, error) {
	if f.link == "" && f.nid == "" && len(f.l64) == 0 && f.agent == "" {
		return nil, nil
	}
	if f.link == "" || f.nid == "" || len(f.l64) == 0 {
		return nil, errors.New("a host that is no profile needs --link, --nid and --l64")
	}
	if _, err := net.InterfaceByName(f.link); err != nil {
		return nil, fmt.Errorf("--link %s: there is no such device", f.link)
	}
	out := &suite.Foreign{Link: f.link, Port: f.port, Agent: strings.Fields(f.agent)}
	var err error
	if out.NID, err = roam.ParseNID(f.nid); err != nil {
		return nil, fmt.Errorf("--nid: %w", err)
	}
	if len(f.l64) > 2 {
		return nil, fmt.Errorf("--l64: %d locators, at most 2", len(f.l64))
	}
	for _, s := range f.l64 {
		l, err := roam.ParseL64(s)
		if err != nil {
			return nil, fmt.Errorf("--l64: %w", err)
		}
		out.L64s = append(out.L64s, l)
	}
	return out, nil
}
