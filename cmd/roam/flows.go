package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"roam/internal/cli"
	"roam/internal/control"

	"github.com/spf13/cobra"
)

// peerAndPort wants PEER and, if there is more, a port.
func peerAndPort(cmd *cobra.Command, args []string) error {
	if len(args) != 2 {
		return cli.Exactly("PEER")(cmd, args)
	}
	if n, err := strconv.Atoi(args[1]); err != nil || n < 1 || n > 0xffff {
		return cli.Usagef("%q is no port: a number from 1 to 65535 is wanted", args[1])
	}
	return nil
}

// askFlows asks how flows to the port of the peer in question leave; without one, nothing.
func (s *situation) askFlows(ctx context.Context, b control.Backend, port []string) (err error) {
	if len(port) == 0 {
		return nil
	}
	n, _ := strconv.Atoi(port[0]) // peerAndPort has read it
	s.port = n
	s.flows, err = b.Flows(ctx, control.FlowRequest{Peer: s.session.NID, Port: n})
	return err
}

// rules explains how flows to the port leave.
func (s situation) rules() string {
	var out []string
	for _, protocol := range []string{"tcp", "udp"} {
		otherwise := ""
		for _, f := range s.flows {
			if f.Protocol != protocol {
				continue
			}
			line := fmt.Sprintf("%s to port %d", strings.ToUpper(protocol), s.port)
			if otherwise != "" {
				line = otherwise
			}
			out = append(out, line+flowText(f))
			otherwise = "Otherwise"
		}
	}
	return strings.Join(out, " ")
}

// flowText says which rule decides, the paths and the reason.
func flowText(f control.Flow) string {
	out := ""
	if f.Condition != "" {
		out = " with " + f.Condition
	}
	switch {
	case f.Rule == 0:
		out += ": " + f.Reason
	case f.Name != "":
		out += fmt.Sprintf(": rule %d (%s), %s", f.Rule, f.Name, f.Policy)
	default:
		out += fmt.Sprintf(": rule %d, %s", f.Rule, f.Policy)
	}
	var paths []string
	for _, p := range f.Paths {
		if text := pathText(p); !slices.Contains(paths, text) {
			paths = append(paths, text)
		}
	}
	if len(paths) == 0 {
		return out + "; no path is there now."
	}
	out += "; leaves by " + strings.Join(paths, " or ")
	if f.Rule > 0 {
		out += ": " + f.Reason
	}
	return out + "."
}
