package scene

import (
	"context"
	"errors"
	"fmt"
	"time"

	"roam/lab/linkem"
)

// Op is the operation of a step.
type Op int

// The kinds of steps.
const (
	Mark    Op = iota // nothing: it names a part of the schedule
	Attach            // the link gets carrier
	Detach            // the link loses carrier at the end of an overlap, whatever the arm has done by then
	Cut               // the link loses carrier without an overlap
	Swap              // the link gets carrier, and From loses it at the same moment
	Mode              // the mode of Roam becomes Link
	Disable           // graceful withdrawal: the link is not used any more, but stays
	Enable            // and is used again
	Alter             // the link gets the properties Out and In
	Call              // Do is called
)

// Step is one entry of a schedule. Arms that do not move skip all steps. Steps that command
// Roam command other arms in their own way, if they accept commands.
type Step struct {
	At      time.Duration // since the start of the schedule
	Op      Op
	Host    string // "" for the mobile host
	Link    string // the interface, or the mode for Mode
	From    string // the link in use before, for handoffs; of Call the one that Do takes away, if any
	Name    string // what people read; "" for the lesser half of a step
	Settled bool   // of Swap: From loses carrier when the arm can use Link
	Out, In linkem.Params
	Do      func(context.Context) error
}

// Schedule is the sequence of changes to the network.
type Schedule struct {
	Steps  []Step
	Length time.Duration
}

// Add appends a step.
func (s *Schedule) Add(at time.Duration, op Op, link, from, name string) {
	s.Steps = append(s.Steps, Step{At: at, Op: op, Link: link, From: from, Name: name})
}

// Soft appends n soft handoffs around a ring of links, of which the first is in use. Each
// time the next link gets carrier, and the previous one loses it an overlap later. It
// returns the link in use at the end.
func (s *Schedule) Soft(at time.Duration, n int, period, overlap time.Duration, ring ...string) string {
	old := ring[0]
	for i := range n {
		link := ring[(i+1)%len(ring)]
		s.Add(at, Attach, link, old, fmt.Sprintf("soft %d: %s", i+1, link))
		s.Add(at+overlap, Detach, old, "", "")
		old, at = link, at+period
	}
	return old
}

// Duality appends the movement over 1, 2, 3, 2 and 1 of three links and back, in steps of a
// unit; those with three links, and the last, take two units. The first link is in use.
// Each link is attached once, and later only withdrawn and enabled. Duality sets the
// length, 12 units.
func (s *Schedule) Duality(unit time.Duration, links ...string) {
	for _, st := range []struct {
		at   time.Duration
		op   Op
		link string
	}{
		{1, Attach, links[1]}, {2, Attach, links[2]}, {4, Disable, links[0]}, {5, Disable, links[1]},
		{6, Enable, links[1]}, {7, Enable, links[0]}, {9, Disable, links[2]}, {10, Disable, links[1]},
	} {
		sign := "+"
		if st.op == Disable {
			sign = "-"
		}
		s.Add(st.at*unit, st.op, st.link, "", sign+st.link)
	}
	s.Length = 12 * unit
}

// Done is a step with the times at which it was begun and done.
type Done struct {
	Step
	At, Over time.Time
}

// follow carries out the steps at their times.
func (s *Scene) follow(ctx context.Context, t *Trace, plan Schedule) error {
	for _, step := range plan.Steps {
		if err := until(ctx, t.Start.Add(step.At)); err != nil {
			return err
		}
		if step.Name != "" {
			s.env.View.Phase("%s: %s", s.cfg.Arm.Name(), step.Name)
		}
		at := time.Now()
		if s.cfg.Arm.Traits().Moves {
			if err := errors.Join(s.plant(ctx, step), s.do(ctx, step)); err != nil {
				return fmt.Errorf("step at %v: %w", step.At, err)
			}
		}
		t.Steps = append(t.Steps, Done{step, at, time.Now()})
	}
	return until(ctx, t.Start.Add(plan.Length))
}

// until waits for a moment.
func until(ctx context.Context, at time.Time) error {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (s *Scene) do(ctx context.Context, step Step) error {
	e := s.end(step.Host)
	switch step.Op {
	case Attach:
		return s.attach(ctx, e, step.Link)
	case Detach, Cut:
		return s.detach(ctx, e, step.Link)
	case Swap:
		return s.swap(ctx, e, step)
	case Mode:
		return s.system.Mode(ctx, e, step.Link)
	case Disable, Enable:
		return s.system.Use(ctx, e, step.Link, step.Op == Enable)
	case Call:
		return step.Do(ctx)
	case Alter:
		step.Out.Seed, step.In.Seed = e.Links[step.Link].Params(linkem.AB).Seed, e.Links[step.Link].Params(linkem.BA).Seed
		return errors.Join(e.Links[step.Link].Set(linkem.AB, step.Out), e.Links[step.Link].Set(linkem.BA, step.In))
	}
	return nil
}

// attach gives a link carrier.
func (s *Scene) attach(ctx context.Context, e *End, link string) error {
	if err := s.Carrier(e, link, true); err != nil {
		return err
	}
	return s.system.Attached(ctx, e, link)
}

func (s *Scene) detach(ctx context.Context, e *End, link string) error {
	return errors.Join(s.Carrier(e, link, false), s.system.Detached(ctx, e, link))
}

// swap is the hard handoff.
func (s *Scene) swap(ctx context.Context, e *End, step Step) error {
	from := time.Now()
	if err := s.Carrier(e, step.Link, true); err != nil {
		return err
	}
	if step.Settled {
		if err := s.system.Usable(ctx, e, step.Link, from); err != nil {
			return err
		}
	}
	if err := s.detach(ctx, e, step.From); err != nil {
		return err
	}
	return s.system.Attached(ctx, e, step.Link)
}
