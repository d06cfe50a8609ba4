// Package yanagida repeats the measurements with iperf of R. Yanagida's thesis on the
// duality of mobility and multihoming (St Andrews, 2021): continuous mobility (chapter 5)
// and duality (chapter 6), each with TCP and with UDP.
//
// It implements the schedules, the arms of the thesis and ours, and the counting in
// captures at both ends. It omits video (lab/exp/video) and the thesis's column for Mobile
// IPv6, which is marked as not run. It is driven by lab/runner.
package yanagida

import (
	"context"
	_ "embed"
	"maps"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/scene"
)

//go:embed drawing.txt
var drawing string

//go:embed params.json
var mobilityParams []byte

//go:embed params_duality.json
var dualityParams []byte

//go:embed expect_mobility_tcp.json
var expectMobilityTCP []byte

//go:embed expect_mobility_udp.json
var expectMobilityUDP []byte

//go:embed expect_duality_tcp.json
var expectDualityTCP []byte

//go:embed expect_duality_udp.json
var expectDualityUDP []byte

//go:embed README.md
var readme string

// Experiments are the declarations that package runner lists.
var Experiments = []exp.Experiment{
	declare("yanagida-mobility-tcp", "Continuous mobility: soft handoffs under iperf3 over TCP, both ways, beside MPTCP",
		mobilityParams, expectMobilityTCP, mobility(true), exp.Netns),
	declare("yanagida-mobility-udp", "Continuous mobility: soft handoffs under iperf3 over UDP, both ways",
		mobilityParams, expectMobilityUDP, mobility(false), exp.Netns, exp.Sim),
	declare("yanagida-duality-tcp", "Duality: 1, 2, 3, 2, 1 links and back under iperf3 over TCP, both ways, beside MPTCP",
		dualityParams, expectDualityTCP, duality(true), exp.Netns),
	declare("yanagida-duality-udp", "Duality: 1, 2, 3, 2, 1 links and back under iperf3 over UDP, both ways",
		dualityParams, expectDualityUDP, duality(false), exp.Netns, exp.Sim),
}

func declare(name, title string, params, expect []byte, run func(context.Context, *exp.Env) error,
	engines ...string) exp.Experiment {
	return exp.Experiment{
		Name: name, Title: title, Group: "Yanagida 2021", Drawing: drawing, Params: params, Expect: expect,
		Readme: readme, Run: run,
		Source: "R. Yanagida, On the mobility-multihoming duality for IP, PhD thesis, University of St Andrews, 2021, " +
			"chapters 5 and 6",
		Tools: tools(), Engines: engines,
	}
}

func tools() map[string]string {
	t := maps.Clone(scene.Tools)
	maps.Copy(t, map[string]string{"iperf3": "iperf3", "tcpdump": "tcpdump"})
	maps.Copy(t, arm.MPTCP.Tools())
	return t
}
