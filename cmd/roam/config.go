package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"roam/internal/cli"
	"roam/internal/config"
	"roam/internal/control"
	"roam/naming"

	"github.com/spf13/cobra"
)

func (a *app) configCommand() *cobra.Command {
	noun := &cobra.Command{
		Use: "config", Short: "Check, show or reload the configuration", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Usagef("%q needs a verb: check, reload or show", cmd.CommandPath())
		},
	}
	noun.AddCommand(
		&cobra.Command{
			Use: "check [FILE]", Short: "Check FILE, or roam.conf, and name every fault; needs no daemon", Args: cli.AtMost(1),
			RunE: func(_ *cobra.Command, args []string) error { return a.configCheck(args) },
		},
		&cobra.Command{
			Use: "show", Short: "Show the configuration with its defaults; needs no daemon", Args: cli.NoArgs,
			RunE: func(*cobra.Command, []string) error { return a.configShow() },
		},
		&cobra.Command{
			Use: "reload", Short: "Make the daemon read the configuration again and apply changes", Args: cli.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.configReload(cmd.Context()) },
		},
	)
	return noun
}

// checked is what `roam config check --json` prints.
type checked struct {
	File   string  `json:"file"`
	OK     bool    `json:"ok"`
	Faults []fault `json:"faults"`
}

type fault struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Key     string `json:"key"`
	Message string `json:"message"`
}

func (a *app) configFile(args []string) string {
	switch {
	case len(args) == 1:
		return args[0]
	case a.configPath != "":
		return a.configPath
	}
	return a.usual
}

func (a *app) configCheck(args []string) error {
	file := a.configFile(args)
	cfg, err := config.Load(file)
	if errors.Is(err, fs.ErrNotExist) && len(args) == 0 && a.configPath == "" {
		// Most hosts run without a file; only one that the user names must exist.
		a.Warn("there is no %s: the defaults are in force", file)
		cfg, err = config.Default(), nil
	}
	if absent := config.AbsentCgroups(file, cfg, config.IsCgroup); err == nil && len(absent) > 0 {
		err = absent
	}
	var own config.Errors
	if err != nil && !errors.As(err, &own) {
		return err
	}
	if err != nil {
		cfg = config.Rescue(file) // for the paths of the hosts files, which are checked too
	}
	out := checked{File: file, Faults: []fault{}}
	var texts []string
	for _, f := range own {
		out.Faults = append(out.Faults, fault{f.File, f.Line, f.Column, f.Key, f.Message})
		texts = append(texts, f.Error())
	}
	for _, f := range hostsFaults(a.host, cfg) {
		out.Faults = append(out.Faults, fault{File: f.File, Line: f.Line, Message: f.Err.Error()})
		texts = append(texts, f.Error())
	}
	if err := policyFault(cfg); err != nil {
		f := fault{File: file, Line: config.Line(file, policyKey), Key: policyKey, Message: err.Error()}
		out.Faults = append(out.Faults, f)
		texts = append(texts, fmt.Sprintf("%s:%d: %s: %s", f.File, f.Line, f.Key, f.Message))
	}
	out.OK = len(out.Faults) == 0
	switch {
	case a.JSON:
		if err := a.PrintJSON(out); err != nil {
			return err
		}
	case out.OK:
		fmt.Fprintf(a.Out, "%s: no fault\n", file)
	default:
		// The faults are the answer, but a script that reads only the exit status must not
		// treat the file as valid.
		fmt.Fprintln(a.Err, strings.Join(texts, "\n"))
	}
	if !out.OK {
		return cli.Silent(cli.StatusFailure)
	}
	return nil
}

// hostsFaults reads the hosts file and the added peers as the daemon does.
func hostsFaults(h host, cfg config.Config) naming.Errors {
	var files []naming.File
	for _, file := range []string{cfg.Host.Hosts, cfg.Peers()} {
		files = append(files, naming.File{Name: file, Text: h.Read(file)})
	}
	return naming.ReadHosts(files...).Faults
}

// configShow prints the configuration as the daemon parses it.
func (a *app) configShow() error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if !a.JSON {
		_, err := fmt.Fprint(a.Out, config.Format(cfg))
		return err
	}
	values := make(map[string]string)
	for _, k := range config.Keys() {
		values[k.Name] = k.Value(cfg)
	}
	return a.PrintJSON(values)
}

func (a *app) configReload(ctx context.Context) error {
	var r control.Reloaded
	err := a.ask(ctx, func(ctx context.Context, b control.Backend) (err error) {
		r, err = b.Reload(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(r)
	}
	for _, c := range r.Applied {
		fmt.Fprintln(a.Out, "applied:", c)
	}
	for _, c := range r.Restart {
		fmt.Fprintln(a.Out, "waits for a restart:", c)
	}
	if len(r.Applied)+len(r.Restart) == 0 {
		fmt.Fprintln(a.Out, "nothing has changed")
	}
	return nil
}
