package sbr

import (
	"errors"
	"strings"
	"testing"
	"time"

	"roam"
)

// paper is the policy of the dissertation.
const paper = `
#Locator         Prec Scope Advice Label Rewrite Flags
2001:db8:1000::  50   0     vlb    1     2       0     # inside
2001:db8:aced::  50   0     none   2     -1      0
2001:db8:b005::  50   0     none   2     -1      0
2001:db8:cede::  50   0     none   2     -1      1
`

func policy(t *testing.T, text string) Policy {
	t.Helper()
	p, err := ParsePolicy([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPaperPolicy(t *testing.T) {
	p := policy(t, paper)
	inside, ok := p.Inside(0x20010db810000000)
	if !ok || inside.Advice != AdviceVLB || inside.Rewrite != 2 || inside.Line != 3 {
		t.Errorf("inside: %+v", inside)
	}
	group := p.Group(2)
	if len(group) != 3 || group[0].L64 != 0x20010db8aced0000 || group[2].Flags != FlagPeer {
		t.Errorf("group: %+v", group)
	}
	if behind, ok := p.Behind(group[1].L64); !ok || behind != inside.L64 {
		t.Errorf("behind: %v", behind)
	}
	if site := p.Site(); len(site) != 3 || site[1] != group[1].L64 {
		t.Errorf("site: %v", site)
	}
	again, err := ParsePolicy(p.AppendTo(nil))
	if err != nil || string(again.AppendTo(nil)) != string(p.AppendTo(nil)) {
		t.Errorf("written and read: %v\n%s", err, again.AppendTo(nil))
	}
}

// A locator in several lines has several labels, and one preference.
func TestSeveralLabels(t *testing.T) {
	p := policy(t, `2001:db8:1:: 50 0 vlb 1 2
2001:db8:2:: 50 0 none -1 3 0
2001:db8:a:: 20 0 none 2
2001:db8:b:: 10 0 none 2 -1
2001:db8:a:: 20 0 none 3`)
	if a, b := p.Group(2), p.Group(3); len(a) != 2 || a[0].Prec != 10 || len(b) != 1 || b[0].Prec != 20 {
		t.Errorf("%+v %+v", a, b)
	}
}

// Each faulty line refuses the whole policy, with its number.
func TestFaultyPolicies(t *testing.T) {
	nine := "2001:db8:1:: 1 0 vlb -1 0\n"
	for _, label := range []string{"0", "1", "2", "3", "4", "5", "6", "7", "8"} {
		nine += "2001:db8:a:: 1 0 none " + label + "\n"
	}
	crowded := "2001:db8:1:: 1 0 vlb -1 0\n"
	for _, l := range "abcdef012" {
		crowded += "2001:db8:f" + string(l) + ":: 1 0 none 0\n"
	}
	for name, c := range map[string]struct {
		text string
		line int
		says string
	}{
		"too few columns":    {"\n2001:db8:1:: 50 0 none", 2, "4 columns"},
		"too many columns":   {"2001:db8:1:: 50 0 none 1 2 0 0", 1, "8 columns"},
		"no locator":         {"2001:db8:1::1 50 0 none 1", 1, "prefix of 64 bits"},
		"multicast":          {"ff02:: 50 0 none 1", 1, "global unicast"},
		"precedence":         {"2001:db8:1:: 65536 0 none 1", 1, "Prec"},
		"scope":              {"2001:db8:1:: 50 1 none 1", 1, "Scope"},
		"advice":             {"2001:db8:1:: 50 0 best 1", 1, "Advice"},
		"label 9":            {"2001:db8:1:: 50 0 none 9", 1, "Label"},
		"rewrite -2":         {"2001:db8:1:: 50 0 none 1 -2", 1, "Rewrite"},
		"flags":              {"2001:db8:1:: 50 0 none 1 -1 2", 1, "Flags"},
		"nine labels":        {nine, 10, "more than 8 labels"},
		"nine in a group":    {crowded, 1, "at most 8"},
		"two preferences":    {"2001:db8:1:: 50 0 none 1\n2001:db8:1:: 60 0 none 2", 2, "one preference"},
		"twice the label":    {"2001:db8:1:: 50 0 none 1\n2001:db8:1:: 50 0 none 1", 2, "already"},
		"two advices":        {"2001:db8:1:: 50 0 none 1\n2001:db8:1:: 50 0 vlb 2", 2, "differs"},
		"no such label":      {"\n\n2001:db8:1:: 50 0 vlb 1 2", 3, "no locator has that label"},
		"rewritten to self":  {"2001:db8:1:: 50 0 vlb 1 1", 1, "loop"},
		"rewritten in turns": {"2001:db8:1:: 50 0 vlb 1 2\n2001:db8:2:: 50 0 vlb 2 1", 1, "loop"},
	} {
		p, err := ParsePolicy([]byte(c.text))
		var e *PolicyError
		if !errors.As(err, &e) || e.Line != c.line || !strings.Contains(e.Message, c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if len(p.Entries()) != 0 {
			t.Errorf("%s: a part of the policy is kept", name)
		}
	}
}

// What is read can be written and read again.
func FuzzPolicy(f *testing.F) {
	f.Add(paper)
	f.Add("2001:db8::/64 0 0 none 8\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePolicy([]byte(text))
		if err != nil {
			return
		}
		again, err := ParsePolicy(p.AppendTo(nil))
		if err != nil || string(again.AppendTo(nil)) != string(p.AppendTo(nil)) {
			t.Errorf("%v\n%s", err, p.AppendTo(nil))
		}
		NewTable(p, nil)
	})
}

// A policy with other preferences is announced to outside nodes that have acknowledged all locators, too. The
// same one again is not.
func TestPreferencesAreAnnounced(t *testing.T) {
	b := newBorder(t)
	b.HandleFlow(b.now, seenFlow, []roam.L64{siteA, siteB})
	b.HandlePolicy(b.now, testPolicy(20, 80))
	if b.until(b.now.Add(coalesce)); len(b.sent) != 0 {
		t.Errorf("the same policy: sent %d", len(b.sent))
	}
	b.HandlePolicy(b.now, testPolicy(90, 10))
	b.until(b.now.Add(coalesce))
	m, u := b.take(2)
	if m.Src.L64 != siteB || len(u.Locators) != 2 || u.Locators[0].Preference != 10 {
		t.Errorf("another policy: %+v", u)
	}
	b.handle(false, theirs, roam.ILV{L64: siteB, NID: insideNID}, inward, u.Ack())
	if b.until(b.now.Add(time.Minute)); len(b.sent) != 0 {
		t.Errorf("acknowledged, and sent %d more", len(b.sent))
	}
	b.HandlePolicy(b.now, testPolicy(20, 80))
	b.until(b.now.Add(coalesce))
	_, u = b.take(1)
	b.HandlePolicy(b.now, testPolicy(30, 80))
	b.handle(false, theirs, roam.ILV{L64: siteA, NID: insideNID}, inward, u.Ack()) // of the one before
	b.until(b.now.Add(coalesce))
	if _, u = b.take(1); u.Locators[0].Preference != 30 {
		t.Errorf("a policy before the update of an earlier one was acknowledged: %+v", u)
	}
	b.handle(false, theirs, roam.ILV{L64: siteA, NID: insideNID}, inward, u.Ack())
	if b.until(b.now.Add(time.Minute)); len(b.sent) != 0 {
		t.Errorf("acknowledged, and sent %d more", len(b.sent))
	}
}
