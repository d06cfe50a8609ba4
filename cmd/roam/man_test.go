package main

import (
	"regexp"
	"strings"
	"testing"

	"roam/internal/cli/clitest"
	"roam/internal/config"
	"roam/internal/control"
	"roam/naming"
)

func TestManualHasEveryVerbAndFlag(t *testing.T) { clitest.Verbs(t, "roam.8", newWorld(t).root()) }

func TestManualHasEveryJSONName(t *testing.T) {
	clitest.Names(t, "roam.8",
		glance{}, control.Counter{}, control.Event{}, control.Peer{}, control.KnownPeer{}, control.Removed{},
		control.Reloaded{}, control.Exported{}, control.ObservedCount{}, control.BorderReport{}, pathsOf{}, picture{},
		control.ModeRequest{}, control.LinkRequest{}, checked{}, started{}, stopped{}, versions{}, examined{}, explanation{}, reported{},
	)
	p := clitest.Page(t, "roam.8")
	for _, k := range control.KindNames() {
		if !clitest.Has(p, ".It Li "+k) {
			t.Errorf("roam.8 lacks the event %q", k)
		}
	}
}

func TestManualHasEveryKey(t *testing.T) {
	p := clitest.Page(t, "roam.conf.5")
	items := strings.Split(p, "\n.It Va ")
	for _, k := range config.Keys() {
		found := false
		for _, it := range items[1:] {
			head, body, _ := strings.Cut(it, "\n")
			name, mark, _ := strings.Cut(head, " ")
			if name != k.Name {
				continue
			}
			found = true
			if !strings.Contains(body+"\n", "\nDefault: "+k.Default+".\n") {
				t.Errorf("roam.conf.5: %s: the default is %s", k.Name, k.Default)
			}
			if (mark == "Pq restart") != k.Restart {
				t.Errorf("roam.conf.5: %s: the mark of a restart is wrong", k.Name)
			}
		}
		if !found {
			t.Errorf("roam.conf.5 lacks the key %s", k.Name)
		}
	}
	for _, name := range config.RuleKeys() {
		if !strings.Contains(p, "\n.It Cm "+name+"\n") {
			t.Errorf("roam.conf.5 lacks the key %s of a rule", name)
		}
	}
	if got, want := len(items)-1, len(config.Keys()); got != want {
		t.Errorf("roam.conf.5 has %d keys, the file has %d", got, want)
	}
}

func TestManualsAreThere(t *testing.T) {
	hosts := clitest.Page(t, "roam-hosts.5")
	for _, option := range []string{"nid", "l64", "order", "checksum", "update", "nonce", "lu-order", "anywhere"} {
		if !clitest.Has(hosts, ".It Cm "+option+" Ns") {
			t.Errorf("roam-hosts.5 lacks the option %s", option)
		}
	}
	daemon := clitest.Page(t, "roamd.8")
	for _, want := range []string{".It Fl -config Ar FILE", ".It Fl -version", ".It Cm restore", "SIGTERM"} {
		if !strings.Contains(daemon, want) {
			t.Errorf("roamd.8 lacks %q", want)
		}
	}
}

// TestExamplesOfTheManuals reads what the manuals show.
func TestExamplesOfTheManuals(t *testing.T) {
	_, rest, ok := strings.Cut(clitest.Page(t, "roam.conf.5"), ".Sh EXAMPLES")
	if !ok {
		t.Fatal("roam.conf.5 has no examples")
	}
	for n, text := range displays(rest) {
		if _, err := config.Parse("example", []byte(text)); err != nil {
			t.Errorf("example %d of roam.conf.5: %v", n+1, err)
		}
	}
	_, rest, _ = strings.Cut(clitest.Page(t, "roam-hosts.5"), ".Sh EXAMPLES")
	for _, text := range displays(rest) {
		if records, err := naming.ParseHosts("example", text); err != nil || len(records) == 0 {
			t.Errorf("the example of roam-hosts.5: %d records, %v", len(records), err)
		}
	}
	line := regexp.MustCompile(`(?m)^roam2:\S+$`).FindString(clitest.Page(t, "roam.8"))
	if r, err := naming.ParsePairing(line); err != nil || r.Key.Check(r.NID) != nil {
		t.Errorf("the example of roam.8: %v, %v", err, r.Key.Check(r.NID))
	}
}

func displays(text string) (out []string) {
	for _, part := range strings.Split(text, ".Bd -literal")[1:] {
		_, body, _ := strings.Cut(part, "\n")
		body, _, _ = strings.Cut(body, "\n.Ed")
		out = append(out, body)
	}
	return out
}
