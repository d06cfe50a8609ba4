package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestColoursAreForTerminals(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if wantsColour(f) {
		t.Error("colours in a file")
	}
	tty, err := os.Open("/dev/null") // a character device, as a terminal is
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	if !wantsColour(tty) {
		t.Error("no colours on a terminal")
	}
	t.Setenv("NO_COLOR", "1")
	if wantsColour(tty) {
		t.Error("NO_COLOR is not heeded")
	}
}

// TestRun ends a program in every way that a verb can.
func TestRun(t *testing.T) {
	judged := func(error) (int, string) { return StatusNoDaemon, "start it" }
	for name, tc := range map[string]struct {
		args    string
		err     error
		judge   func(error) (int, string)
		status  int
		errs    string
		program func(*Terminal)
	}{
		"done":          {args: "verb"},
		"failed":        {args: "verb", err: errors.New("disk on fire"), status: StatusFailure, errs: "prog: disk on fire\n"},
		"judged":        {args: "verb", err: errors.New("away"), judge: judged, status: StatusNoDaemon, errs: "prog: away\nhint: start it\n"},
		"usage":         {args: "verb", err: fmt.Errorf("a: %w", Usagef("b")), status: StatusUsage, errs: "prog: a: b\nhint: see `prog --help` or man 8 prog\n"},
		"usage, judged": {args: "verb", err: Usage(errors.New("b")), judge: judged, status: StatusUsage, errs: "prog: b\nhint: start it\n"},
		"silent":        {args: "verb", err: Silent(7), judge: judged, status: 7},
		"JSON":          {args: "verb --json", err: errors.New("<fire>"), status: StatusFailure, errs: `{"error":"<fire>","status":1}` + "\n"},
		"flag":          {args: "verb --what", status: StatusUsage, errs: "prog: unknown flag: --what\nhint: see `prog --help` or man 8 prog\n"},
		"no verb":       {args: "vreb", status: StatusUsage, errs: "prog: \"vreb\" is not a verb of \"prog\"; did you mean \"verb\"?\nhint: see `prog --help` or man 8 prog\n"},
		"short": {args: "xsq", status: StatusUsage,
			errs: "prog: \"xsq\" is not a verb of \"prog\"\nhint: see `prog --help` or man 8 prog\n"},
		"none wanted": {args: "esp a", status: StatusUsage,
			errs: "prog: \"prog esp\" takes no argument: \"a\"\nhint: see `prog --help` or man 8 prog\n"},
		"no argument":   {args: "one", status: StatusUsage, errs: "prog: \"prog one\" needs NAME\nhint: see `prog --help` or man 8 prog\n"},
		"two arguments": {args: "one a b", status: StatusUsage, errs: "prog: \"prog one\" takes no further argument: \"b\"\nhint: see `prog --help` or man 8 prog\n"},
		"one":           {args: "one a"},
		"too many":      {args: "some a b", status: StatusUsage, errs: "prog: \"prog some\" takes no further argument: \"b\"\nhint: see `prog --help` or man 8 prog\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			term := &Terminal{Program: "prog", Out: &out, Err: &errs}
			done := func(*cobra.Command, []string) error { return tc.err }
			root := term.Root(&cobra.Command{Use: "prog", Args: NoArgs, RunE: done}, "1.2")
			root.AddCommand(&cobra.Command{Use: "verb", RunE: done}, &cobra.Command{Use: "one NAME", Args: Exactly("NAME"), RunE: done},
				&cobra.Command{Use: "some [NAME]", Args: AtMost(1), RunE: done},
				&cobra.Command{Use: "esp", Args: NoArgs, RunE: done})
			if status := term.Run(root, strings.Fields(tc.args), tc.judge); status != tc.status || errs.String() != tc.errs || out.Len() > 0 {
				t.Errorf("status %d, want %d; out %q; errors %q, want %q", status, tc.status, &out, &errs, tc.errs)
			}
		})
	}
}

// TestTable aligns text to the left and numbers to the right, and colours change
// neither.
func TestTable(t *testing.T) {
	var text, coloured bytes.Buffer
	for _, out := range []*bytes.Buffer{&text, &coloured} {
		term := &Terminal{Colour: out == &coloured}
		table := term.Table("NAME", "N", "STATE")
		table.Row(Text("größer"), Number("%d", 5), Cell{Text: "up", Colour: Green})
		table.Row(Text("b"), Number("%d", 1234), Text("%s", OrDash("")))
		table.Print(out)
	}
	if want := "NAME       N  STATE\ngrößer     5  up\nb       1234  -\n"; text.String() != want {
		t.Errorf("got\n%swant\n%s", &text, want)
	}
	plain := strings.NewReplacer("\x1b["+Bold+"m", "", "\x1b["+Green+"m", "", "\x1b[0m", "").Replace(coloured.String())
	lines := strings.Split(plain, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	if strings.Join(lines, "\n") != text.String() || coloured.String() == text.String() {
		t.Errorf("in colour: %q", &coloured)
	}
}

// TestTableFits: a text that is too long for its line goes on below, between words if it can;
// numbers and what fits stay whole.
func TestTableFits(t *testing.T) {
	var out bytes.Buffer
	term := &Terminal{Out: &out, Width: 40}
	table := term.Table("NAME", "N", "MEANING")
	table.Row(Text("a"), Number("%d", 1234567), Text("a packet that took 20.1 ms to arrive"))
	table.Row(Text("long-name.of.a.host"), Number("%d", 1), Text("b"))
	table.Print(&out)
	want := "NAME                     N  MEANING\n" +
		"a                  1234567  a packet\n" +
		"                            that took\n" +
		"                            20.1 ms to\n" +
		"                            arrive\n" +
		"long-name.of.a.          1  b\n" +
		"host\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
	out.Reset()
	term.Wide = true
	table = term.Table("NAME")
	table.Row(Text("%s", strings.Repeat("long ", 100)))
	table.Print(&out)
	if strings.Count(out.String(), "\n") != 2 {
		t.Errorf("with --wide: %q", &out)
	}
}

func TestFill(t *testing.T) {
	var out bytes.Buffer
	term := &Terminal{Out: &out, Width: 24}
	term.Fill("\x1b[31mhead\x1b[0m  ", "one two three four  (five) 2001:db8:1:2::/64 x")
	want := "\x1b[31mhead\x1b[0m  one two three four\n      (five)\n      2001:db8:1:2::/64\n      x\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", &out, want)
	}
	out.Reset()
	term.Fill("> ", "run there: `roam add 'roam1:1-2-3-4:2001+db8+1+1:here:0'`; if not, nothing")
	if want := "> run there:\n  `roam add 'roam1:1-2-3-4:2001+db8+1+1:here:0'`;\n  if not, nothing\n"; out.String() != want {
		t.Errorf("got %q, want %q: a command is broken", &out, want)
	}
}

func TestWidth(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for set, want := range map[string]int{"": 80, "132": 132, "no": 80, "-1": 80} {
		t.Setenv("COLUMNS", set)
		if got := NewTerminal("x", f, f).Columns(); got != want {
			t.Errorf("COLUMNS=%q: %d, want %d", set, got, want)
		}
	}
	if got := (&Terminal{Wide: true, Width: 80}).Columns(); got != 0 {
		t.Errorf("--wide: %d", got)
	}
}

func TestPrintJSON(t *testing.T) {
	var out bytes.Buffer
	term := &Terminal{Out: &out}
	if err := term.PrintJSON(map[string]string{"a": "<b>"}); err != nil || out.String() != "{\n  \"a\": \"<b>\"\n}\n" {
		t.Errorf("%v: %q", err, &out)
	}
}
