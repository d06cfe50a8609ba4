package result

import (
	"strings"
	"testing"
)

func TestParseExpectRefuses(t *testing.T) {
	for name, doc := range map[string]string{
		"operator":       `{"claims":[{"id":"a","metric":"m","op":"<","bound":1,"kind":"timing","source":"s"}]}`,
		"kind":           `{"claims":[{"id":"a","metric":"m","op":"<=","bound":1,"kind":"fast","source":"s"}]}`,
		"source":         `{"claims":[{"id":"a","metric":"m","op":"<=","bound":1,"kind":"timing"}]}`,
		"unknown member": `{"claims":[{"id":"a","metric":"m","op":"<=","bond":1,"kind":"timing","source":"s"}]}`,
		"guard":          `{"claims":[{"id":"a","metric":"m","op":"<=","bound":1,"kind":"timing","source":"s","needs":[{"metric":"x","op":"~","reason":"r"}]}]}`,
		"of": `{"claims":[{"id":"a","metric":"m","of":"worst",
			"op":"<=","bound":1,"kind":"timing","source":"s"}]}`,
		"published": `{"claims":[{"id":"a","metric":"m","published":true,"op":"<=","bound":1,"kind":"timing","source":"s"}]}`,
		"place":     `{"claims":[{"id":"a","metric":"m","place":"Fig. 1","op":"<=","bound":1,"kind":"timing","source":"s"}]}`,
		"twice":     `{"claims":[{"id":"a","metric":"m","op":"<=","bound":1,"kind":"timing","source":"s"},{"id":"a","metric":"m","op":"<=","bound":1,"kind":"timing","source":"s"}]}`,
		"syntax":    `{"claims":[`,
	} {
		doc = strings.ReplaceAll(doc, `"source":"s"`, `"source":"the rule of a test"`)
		if _, err := ParseExpect([]byte(doc)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A reader judges a bound by what its source says: the name of a document, or of Roam, is not enough.
func TestSourcesAreInWords(t *testing.T) {
	value := 0.5
	for _, c := range []struct {
		source    string
		published *Published
		bare      bool
	}{
		{"Roam's own bound", nil, true},
		{"Roam's own bound", &Published{Value: &value}, true}, // the value is not Roam's
		{"Roam's own aim: ≤ 2 RTT + 20 ms", nil, true},
		{"Roam's own bound: 0", nil, true},
		{"Roam's own bound: a handoff loses nothing", nil, false},
		{"RFC 6744 §6", nil, true},
		{"RFC 6744 §6", &Published{Value: &value}, true},
		{"RFC 6744 section 6: both ends should use ILNP", nil, false},
		{"the thesis, Tab. 7.4", nil, true},
		{"the thesis, Tab. 7.4", &Published{Text: "the same"}, false},
		{"the thesis, Tab. 7.4: as many bytes arrive", nil, false},
		{"Somebody and Another 2019 §4.1", nil, true},
		{"Somebody, section 5.4", nil, true},
		{"design", nil, true},
		{"0.4 % of 10 Mb/s", nil, true},
		{"a session lives as long as a path", nil, false},
	} {
		e := Expectation{ID: "a", Metric: "m", Op: "<=", Bound: 1, Kind: Timing, Source: c.source, Published: c.published}
		if err := e.check(); (err != nil) != c.bare {
			t.Errorf("%q, published %v: %v", c.source, c.published, err)
		}
	}
	_, err := ParseExpect([]byte(`{"claims":[
	 {"id":"a1-gap","metric":"m","op":"<=","bound":1,"kind":"timing","source":"RFC 6740"}]}`))
	if err == nil || !strings.Contains(err.Error(), `"a1-gap"`) || !strings.Contains(err.Error(), `"RFC 6740"`) {
		t.Errorf("the refusal does not name claim and source: %v", err)
	}
}

// A report shows a failed claim before the one that stands above it in expect.json, and alone
// in its lead, so a claim's words must not need that one.
func TestClaimsStandAlone(t *testing.T) {
	for says, alone := range map[string]bool{
		"the same, worst run":                         false,
		"The same":                                    false,
		"soft, normal: the same, worst cut":           false,
		"a rule by port, beside two others: the same": false,
		"the same of the other host's replies":        false,
		"the same without / with":                     false,
		"both ends hand off at the same moments":      true,
		"the same connection lives":                   true,
		"routing tables stay the same but for ours":   true,
	} {
		e := Expectation{ID: "a", Says: says, Metric: "m", Op: "<=", Bound: 1, Kind: Timing, Source: "the rule of a test"}
		if err := e.check(); (err == nil) != alone {
			t.Errorf("%q: %v", says, err)
		}
	}
}
