package exp

import (
	"strings"
	"testing"
	"time"
)

const doc = `{"parameters": {
  "delay_ms": {"default": 10, "min": 0, "max": 100, "unit": "ms", "doc": "one way"},
  "cut": {"default": "carrier", "choices": ["carrier", "locator"], "doc": "when"},
  "control": {"default": true, "doc": "also without"}},
 "presets": {"quick": {"about": "q", "set": {"delay_ms": 5, "cut": "locator"}}, "standard": {"about": "s"}, "paper": {"about": "p"}}}`

func TestResolve(t *testing.T) {
	d, err := ParseParams([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Resolve("quick", []string{"control=false", "delay_ms=7.5"})
	if err != nil {
		t.Fatal(err)
	}
	if p.Millis("delay_ms") != 7500*time.Microsecond || p.Text("cut") != "locator" || p.Bool("control") ||
		p.Int("delay_ms") != 7 {
		t.Errorf("resolved %v", p)
	}
	for setting, want := range map[string]string{
		"delay_ms":       "KEY=VALUE",
		"delay=3":        `did you mean "delay_ms"?`,
		"speed=3":        "there are control, cut, delay_ms",
		"delay_ms=101":   "not within 0 to 100 ms",
		"delay_ms=x":     "not a number",
		"cut=never":      "none of carrier, locator",
		"control=perhap": "neither true nor false",
	} {
		if _, err := d.Resolve("standard", []string{setting}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("setting %s: %v, want %q", setting, err, want)
		}
	}
	if _, err := d.Resolve("fast", nil); err == nil || !strings.Contains(err.Error(), "quick, standard, paper") {
		t.Errorf("unknown preset: %v", err)
	}
}

func TestParseParamsRefuses(t *testing.T) {
	for name, change := range map[string][2]string{
		"default out of range": {`"default": 10`, `"default": 1000`},
		"unknown choice":       {`"cut": "locator"`, `"cut": "now"`},
		"preset missing":       {`"paper"`, `"papers"`},
		"preset sets unknown":  {`"delay_ms": 5`, `"delay": 5`},
		"no doc":               {`"doc": "when"`, `"doc": ""`},
		"wrong type":           {`"delay_ms": 5`, `"delay_ms": "5"`},
		"list":                 {`"default": true`, `"default": []`},
		"unknown member":       {`"unit"`, `"units"`},
	} {
		if _, err := ParseParams([]byte(strings.Replace(doc, change[0], change[1], 1))); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestMisusePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a parameter of another type was returned")
		}
	}()
	Params{"cut": "carrier"}.Float("cut")
}
