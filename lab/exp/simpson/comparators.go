package simpson

import (
	"context"
	"errors"
	"fmt"

	"roam/lab/exp"
	"roam/lab/figure"
	"roam/lab/result"
	"roam/lab/site"
	"roam/lab/stats"
)

// compare has the same packets cross both borders without Roam, with one comparator after the
// other. The hosts then talk by their own addresses.
func compare(ctx context.Context, env *exp.Env) (list []*seen, err error) {
	if !env.Params.Bool("comparators") {
		return nil, nil
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s, err := newSites(ctx)
	defer func() { err = errors.Join(err, s.Close()) }()
	if err != nil {
		return nil, err
	}
	for _, c := range site.Comparators {
		v := &seen{cell: cell{name: c.Name, share: 1}}
		list = append(list, v)
		err := v.audit(ctx, env, s, func() error {
			target, err := s.Compare(ctx, c)
			if err == nil {
				err = greet(ctx, s, target)
			}
			if err != nil {
				return err
			}
			if err := v.exchange(ctx, env, s, target); err != nil {
				return err
			}
			if c.Name == site.Forwarding.Name { // the control of both captures
				return s.SendEncapsulated(ctx)
			}
			if c.Name != baseline {
				return nil
			}
			return v.sweep(ctx, env, s, target)
		})
		if errors.Is(err, site.ErrUnavailable) {
			v.missing = err.Error()
			continue
		}
		if err == nil {
			err = s.Restore(ctx, c)
		}
		if err != nil {
			return list, fmt.Errorf("%s: %w", c.Title, err)
		}
	}
	return list, nil
}

// table lists all cells and comparators.
func table(all, others []*seen) result.Table {
	number := func(format string, of func(*seen) any) func(*seen) string {
		return func(v *seen) string {
			if v.missing != "" {
				return "-"
			}
			return fmt.Sprintf(format, of(v))
		}
	}
	shares := func(first, second uint64) string {
		if first+second == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f", 100*float64(first)/float64(first+second))
	}
	return figure.Table("Borders", "The share is that of the first provider in the packets of either border.",
		append(append([]*seen{}, all...), others...),
		figure.Col("border", (*seen).title),
		figure.Col("share near, far, %", number("%s", func(v *seen) any {
			return shares(v.sent[0].Link[0], v.sent[0].Link[1]) + ", " + shares(v.sent[1].Link[0], v.sent[1].Link[1])
		})),
		figure.Col("daemon's share near, far, %", number("%s", func(v *seen) any {
			if v.daemon == [2][2]uint64{} {
				return "-"
			}
			return shares(v.daemon[0][0], v.daemon[0][1]) + ", " + shares(v.daemon[1][0], v.daemon[1][1])
		})),
		figure.Col("echoes lost", number("%d", func(v *seen) any { return v.echoesLost })),
		figure.Col("datagrams lost", number("%d", func(v *seen) any { return v.datagramsLost })),
		figure.Col("RTT median, ms", number("%.3f", func(v *seen) any { return stats.Median(v.rtts) })),
		figure.Col("routes changed", number("%d", func(v *seen) any { return difference(v.routes[0], v.routes[1]) })),
		figure.Col("internal bytes outside", number("%d", func(v *seen) any { return v.internal() })),
		figure.Col("encapsulated", number("%d", func(v *seen) any { return v.encapsulated })),
		figure.Col("missing", func(v *seen) string { return v.missing }),
	)
}

// title is what the table calls a cell or a comparator.
func (v *seen) title() string {
	for _, c := range site.Comparators {
		if c.Name == v.name {
			return c.Title
		}
	}
	return "Roam, " + v.name
}
