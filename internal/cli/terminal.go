package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Terminal is where one run of a program prints, and in which form.
type Terminal struct {
	Program  string // its name, before a failure and in hints
	Out, Err io.Writer
	Colour   bool
	JSON     bool // print JSON in place of text
	Wide     bool // print tables with all their columns, in lines as long as they are
	Width    int  // columns of a line; 0: as many as there usually are
	Height   int  // lines of a screen whose cursor can be moved; 0: there is none

	file *os.File // of Out; nil: it is none
}

// NewTerminal returns the terminal of a program with these streams.
func NewTerminal(program string, out, errw *os.File) *Terminal {
	t := &Terminal{Program: program, Out: out, Err: errw, Colour: wantsColour(out), file: out}
	t.Measure()
	return t
}

// Measure reads the size of the terminal again, which its user may have changed.
func (t *Terminal) Measure() {
	if t.file != nil {
		t.Width, t.Height = widthOf(t.file), heightOf(t.file)
	}
}

// wantsColour follows NO_COLOR (https://no-color.org) and is true on terminals.
func wantsColour(f *os.File) bool {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&fs.ModeCharDevice != 0
}

// Root prepares the command at the root of a program's tree: its version, its
// streams, and the flags --json and --wide, which every verb has.
func (t *Terminal) Root(root *cobra.Command, version string) *cobra.Command {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Version = version
	root.SetVersionTemplate(t.Program + " {{.Version}}\n")
	root.SetOut(t.Out)
	root.SetErr(t.Err)
	wrapped := fmt.Sprintf(".FlagUsagesWrapped %d", usual)
	root.SetUsageTemplate(strings.NewReplacer(".FlagUsages", wrapped, "[command]", "VERB", "Available Commands:", "Verbs:",
		"Global Flags:", "Flags of every verb:", "for more information about a command", "for more about a verb",
	).Replace(root.UsageTemplate()))
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usage(err) })
	root.PersistentFlags().BoolVar(&t.JSON, "json", false, "print JSON (see "+t.Program+"(8))")
	root.PersistentFlags().BoolVar(&t.Wide, "wide", false, "print every column, in lines as long as they get")
	return root
}

// Ordered ends the making of a program's tree: help lists verbs in the order in which they were
// added, and the library's own verbs last, with texts in the form of all others.
func (t *Terminal) Ordered(root *cobra.Command) {
	cobra.EnableCommandSorting = false // sorts by the alphabet
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Use, c.Short = "help [VERB]", "Print a summary of a verb"
			c.Long = c.Short + "; the manual is " + t.Program + "(8)"
		case "completion":
			c.Short = "Print a completion script for a shell"
			c.Long = "Print a script that completes verbs and their arguments on a shell's command line"
		}
	}
}

// Run carries out one command line and returns the exit status. judge gives the
// status and the hint of a failure that is none of this package; nil stands for
// StatusFailure and no hint.
func (t *Terminal) Run(root *cobra.Command, args []string, judge func(error) (status int, hint string)) int {
	// Of nil cobra would make the arguments of the process.
	root.SetArgs(append([]string{}, args...))
	err := root.Execute()
	if err == nil {
		return StatusOK
	}
	var silent silentError
	if errors.As(err, &silent) {
		return silent.status
	}
	status, hint := StatusFailure, ""
	if judge != nil {
		status, hint = judge(err)
	}
	var usage usageError
	if errors.As(err, &usage) {
		status = StatusUsage
		if hint == "" {
			hint = fmt.Sprintf("see `%s --help` or man 8 %s", t.Program, t.Program)
		}
	}
	t.complain(err, hint, status)
	return status
}

// PrintJSON writes v as one indented object or list.
func (t *Terminal) PrintJSON(v any) error {
	enc := json.NewEncoder(t.Out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// JSONList prints a list as PrintJSON does, element by element.
type JSONList struct {
	out   io.Writer
	began bool
}

// JSONList begins a list; nothing is printed before its first element or its end.
func (t *Terminal) JSONList() *JSONList { return &JSONList{out: t.Out} }

// Add prints an element.
func (l *JSONList) Add(v any) error {
	var text bytes.Buffer
	text.WriteString(",\n  ")
	if !l.began {
		text.Reset()
		text.WriteString("[\n  ")
	}
	l.began = true
	enc := json.NewEncoder(&text)
	enc.SetIndent("  ", "  ")
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	if err == nil {
		_, err = l.out.Write(bytes.TrimRight(text.Bytes(), "\n"))
	}
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// End prints the end of the list: one without it is not whole.
func (l *JSONList) End() error {
	end := "[]\n"
	if l.began {
		end = "\n]\n"
	}
	if _, err := io.WriteString(l.out, end); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// complain reports a failure on the error stream, in the form that was asked
// for.
func (t *Terminal) complain(err error, hint string, status int) {
	if t.JSON {
		enc := json.NewEncoder(t.Err)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(struct {
			Error  string `json:"error"`
			Hint   string `json:"hint,omitempty"`
			Status int    `json:"status"`
		}{err.Error(), hint, status})
		return
	}
	fmt.Fprintf(t.Err, "%s: %v\n", t.Program, err)
	if hint != "" {
		fmt.Fprintf(t.Err, "hint: %s\n", hint)
	}
}

// Warn prints something that was not asked for on the error stream.
func (t *Terminal) Warn(format string, args ...any) {
	fmt.Fprintf(t.Err, "warning: "+format+"\n", args...)
}
