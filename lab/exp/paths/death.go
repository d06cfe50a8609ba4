package paths

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/live"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/stats"
	"roam/lab/topo"
	"roam/lab/workload"
	"roam/lab/workload/tcpflow"
)

// Of the cell in which links die: each loses everything in both directions for a while, in turn, and keeps
// its carrier.
const (
	deathLead  = 3 * time.Second // before the first cut
	deathCut   = 3 * time.Second
	deathEvery = 6 * time.Second
	deathSize  = 12500 // bytes that the connection writes each 5 ms
	deathHits  = 60    // ms, three round trips: a shorter gap is that of a link that was not in use
)

// death is the longest time without bytes of a connection in each cut, in milliseconds, by arm.
type death struct {
	Name string
	Gaps map[string][]float64
}

func (c cell) runDeath(ctx context.Context, env *exp.Env) error {
	d, err := exp.Cell(env, c.name, func(*exp.Window) (death, error) {
		d := death{Name: c.name}
		for i := range env.Params.Int("runs") {
			for _, system := range []arm.Arm{arm.Roam, arm.MPTCP} {
				stream, t, err := c.die(ctx, env, fmt.Sprintf("%s%s%d", c.name, system.Name(), i), system)
				if err != nil {
					return d, err
				}
				d.add(system, stream, t.Steps)
			}
		}
		return d, nil
	})
	if err == nil {
		d.metrics(env.Result)
	}
	return err
}

// die runs one arm once: the mobile host sends, by Multipath TCP or TCP.
func (c cell) die(
	ctx context.Context, env *exp.Env, name string, system arm.Arm,
) (stream tcpflow.Stream, t *scene.Trace, err error) {
	s, err := c.build(ctx, env, name, system, both)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	tcp, err := workload.StartTCP(ctx, s.Peer(0).Host, s.Mobile().Host, env.Dir, workload.TCPOptions{
		Name: name, Target: "cn1", Port: 7002, Size: deathSize, Every: 5 * ms, CC: c.cc, MPTCP: !system.Traits().Updates,
	})
	if err != nil {
		return nil, nil, err
	}
	defer tcp.Kill()
	wctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := topo.Wait(wctx, "a connection", func() bool { return tcp.State().Progress > 0 }); err != nil {
		return nil, nil, err
	}
	t, err = s.Run(ctx, c.deaths(env.Params.Int("queue_packets")), func() []live.Session {
		return []live.Session{workload.Row(tcp)}
	})
	if err != nil {
		return nil, nil, err
	}
	stream, err = tcp.Stop(wctx)
	return stream, t, err
}

// deaths cuts each link in turn, with room for so many packets, and restores it.
func (c cell) deaths(queue int) scene.Schedule {
	plan := scene.Schedule{Length: deathLead + time.Duration(len(c.links))*deathEvery}
	for i, l := range c.links {
		whole := linkem.Params{Delay: l.rtt / 2, Rate: int64(l.mbps * 1e6), QueuePackets: queue}
		cut, at := whole, deathLead+time.Duration(i)*deathEvery
		cut.Cut = true
		link := fmt.Sprintf("net%d", i+1)
		plan.Steps = append(plan.Steps,
			scene.Step{At: at, Op: scene.Alter, Link: link, Out: cut, In: cut, Name: "cut " + link},
			scene.Step{At: at + deathCut, Op: scene.Alter, Link: link, Out: whole, In: whole})
	}
	return plan
}

// add reads the record of the receiving application around each cut; every other step is one.
func (d *death) add(system arm.Arm, stream tcpflow.Stream, steps []scene.Done) {
	if d.Gaps == nil {
		d.Gaps = make(map[string][]float64)
	}
	for i := 0; i < len(steps); i += 2 {
		_, gap := stream.LongestGap(steps[i].At, steps[i+1].At.Add(deathEvery-deathCut))
		d.Gaps[system.Name()] = append(d.Gaps[system.Name()], math.Round(gap.Seconds()*1e6)/1e3)
	}
}

// metrics sets the figures of the cell.
func (d death) metrics(r *result.Result) {
	medians := make(map[string]float64)
	for _, system := range []arm.Arm{arm.Roam, arm.MPTCP} {
		name := system.Name()
		hit := slices.DeleteFunc(slices.Clone(d.Gaps[name]), func(gap float64) bool { return gap < deathHits })
		r.Set(d.Name+"_"+name+"_worst_ms", slices.Max(d.Gaps[name]))
		r.Set(d.Name+"_"+name+"_hits", float64(len(hit)))
		if len(hit) == 0 {
			r.Miss(d.Name+"_"+name+"_ms", "no cut has hit a link in use")
			continue
		}
		medians[name] = stats.Median(hit)
		r.Set(d.Name+"_"+name+"_ms", medians[name])
	}
	roam, other := medians[arm.Roam.Name()], medians[arm.MPTCP.Name()]
	if roam == 0 || other == 0 {
		r.Miss(d.Name+"_to_mptcp", "no cut has hit a link in use")
		return
	}
	r.Set(d.Name+"_to_mptcp", roam/other)
}
