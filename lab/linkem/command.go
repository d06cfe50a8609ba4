package linkem

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Change is a command that is carried out at a time.
type Change struct {
	At      time.Duration // since the start of the schedule
	Command string        // as for Link.Do
}

// ParseChange reads "TIME COMMAND", such as "1.5s down".
func ParseChange(s string) (Change, error) {
	at, command, _ := strings.Cut(strings.TrimSpace(s), " ")
	d, err := time.ParseDuration(at)
	if err != nil || d < 0 {
		return Change{}, fmt.Errorf("scheduled change %q: want a time such as 1.5s and then what changes", s)
	}
	c := Change{d, strings.TrimSpace(command)}
	return c, checkCommand(c.Command)
}

// checkCommand returns the error of Do for a command.
func checkCommand(command string) error {
	if command == "up" || command == "down" {
		return nil
	}
	_, _, err := ParseParams(strings.Fields(command), Params{}, Params{})
	return err
}

// Do executes a command: "down" and "up" disconnect and connect the cable, any other word
// is a setting for ParseParams.
func (l *Link) Do(command string) error {
	switch command {
	case "down":
		return l.Down()
	case "up":
		return l.Up()
	}
	ab, ba, err := ParseParams(strings.Fields(command), l.Params(AB), l.Params(BA))
	if err != nil {
		return err
	}
	if err := l.Set(AB, ab); err != nil {
		return err
	}
	return l.Set(BA, ba)
}

// Play executes a schedule that began at start. It returns after the last change, at the
// first error, or when ctx ends.
func (l *Link) Play(ctx context.Context, start time.Time, schedule []Change) error {
	schedule = slices.Clone(schedule)
	slices.SortStableFunc(schedule, func(a, b Change) int { return int(a.At - b.At) })
	for _, c := range schedule {
		t := time.NewTimer(time.Until(start.Add(c.At)))
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
		if err := l.Do(c.Command); err != nil {
			return fmt.Errorf("change link at %v: %w", c.At, err)
		}
	}
	return nil
}

// ParseParams changes the properties of the two directions of a link by
// settings of the form KEY=VALUE; "ab:" or "ba:" before the key restricts one
// to a direction. The keys are delay and jitter (a time: 20ms), loss and
// duplicate (a share: 1% or 0.01), rate (10mbit; 0 for no limit), queue (100
// packets, or 64kB), reorder, control-first and cut (true or false), and seed.
func ParseParams(settings []string, ab, ba Params) (Params, Params, error) {
	if len(settings) == 0 {
		return ab, ba, fmt.Errorf("change link: no setting: want down, up, or KEY=VALUE with one of %s",
			strings.Join(keys, ", "))
	}
	for _, s := range settings {
		both := []*Params{&ab, &ba}
		text := s
		if rest, ok := strings.CutPrefix(s, "ab:"); ok {
			both, text = both[:1], rest
		} else if rest, ok := strings.CutPrefix(s, "ba:"); ok {
			both, text = both[1:], rest
		}
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return ab, ba, fmt.Errorf("setting %q of a link: want KEY=VALUE with one of %s", s, strings.Join(keys, ", "))
		}
		for _, p := range both {
			if err := p.setKey(key, value); err != nil {
				return ab, ba, fmt.Errorf("setting %q of a link: %w", s, err)
			}
			if err := p.Validate(); err != nil {
				return ab, ba, fmt.Errorf("setting %q of a link: %w", s, err)
			}
		}
	}
	return ab, ba, nil
}

// keys are the keys of ParseParams.
var keys = []string{"delay", "jitter", "loss", "duplicate", "rate", "queue", "reorder", "control-first", "cut", "seed"}

func (p *Params) setKey(key, value string) (err error) {
	switch key {
	case "delay":
		p.Delay, err = time.ParseDuration(value)
	case "jitter":
		p.Jitter, err = time.ParseDuration(value)
	case "loss":
		p.Loss, err = parseShare(value)
	case "duplicate":
		p.Duplicate, err = parseShare(value)
	case "rate":
		p.Rate, err = parseRate(value)
	case "queue":
		p.QueuePackets, p.QueueBytes, err = parseQueue(value)
	case "reorder":
		p.Reorder, err = strconv.ParseBool(value)
	case "control-first":
		p.ControlFirst, err = strconv.ParseBool(value)
	case "cut":
		p.Cut, err = strconv.ParseBool(value)
	case "seed":
		p.Seed, err = strconv.ParseUint(value, 10, 64)
	default:
		return fmt.Errorf("no such key; there are %s", strings.Join(keys, ", "))
	}
	if err != nil {
		return fmt.Errorf("%q is no value of %s: %w", value, key, err)
	}
	return nil
}

// parseShare reads a probability: 1% or 0.01.
func parseShare(s string) (float64, error) {
	text, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(text, 64)
	if percent {
		v /= 100
	}
	return v, err
}

// parseRate reads bits per second with one of the units of tc(8).
func parseRate(s string) (int64, error) {
	factor := 1.0
	for _, u := range []struct {
		unit string
		f    float64
	}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}} {
		if text, ok := strings.CutSuffix(strings.ToLower(s), u.unit); ok {
			s, factor = text, u.f
			break
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	return int64(v * factor), err
}

// parseQueue reads a bound in packets, or in bytes if it has a unit.
func parseQueue(s string) (packets, nbytes int, err error) {
	for _, u := range []struct {
		unit string
		f    int
	}{{"MB", 1e6}, {"kB", 1e3}, {"B", 1}} {
		if text, ok := strings.CutSuffix(s, u.unit); ok {
			nbytes, err = strconv.Atoi(text)
			return 0, nbytes * u.f, err
		}
	}
	packets, err = strconv.Atoi(s)
	return packets, 0, err
}
