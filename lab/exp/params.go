package exp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Parameter declares one knob of an experiment.
type Parameter struct {
	Default any      `json:"default"` // number, string or bool; fixes the type
	Min     *float64 `json:"min,omitempty"`
	Max     *float64 `json:"max,omitempty"`
	Choices []string `json:"choices,omitempty"`
	Unit    string   `json:"unit,omitempty"`
	Doc     string   `json:"doc"`
	// Hardest is the value of a list at which claims over the whole list are hardest to meet, and why:
	// "200: ...". Of a number it is the side, "less: ..." or "more: ...". The preset quick has it.
	Hardest string `json:"hardest,omitempty"`
}

// Preset is a named choice of parameters.
type Preset struct {
	Set       map[string]any `json:"set,omitempty"`
	LeavesOut []string       `json:"leaves_out,omitempty"` // what it shortens or cannot judge, in words
	// Harder maps claims that the preset leaves to longer ones to those that it judges, and that
	// say the same where it is harder to meet; "" if there are none. A last * stands for the rest
	// of identifiers, the same on both sides.
	Harder  map[string]string `json:"harder,omitempty"`
	Repeats int               `json:"repeats,omitempty"` // how often a disturbed run is repeated at most
	About   string            `json:"about"`
	// Seconds is the approximate duration of a run, for the progress bar and `make lab`.
	Seconds float64 `json:"seconds,omitempty"`
}

// Declaration is the content of a params.json.
type Declaration struct {
	Parameters map[string]Parameter `json:"parameters"`
	Presets    map[string]Preset    `json:"presets"`
}

// Presets are the names that every experiment has, shortest first.
var Presets = []string{"quick", "standard", "paper"}

// ParseParams reads and checks a params.json: all presets must exist, and every default and
// every value of a preset must be within its parameter's limits.
func ParseParams(b []byte) (*Declaration, error) {
	var d Declaration
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("decode parameters: %w", err)
	}
	for name, p := range d.Parameters {
		if err := p.check(p.Default); err != nil {
			return nil, fmt.Errorf("parameter %s: default: %w", name, err)
		}
		if p.Doc == "" {
			return nil, fmt.Errorf("parameter %s: no doc", name)
		}
	}
	for _, name := range Presets {
		preset, ok := d.Presets[name]
		if !ok {
			return nil, fmt.Errorf("preset %s is missing", name)
		}
		for key, v := range preset.Set {
			p, ok := d.Parameters[key]
			if !ok {
				return nil, fmt.Errorf("preset %s sets %q: %w", name, key, d.unknown(key))
			}
			if err := p.check(v); err != nil {
				return nil, fmt.Errorf("preset %s: %s: %w", name, key, err)
			}
		}
	}
	return &d, nil
}

func (d *Declaration) unknown(name string) error {
	return Unknown("parameter", name, slices.Sorted(maps.Keys(d.Parameters)))
}

// check reports whether v has the parameter's type and lies within its limits.
func (p Parameter) check(v any) error {
	if fmt.Sprintf("%T", v) != fmt.Sprintf("%T", p.Default) {
		return fmt.Errorf("%v is not of the type of %v", v, p.Default)
	}
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%g is no finite number", v)
		}
		if p.Min != nil && v < *p.Min || p.Max != nil && v > *p.Max {
			return fmt.Errorf("%g is not within %s", v, p.span())
		}
	case string:
		if p.Choices != nil && !slices.Contains(p.Choices, v) {
			return fmt.Errorf("%q is none of %s", v, strings.Join(p.Choices, ", "))
		}
	case bool:
	default:
		return fmt.Errorf("%v is neither number, string nor bool", v)
	}
	return nil
}

// Limits describes the allowed values; "" for any.
func (p Parameter) Limits() string {
	switch {
	case p.Choices != nil:
		return strings.Join(p.Choices, ", ")
	case p.Min != nil || p.Max != nil || p.Unit != "":
		return p.span()
	}
	return ""
}

// span is the range of a number with its unit.
func (p Parameter) span() string {
	end := func(v *float64, none string) string {
		if v == nil {
			return none
		}
		return strconv.FormatFloat(*v, 'g', -1, 64)
	}
	return strings.TrimSpace(end(p.Min, "any") + " to " + end(p.Max, "any") + " " + p.Unit)
}

// parse reads a value from the command line.
func (p Parameter) parse(s string) (v any, err error) {
	switch p.Default.(type) {
	case float64:
		if v, err = strconv.ParseFloat(s, 64); err != nil {
			return nil, fmt.Errorf("%q is not a number", s)
		}
	case bool:
		if v, err = strconv.ParseBool(s); err != nil {
			return nil, fmt.Errorf("%q is neither true nor false", s)
		}
	default:
		v = s
	}
	return v, p.check(v)
}

// Resolve returns the parameters of a preset, changed by settings of the form
// KEY=VALUE.
func (d *Declaration) Resolve(preset string, settings []string) (Params, error) {
	chosen, ok := d.Presets[preset]
	if !ok {
		return nil, Unknown("preset", preset, Presets)
	}
	out := Params{}
	for name, p := range d.Parameters {
		out[name] = p.Default
	}
	maps.Copy(out, chosen.Set)
	for _, s := range settings {
		key, text, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("setting %q is not of the form KEY=VALUE", s)
		}
		p, ok := d.Parameters[key]
		if !ok {
			return nil, fmt.Errorf("setting %q: %w", s, d.unknown(key))
		}
		v, err := p.parse(text)
		if err != nil {
			return nil, fmt.Errorf("setting %s: %w", key, err)
		}
		out[key] = v
	}
	return out, nil
}

// Params are the resolved parameters of one run. Reading an undeclared one, or one as
// another type, is a fault of the experiment and panics.
type Params map[string]any

// Float returns a number.
func (p Params) Float(name string) float64 { return get[float64](p, name) }

// Int returns a number without its fraction.
func (p Params) Int(name string) int { return int(get[float64](p, name)) }

// Text returns a string.
func (p Params) Text(name string) string { return get[string](p, name) }

// Bool returns a truth value.
func (p Params) Bool(name string) bool { return get[bool](p, name) }

// Seconds returns a parameter given in seconds.
func (p Params) Seconds(name string) time.Duration {
	return time.Duration(p.Float(name) * float64(time.Second))
}

// Millis returns a parameter given in milliseconds.
func (p Params) Millis(name string) time.Duration {
	return time.Duration(p.Float(name) * float64(time.Millisecond))
}

func get[T any](p Params, name string) T {
	v, ok := p[name].(T)
	if !ok {
		panic(fmt.Sprintf("experiment asks for parameter %s as %T, declared is %T", name, v, p[name]))
	}
	return v
}
