package paths

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/result"
	"roam/lab/stats"
	"roam/lab/workload"
	"roam/lab/workload/fetch"
)

// The sizes of short transfers, in bytes.
const (
	small = 100_000
	large = 2_000_000
)

// fetches are the networks of short transfers.
var fetches = []cell{
	{name: "equal", links: []wire{{100, 20 * ms}, {100, 20 * ms}}, cc: "cubic"},
	{name: "rate50", links: []wire{{100, 20 * ms}, {50, 20 * ms}}, cc: "cubic"},
	{name: "rate20", links: []wire{{100, 20 * ms}, {20, 20 * ms}}, cc: "cubic"},
	{name: "slow", links: []wire{{25, 10 * ms}, {5, 10 * ms}}, cc: "cubic"},
	{name: "bbr", links: []wire{{25, 10 * ms}, {5, 10 * ms}}, cc: "bbr"},
	{name: "length", links: []wire{{100, 10 * ms}, {20, 100 * ms}}, cc: "cubic"},
	{name: "three", links: []wire{{100, 20 * ms}, {20, 20 * ms}, {20, 200 * ms}}, cc: "cubic"},
}

// fetched is what one cell gave: how long transfers took, in milliseconds, by arm and size.
type fetched struct {
	Name string
	Took map[string]map[int][]float64
}

// fetchSizes names the sizes in metrics.
var fetchSizes = []struct {
	name  string
	bytes int
}{{"small", small}, {"large", large}}

func runFetches(ctx context.Context, env *exp.Env) error {
	return eachCell(env, fetches, func(c cell) { fetched{Name: c.name}.miss(env.Result) }, func(c cell) error {
		f, err := exp.Cell(env, c.name, func(*exp.Window) (fetched, error) { return c.fetch(ctx, env) })
		if err == nil {
			f.metrics(env.Result)
		}
		return err
	})
}

// fetch runs both arms of a cell twice, each with half of the transfers, in an order by which a machine that becomes
// slower or faster changes both alike.
func (c cell) fetch(ctx context.Context, env *exp.Env) (fetched, error) {
	f, times := fetched{Name: c.name}, (env.Params.Int("times")+1)/2
	for i, arm := range []string{alone, both, both, alone} {
		output, err := c.fetchBy(ctx, env, arm, i, times)
		if err == nil {
			err = f.add(arm, output, times)
		}
		if err != nil {
			return f, err
		}
	}
	return f, nil
}

// add reads what the fetching application of an arm wrote.
func (f *fetched) add(arm, output string, times int) error {
	took, err := fetch.Read(output, []int{small, large}, times)
	if err != nil {
		return err
	}
	if f.Took == nil {
		f.Took = make(map[string]map[int][]float64)
	}
	if f.Took[arm] == nil {
		f.Took[arm] = make(map[int][]float64)
	}
	for bytes, all := range took {
		for _, d := range all {
			f.Took[arm][bytes] = append(f.Took[arm][bytes], float64(d.Microseconds())/1e3)
		}
	}
	return nil
}

// fetchBy runs one arm: the mobile host fetches from its correspondent.
func (c cell) fetchBy(ctx context.Context, env *exp.Env, which string, part, times int) (output string, err error) {
	p := env.Params
	s, err := c.build(ctx, env, fmt.Sprint(c.name, which, part), arm.Roam, which)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	fs, err := workload.StartFetches(ctx, s.Peer(0).Host, s.Mobile().Host, workload.FetchOptions{
		Name: "fetch " + which, Target: "cn1", Port: 7010, Sizes: []int{small, large}, Times: times,
		Warm: p.Seconds("warm_s"), Pause: p.Millis("pause_ms"), CC: c.cc,
	})
	if err != nil {
		return "", err
	}
	defer fs.Kill()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	return fs.Wait(ctx)
}

// miss says of the claims about the cell that it was not run.
func (f fetched) miss(r *result.Result) {
	for _, size := range fetchSizes {
		for _, end := range []string{"median", "worst"} {
			r.Miss(f.Name+"_"+size.name+"_"+end, "the cell "+f.Name+" was not run")
		}
	}
}

// metrics sets the figures of a cell: all over the median of the better link alone.
func (f fetched) metrics(r *result.Result) {
	for _, size := range fetchSizes {
		one, all := f.Took[alone][size.bytes], f.Took[both][size.bytes]
		name, median := f.Name+"_"+size.name+"_", max(stats.Median(one), 1e-9)
		r.Set(name+"alone_ms", median)
		r.Set(name+"alone_worst", slices.Max(one)/median)
		r.Set(name+"both_ms", stats.Median(all))
		r.Set(name+"median", stats.Median(all)/median)
		r.Set(name+"worst", slices.Max(all)/median)
	}
}
