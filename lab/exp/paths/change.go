package paths

import (
	"context"
	"errors"
	"fmt"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/live"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/topo"
	"roam/lab/workload"
	"roam/lab/workload/tcpflow"
)

// change is a network in which the rate of a link changes under one connection.
type change struct {
	cell
	link int     // that changes, from 0
	to   float64 // Mb/s from then on
}

var changes = []change{
	{cell{name: "falls", links: []wire{{100, 20 * ms}, {100, 20 * ms}}, cc: "cubic"}, 0, 20},
	{cell{name: "swaps", links: []wire{{100, 20 * ms}, {50, 20 * ms}}, cc: "cubic"}, 0, 20},
	{cell{name: "shrinks", links: []wire{{100, 20 * ms}, {50, 20 * ms}}, cc: "cubic"}, 1, 10},
	{cell{name: "rises", links: []wire{{100, 20 * ms}, {20, 20 * ms}}, cc: "cubic"}, 1, 100},
	{cell{name: "bbr", links: []wire{{100, 20 * ms}, {50, 20 * ms}}, cc: "bbr"}, 1, 10},
}

const (
	changeLead  = 4 * time.Second  // before the change
	changeSoon  = 2 * time.Second  // after which the connection has the better link,
	changeLate  = 10 * time.Second // and both
	changeOver  = 2 * time.Second  // over which each is measured
	cycleOfBBR  = 10 * time.Second // in which it sends little once, for 0.2 s: the latter over that time
	dataOfFrame = 1428.0 / 1514    // of a full frame on a link: the rest is headers
)

// changed is what a cell gave.
type changed struct {
	Name       string
	Soon, Late float64   // data of the connection over what the better link, and both, can carry
	Mbps       []float64 // each half second, from the start
}

func runChanges(ctx context.Context, env *exp.Env) error {
	var cells []cell
	by := make(map[string]change)
	for _, c := range changes {
		cells = append(cells, c.cell)
		by[c.name] = c
	}
	return eachCell(env, cells, func(c cell) { changed{Name: c.name}.miss(env.Result) }, func(c cell) error {
		o, err := exp.Cell(env, c.name, func(*exp.Window) (changed, error) {
			changing := by[c.name]
			changing.cell = c
			return changing.measure(ctx, env)
		})
		if err == nil {
			o.metrics(env.Result)
		}
		return err
	})
}

// measure runs one connection from the mobile host to its correspondent.
func (c change) measure(ctx context.Context, env *exp.Env) (o changed, err error) {
	s, err := c.build(ctx, env, c.name, arm.Roam, both)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	tcp, err := workload.StartTCP(ctx, s.Peer(0).Host, s.Mobile().Host, env.Dir, workload.TCPOptions{
		Name: c.name, Target: "cn1", Port: 7002, Size: 60000, Every: 2 * ms, CC: c.cc,
	})
	if err != nil {
		return o, err
	}
	defer tcp.Kill()
	wctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := topo.Wait(wctx, "a connection", func() bool { return tcp.State().Progress > 0 }); err != nil {
		return o, err
	}
	t, err := s.Run(ctx, c.plan(env.Params.Int("queue_packets")), func() []live.Session {
		return []live.Session{workload.Row(tcp)}
	})
	if err != nil {
		return o, err
	}
	stream, err := tcp.Stop(wctx)
	if err != nil {
		return o, err
	}
	return c.read(stream, t), nil
}

// plan changes the link once, with room for so many packets.
func (c change) plan(queue int) scene.Schedule {
	later := linkem.Params{Delay: c.links[c.link].rtt / 2, Rate: int64(c.to * 1e6), QueuePackets: queue}
	return scene.Schedule{Length: changeLead + changeLate + c.over(), Steps: []scene.Step{
		{At: changeLead, Op: scene.Alter, Link: fmt.Sprintf("net%d", c.link+1), Out: later, In: later},
	}}
}

// read takes the figures from the receiving application's record and the change that was made.
func (c change) read(stream tcpflow.Stream, t *scene.Trace) changed {
	o := changed{Name: c.name}
	mbps := func(from time.Time, over time.Duration) float64 {
		return float64(stream.Bytes(from, from.Add(over))) * 8 / 1e6 / over.Seconds()
	}
	for at := t.Start; at.Before(t.End); at = at.Add(500 * ms) {
		o.Mbps = append(o.Mbps, mbps(at, 500*ms))
	}
	better, sum := c.after()
	at := t.Steps[0].At
	o.Soon = mbps(at.Add(changeSoon), changeOver) / (better * dataOfFrame)
	o.Late = mbps(at.Add(changeLate), c.over()) / (sum * dataOfFrame)
	return o
}

// over returns how long the connection is measured in the end.
func (c change) over() time.Duration {
	if c.cc == "bbr" {
		return cycleOfBBR
	}
	return changeOver
}

// after returns the rates of the better link and of both, after the change.
func (c change) after() (better, sum float64) {
	for i, l := range c.links {
		if i == c.link {
			l.mbps = c.to
		}
		better, sum = max(better, l.mbps), sum+l.mbps
	}
	return better, sum
}

// miss says of the claims about the cell that it was not run.
func (o changed) miss(r *result.Result) {
	for _, end := range []string{"_soon", "_late"} {
		r.Miss(o.Name+end, "the cell "+o.Name+" was not run")
	}
}

// metrics sets the figures of a cell.
func (o changed) metrics(r *result.Result) {
	r.Set(o.Name+"_soon", o.Soon)
	r.Set(o.Name+"_late", o.Late)
	var x []float64
	for i := range o.Mbps {
		x = append(x, float64(i)/2)
	}
	r.AddSeries(o.Name, "Mb/s", x, o.Mbps)
}
