package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"roam/internal/config"
	"roam/internal/control"
	"roam/naming"

	"github.com/spf13/cobra"
)

func page(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "man", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// has reports whether the page has a line that begins with these words.
func has(page, words string) bool {
	return regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(words) + `( |$)`).MatchString(page)
}

var flagName = regexp.MustCompile(`(?m)^ +(?:-., )?--([a-z-]+)`)

func TestManualHasEveryVerbAndFlag(t *testing.T) {
	p := page(t, "roam.8")
	a := newWorld(t).app
	root := a.root()
	root.InitDefaultHelpFlag()
	root.InitDefaultVersionFlag()
	root.InitDefaultCompletionCmd("x")
	root.InitDefaultHelpCmd()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		words := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "roam"), " ")
		leaf := len(cmd.Commands()) == 0 || words == "completion"
		if leaf && !has(p, ".It Cm "+words) {
			t.Errorf("roam.8 lacks the verb %q", words)
		}
		flags := cmd.LocalNonPersistentFlags().FlagUsages() + cmd.PersistentFlags().FlagUsages()
		for _, m := range flagName.FindAllStringSubmatch(flags, -1) {
			if !strings.Contains(p, "Fl -"+m[1]) {
				t.Errorf("roam.8 lacks the flag --%s of %q", m[1], cmd.CommandPath())
			}
		}
		if words == "completion" {
			return // its shells are arguments to a reader
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// fields adds the JSON names of a type and of all that it holds.
func fields(typ reflect.Type, out map[string]bool) {
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice:
		fields(typ.Elem(), out)
	case reflect.Struct:
		if !strings.HasPrefix(typ.PkgPath(), "roam/") {
			return
		}
		for f := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(f).Tag.Get("json"), ",")
			if name != "" {
				out[name] = true
			}
			fields(typ.Field(f).Type, out)
		}
	}
}

func TestManualHasEveryJSONName(t *testing.T) {
	p := page(t, "roam.8")
	names := make(map[string]bool)
	for _, v := range []any{
		glance{}, control.Counter{}, control.Event{}, control.Peer{}, control.KnownPeer{}, control.Removed{}, control.Reloaded{}, control.Exported{},
		control.ModeRequest{}, control.LinkRequest{}, checked{}, started{}, stopped{}, versions{}, examined{}, explanation{}, reported{}, linkCounts{},
	} {
		fields(reflect.TypeOf(v), names)
	}
	for n := range names {
		if !has(p, ".Li "+n) && !has(p, ".It Li "+n) {
			t.Errorf("roam.8 lacks the JSON name %q", n)
		}
	}
	for _, k := range control.KindNames() {
		if !has(p, ".It Li "+k) {
			t.Errorf("roam.8 lacks the event %q", k)
		}
	}
}

func TestManualHasEveryKey(t *testing.T) {
	p := page(t, "roam.conf.5")
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
	if got, want := len(items)-1, len(config.Keys()); got != want {
		t.Errorf("roam.conf.5 has %d keys, the file has %d", got, want)
	}
}

func TestManualsAreThere(t *testing.T) {
	hosts := page(t, "roam-hosts.5")
	for _, option := range []string{"nid", "l64", "order", "checksum", "update", "nonce", "lu-order", "anywhere"} {
		if !has(hosts, ".It Cm "+option+" Ns") {
			t.Errorf("roam-hosts.5 lacks the option %s", option)
		}
	}
	daemon := page(t, "roamd.8")
	for _, want := range []string{".It Fl -config Ar FILE", ".It Fl -version", ".It Cm restore", "SIGTERM"} {
		if !strings.Contains(daemon, want) {
			t.Errorf("roamd.8 lacks %q", want)
		}
	}
}

// TestExamplesOfTheManuals reads what the manuals show.
func TestExamplesOfTheManuals(t *testing.T) {
	_, rest, ok := strings.Cut(page(t, "roam.conf.5"), ".Sh EXAMPLES")
	if !ok {
		t.Fatal("roam.conf.5 has no examples")
	}
	for n, text := range displays(rest) {
		if _, err := config.Parse("example", []byte(text)); err != nil {
			t.Errorf("example %d of roam.conf.5: %v", n+1, err)
		}
	}
	_, rest, _ = strings.Cut(page(t, "roam-hosts.5"), ".Sh EXAMPLES")
	for _, text := range displays(rest) {
		if records, err := naming.ParseHosts("example", text); err != nil || len(records) == 0 {
			t.Errorf("the example of roam-hosts.5: %d records, %v", len(records), err)
		}
	}
	line := regexp.MustCompile(`(?m)^roam1:\S+$`).FindString(page(t, "roam.8"))
	if _, err := naming.ParsePairing(line); err != nil {
		t.Errorf("the example of roam.8: %v", err)
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
