package main

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"roam"
	"roam/internal/cli"
	"roam/internal/config"
	"roam/internal/control"
	"roam/sbr"
	"roam/wire/ip6"

	"github.com/spf13/cobra"
)

func (a *app) policyCommand() *cobra.Command {
	noun := &cobra.Command{Use: "policy", Short: "Show, check or explain the policy of a site border (role border)",
		Args: cli.NoArgs, RunE: a.policyShow}
	noun.AddCommand(
		&cobra.Command{Use: "show", Short: "Show the policy in force", Args: cli.NoArgs, RunE: a.policyShow},
		&cobra.Command{Use: "check [FILE]", Short: "Check the policy in FILE, or that of roam.conf; needs no daemon",
			Args: cli.AtMost(1), RunE: a.policyCheck},
		&cobra.Command{Use: "explain SOURCE DESTINATION [tcp|udp|icmpv6 [PORT PORT]]",
			Short: "Explain what the border does with a packet", Args: explainArgs, RunE: a.policyExplain,
			ValidArgsFunction: completeProtocols},
	)
	return noun
}

// explainArgs wants a source and a destination, and what else question reads.
func explainArgs(cmd *cobra.Command, args []string) error {
	if len(args) < 2 {
		return cli.Exactly("SOURCE", "DESTINATION")(cmd, args)
	}
	return cli.AtMost(5)(cmd, args)
}

func (a *app) policyShow(cmd *cobra.Command, _ []string) error {
	r, shown, err := a.borderReport(cmd.Context())
	if err != nil || shown {
		return err
	}
	p, err := sbr.ParsePolicy([]byte(r.Policy))
	if err != nil {
		return fmt.Errorf("read the policy of the border: %w", err)
	}
	t := a.Table("LOCATOR", "PREC", "SCOPE", "ADVICE", "LABEL", "REWRITE", "FLAGS")
	for _, e := range p.Entries() {
		labels := e.Labels
		if len(labels) == 0 {
			labels = []int{-1}
		}
		for _, label := range labels {
			t.Row(cli.Text("%s", e.L64.Prefix().Addr()), cli.Number("%d", e.Prec), cli.Number("0"),
				cli.Text("%s", e.Advice), cli.Number("%d", label), cli.Number("%d", e.Rewrite), cli.Number("%d", e.Flags))
		}
	}
	t.Print(a.Out)
	return nil
}

// policyKey is the key of a border's policy.
const policyKey = "border.policy"

// policyFault returns the fault of a configuration's policy, which the border would refuse.
func policyFault(cfg config.Config) error {
	_, err := sbr.ParsePolicy([]byte(cfg.Border.Policy))
	return err
}

// checkedPolicy is what `roam policy check --json` prints.
type checkedPolicy struct {
	checked
	Locators int `json:"locators"` // of a valid policy, and
	Assigned int `json:"assigned"` // how many of them providers have assigned
}

// policyCheck reads a policy without a daemon.
func (a *app) policyCheck(_ *cobra.Command, args []string) error {
	name, text := a.configFile(nil), []byte(nil)
	if len(args) > 0 {
		b, err := os.ReadFile(args[0])
		if err != nil {
			return err
		}
		name, text = args[0], b
	} else {
		cfg, err := a.config()
		if err != nil {
			return err
		}
		text = []byte(cfg.Border.Policy)
	}
	p, err := sbr.ParsePolicy(text)
	faulty := new(sbr.PolicyError)
	isFaulty := errors.As(err, &faulty)
	if a.JSON && (err == nil || isFaulty) {
		return a.policyChecked(name, len(args) == 0, p, faulty)
	}
	if isFaulty {
		return control.Errorf(control.CodeInvalid, "%s: policy, %w", name, err).
			WithHint("a faulty line refuses the whole policy")
	} else if err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "%s: the policy is valid: %d locators, %d of them assigned by providers\n",
		name, len(p.Entries()), len(p.Site()))
	return nil
}

// policyChecked prints what was found in a policy as JSON; faulty.Line is 0 if it is valid. The line of a fault in
// roam.conf is that of the key, as in `roam config check`.
func (pr *printer) policyChecked(file string, inConf bool, p sbr.Policy, faulty *sbr.PolicyError) error {
	out := checkedPolicy{checked: checked{File: file, OK: faulty.Line == 0, Faults: []fault{}}}
	switch {
	case out.OK:
		out.Locators, out.Assigned = len(p.Entries()), len(p.Site())
	case inConf:
		f := fault{File: file, Line: config.Line(file, policyKey), Key: policyKey, Message: faulty.Error()}
		out.Faults = append(out.Faults, f)
	default:
		out.Faults = append(out.Faults, fault{File: file, Line: faulty.Line, Message: faulty.Message})
	}
	if err := pr.PrintJSON(out); err != nil || out.OK {
		return err
	}
	return cli.Silent(cli.StatusFailure)
}

func (a *app) policyExplain(cmd *cobra.Command, args []string) error {
	q, err := question(args)
	if err != nil {
		return cli.Usage(control.Errorf(control.CodeInvalid, "%w", err).WithHint("see roam(8), policy explain"))
	}
	var r control.BorderReport
	asJSON := a.JSON
	a.JSON = false // the report itself is not wanted
	r, _, err = a.borderReport(cmd.Context())
	if a.JSON = asJSON; err != nil {
		return err
	}
	p, err := sbr.ParsePolicy([]byte(r.Policy))
	if err != nil {
		return fmt.Errorf("read the policy of the border: %w", err)
	}
	var states []sbr.Site
	for i, s := range r.Sites {
		states = append(states, sbr.Site{L64: s.Locator, Link: roam.LinkID(i + 1), Up: s.State == control.BorderUp})
	}
	sentences := sbr.Explain(p, sbr.NewTable(p, states), q)
	if a.JSON {
		return a.PrintJSON(sentences)
	}
	for _, s := range sentences {
		a.Fill("", s)
	}
	return nil
}

// protocols are those that a question may name.
var protocols = map[string]uint8{"tcp": ip6.TCP, "udp": ip6.UDP, "icmpv6": ip6.ICMPv6}

// completeProtocols completes the third argument of policy explain; the others are addresses and ports.
func completeProtocols(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	if len(args) == 2 {
		names = slices.Sorted(maps.Keys(protocols))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// question reads a packet from the arguments.
func question(args []string) (q sbr.Question, err error) {
	for i, to := range []*roam.ILV{&q.Src, &q.Dst} {
		addr, err := netip.ParseAddr(args[i])
		if err != nil || !addr.Is6() {
			return q, fmt.Errorf("%q is no IPv6 address", args[i])
		}
		*to = roam.ILVFromAddr(addr)
	}
	if len(args) == 2 {
		return q, nil
	}
	proto, ok := protocols[args[2]]
	if !ok || len(args) == 4 {
		return q, fmt.Errorf("want tcp, udp or icmpv6, and no port or two, not %q", args[2:])
	}
	q.Proto = proto
	for i, s := range args[3:] {
		port, err := strconv.ParseUint(s, 10, 16)
		if err != nil {
			return q, fmt.Errorf("%q is no port", s)
		}
		*[]*uint16{&q.From, &q.To}[i] = uint16(port)
	}
	return q, nil
}
