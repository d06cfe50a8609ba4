// Package clitest compares a program's command line with its manual page.
//
// Implements the checks that every verb, flag and name of JSON is on the page.
// Omits whether what the page says of them is true. Driven by the tests of
// cmd/roam and cmd/roam-lab.
package clitest

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Page returns a manual page, for a test in a folder below cmd.
func Page(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "man", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Has reports whether a page has a line that begins with these words.
func Has(page, words string) bool {
	return regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(words) + `( |$)`).MatchString(page)
}

var flagName = regexp.MustCompile(`(?m)^ +(?:-., )?--([a-z-]+)`)

// Verbs fails the test for each verb and flag of a program that its page lacks.
func Verbs(t *testing.T, name string, root *cobra.Command) {
	t.Helper()
	p := Page(t, name)
	root.InitDefaultHelpFlag()
	root.InitDefaultVersionFlag()
	root.InitDefaultCompletionCmd("x")
	root.InitDefaultHelpCmd()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		words := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), root.Name()), " ")
		leaf := len(cmd.Commands()) == 0 || words == "completion"
		if leaf && !Has(p, ".It Cm "+words) {
			t.Errorf("%s lacks the verb %q", name, words)
		}
		flags := cmd.LocalNonPersistentFlags().FlagUsages() + cmd.PersistentFlags().FlagUsages()
		for _, m := range flagName.FindAllStringSubmatch(flags, -1) {
			if !strings.Contains(p, "Fl -"+m[1]) {
				t.Errorf("%s lacks the flag --%s of %q", name, m[1], cmd.CommandPath())
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

// Names fails the test for each name in the JSON form of the values that a page
// lacks.
func Names(t *testing.T, name string, values ...any) {
	t.Helper()
	p := Page(t, name)
	names := make(map[string]bool)
	for _, v := range values {
		fields(reflect.TypeOf(v), names)
	}
	for n := range names {
		if !Has(p, ".Li "+n) && !Has(p, ".It Li "+n) {
			t.Errorf("%s lacks the JSON name %q", name, n)
		}
	}
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
