package beyond

import (
	"time"

	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/scene"
)

// cell is a network with a schedule, under the probes.
type cell struct {
	name    string
	mode    string
	mobile  []scene.Access
	peer    []scene.Access // of the correspondent; empty if it does not move
	plan    scene.Schedule
	active  []string // links that must have a locator before traffic starts
	changes int      // handoffs of the mobile host, by the schedule
}

// link is an access link of 20 ms unless a cell says otherwise.
func link(p exp.Params) linkem.Params {
	return linkem.Params{Delay: p.Millis("rtt_ms") / 2, Rate: int64(p.Float("rate_mbps") * 1e6), QueuePackets: 1000}
}

// access is a symmetric access network that is up from the start.
func access(p linkem.Params) scene.Access {
	a := scene.Symmetric(p)
	a.Up = true
	return a
}

// lead is the traffic before anything happens: the control for gaps.
const lead = 2 * time.Second

// cells make the cells with probes.
var cells = map[string]func(exp.Params) cell{
	"loss": lossCell, "both": bothCell, "many": manyCell, "storm": stormCell, "outage": outageCell, "oneway": onewayCell,
}

// lossCell has two links in duality, one of which loses 1 % in both directions.
func lossCell(p exp.Params) cell {
	bad := link(p)
	bad.Loss = p.Float("loss_pct") / 100
	return cell{
		mode: "duality", mobile: []scene.Access{access(link(p)), access(bad)}, active: []string{"net1", "net2"},
		plan: scene.Schedule{Length: lead + p.Seconds("loss_s")},
	}
}

// bothCell moves both ends at the same times.
func bothCell(p exp.Params) cell {
	a := scene.Symmetric(link(p))
	c := cell{mode: "soft", mobile: []scene.Access{a, a, a}, peer: []scene.Access{a, a}, changes: p.Int("both_handoffs")}
	period := p.Seconds("both_period_s")
	// The link that is left must be away for a while before it returns; otherwise there is
	// no handoff, since the correspondent has only two.
	overlap := period / 2
	c.plan.Soft(lead, c.changes, period, overlap, "net1", "net2", "net3")
	var mirror scene.Schedule
	mirror.Soft(lead, c.changes, period, overlap, "net1", "net2")
	// Side by side: step i of the one, then step i of the other, at the same time.
	var steps []scene.Step
	for i, s := range c.plan.Steps {
		peer := mirror.Steps[i]
		peer.Host, peer.Name, peer.From = "cn1", "", ""
		steps = append(steps, s, peer)
	}
	c.plan.Steps, c.plan.Length = steps, lead+time.Duration(c.changes)*period
	return c
}

// manyCell has a soft handoff every 1.2 s: 50 in a minute.
func manyCell(p exp.Params) cell {
	a := scene.Symmetric(link(p))
	c := cell{mode: "soft", mobile: []scene.Access{a, a, a}, changes: p.Int("many_handoffs")}
	c.plan.Soft(lead, c.changes, 1200*time.Millisecond, 800*time.Millisecond, "net1", "net2", "net3")
	c.plan.Length = lead + time.Duration(c.changes)*1200*time.Millisecond + lead
	return c
}

// stormCell starts a handoff every 300 ms, and removes the old link 200 ms after the new
// one came, whether the handoff has completed or not.
func stormCell(p exp.Params) cell {
	a := scene.Symmetric(link(p))
	c := cell{mode: "soft", mobile: []scene.Access{a, a, a}}
	c.changes = int(p.Seconds("storm_s") / (300 * time.Millisecond))
	c.plan.Soft(lead, c.changes, 300*time.Millisecond, 200*time.Millisecond, "net1", "net2", "net3")
	for i := range c.plan.Steps {
		if c.plan.Steps[i].Op == scene.Detach {
			c.plan.Steps[i].Op = scene.Cut
		}
	}
	c.plan.Length = lead + time.Duration(c.changes)*300*time.Millisecond + 3*time.Second
	return c
}

// outageCell has one link, which is away for minutes.
func outageCell(p exp.Params) cell {
	c := cell{mode: "soft", mobile: []scene.Access{access(link(p))}}
	away := p.Seconds("outage_s")
	c.plan.Add(lead, scene.Cut, "net1", "", "outage")
	c.plan.Add(lead+away, scene.Attach, "net1", "", "return")
	c.plan.Length = lead + away + 6*time.Second
	return c
}

// onewayCell has a link in use that loses everything from the host, without a
// sign of it, and then everything to the host; the other link is in reserve.
func onewayCell(p exp.Params) cell {
	c := cell{mode: "soft", mobile: []scene.Access{access(link(p)), access(link(p))}, active: []string{"net1", "net2"}}
	good, bad := link(p), link(p)
	bad.Cut = true
	step := p.Seconds("oneway_s")
	at := lead
	for _, dead := range []scene.Step{{Name: "nothing leaves", Out: bad, In: good},
		{Name: "nothing arrives", Out: good, In: bad}} {
		for _, l := range []string{"net1", "net2"} {
			// Cut the link in use for a while, whichever it is.
			dead.At, dead.Op, dead.Link = at, scene.Alter, l
			healed := scene.Step{At: at + step, Op: scene.Alter, Link: l, Out: good, In: good, Name: "healed"}
			named := dead
			named.Name += " by " + l
			c.plan.Steps = append(c.plan.Steps, named, healed)
			at += 2 * step
		}
	}
	c.plan.Length = at
	return c
}
