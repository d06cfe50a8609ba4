package yanagida

import (
	"fmt"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/scene"
)

// links are the mobile host's, in the order of the movement: aa, bb and cc of the
// thesis.
var links = []string{"net1", "net2", "net3"}

// phase is a part of the duality schedule with one set of links.
type phase struct {
	from, to time.Duration
	links    []string
	added    string // the new link, if any
}

// plan is a schedule with its expected results.
type plan struct {
	scene.Schedule
	phases   []phase
	changes  int // of the announced locator set
	handoffs int
}

// mobilityPlan is the schedule of §4.5.1: each time the next link gets carrier, and the one
// in use loses it an overlap later. A handoff changes the set twice: the new locator is
// added, the old one removed.
func mobilityPlan(p exp.Params) plan {
	n, period, lead := p.Int("handoffs"), p.Seconds("period_s"), p.Seconds("lead_s")
	pl := plan{changes: 2 * n, handoffs: n}
	pl.Soft(lead, n, period, p.Seconds("overlap_s"), links...)
	pl.Length = lead + time.Duration(n)*period
	return pl
}

// dualityPlan is the schedule of §4.5.2 and Fig. 6.9: forward over 1, 2, 3, 2 and 1 links,
// and back. A link is attached at its first use, and later only withdrawn and enabled.
func dualityPlan(p exp.Params) plan {
	u := p.Seconds("phase_s")
	pl := plan{changes: 8}
	pl.Add(0, scene.Mark, "", "", "1 link")
	pl.Duality(u, links...)
	for _, f := range []struct {
		from, to int
		added    string
		links    []string
	}{
		{0, 1, "", []string{"net1"}}, {1, 2, "net2", []string{"net1", "net2"}}, {2, 4, "net3", links},
		{4, 5, "", []string{"net2", "net3"}}, {5, 6, "", []string{"net3"}}, {6, 7, "net2", []string{"net2", "net3"}},
		{7, 9, "net1", links}, {9, 10, "", []string{"net1", "net2"}}, {10, 12, "", []string{"net1"}},
	} {
		pl.phases = append(pl.phases, phase{time.Duration(f.from) * u, time.Duration(f.to) * u, f.links, f.added})
	}
	return pl
}

// still is a schedule without any event, for the control and the reference.
func still(length time.Duration) plan { return plan{Schedule: scene.Schedule{Length: length}} }

// lingerPlan is one handoff after which both links stay up (criterion A16).
func lingerPlan(length time.Duration) plan {
	pl := plan{changes: 1, handoffs: 1}
	pl.Add(time.Second, scene.Attach, "net2", "net1", "soft: net2, and net1 stays")
	pl.Length = length
	return pl
}

// config is the network of the drawing for one arm.
func config(env *exp.Env, name string, of arm.Arm, mode string, rtt time.Duration) scene.Config {
	p := env.Params
	link := scene.Symmetric(linkem.Params{
		Delay:        rtt / 2,
		Rate:         int64(p.Float("rate_mbps") * 1e6),
		QueuePackets: p.Int("queue_packets"),
	})
	return scene.Config{
		Name: name, Arm: of, Mode: mode, Seed: env.Seed, Mobile: []scene.Access{link, link, link}, More: rules(p, mode),
		Advert: scene.RA{
			Min:       p.Seconds("ra_min_s"),
			Max:       p.Seconds("ra_max_s"),
			Preferred: p.Seconds("preferred_s"),
			Valid:     p.Seconds("valid_s"),
		},
	}
}

// rules are what both hosts have in their configurations beside the mode. In the thesis a link
// gets its share as soon as it comes into use. TCP by Roam's own choice waits until the length and
// the rate of the link are known.
func rules(p exp.Params, mode string) map[string]string {
	if mode != "duality" || p.Text("policy") == "adaptive" {
		return nil
	}
	return map[string]string{"mn": fmt.Sprintf("[[rule]]\npolicy = %q\n", p.Text("policy"))}
}
