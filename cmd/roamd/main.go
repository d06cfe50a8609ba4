// Command roamd is the daemon of Roam: it keeps an ILNPv6 host's sessions alive
// while the host moves, and spreads them over all its links. roamd(8) describes
// it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"roam/internal/config"
	"roam/internal/control"
	"roam/internal/daemon"
)

// version is set by the build.
var version = "devel"

const usage = `Run the daemon of Roam in the foreground; roam(8) queries and controls it.

Usage:
  roamd [flags]
  roamd restore [flags]

Verbs:
  restore     Restore what a daemon that no longer runs changed on this host;
              refused while a daemon runs

Flags:
      --config FILE   read the configuration FILE (default /etc/roam/roam.conf)
  -h, --help          help for roamd
      --version       print the version

The manual is roamd(8).
`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	restore := len(args) > 0 && args[0] == "restore"
	if restore {
		args = args[1:]
	}
	flags := flag.NewFlagSet("roamd", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {}
	file := flags.String("config", config.DefaultPath, "configuration file")
	showVersion := flags.Bool("version", false, "print the version")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return 0
	} else if err != nil || flags.NArg() > 0 {
		if err == nil {
			fmt.Fprintf(stderr, "roamd: unexpected argument %q\n", flags.Arg(0))
		}
		fmt.Fprint(stderr, "hint: see `roamd --help` or man 8 roamd\n")
		return 2
	}
	if *showVersion {
		fmt.Fprintln(stdout, "roamd", version)
		return 0
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(stderr, "roamd: root is needed, to load eBPF programs and to set up the session device")
		return 1
	}
	var err error
	if restore {
		err = daemon.Restore(*file)
	} else {
		err = serve(*file, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "roamd: %v\n", err)
		if hint := control.Hint(err); hint != "" {
			fmt.Fprintf(stderr, "  %s\n", hint)
		}
		return 1
	}
	return 0
}

func serve(file string, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	// Many daemons read their files again by this one, which would end ours without its shutdown.
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	// Faults of the file are the daemon's to report; until then the log is text.
	cfg, _ := config.Load(file)
	return daemon.Run(ctx, daemon.Options{ConfigFile: file, Version: version, Reload: reload,
		Log: slog.New(handler(stderr, cfg.Log.Format))})
}

// handler writes the log in a form.
func handler(w io.Writer, form config.LogFormat) slog.Handler {
	if form == config.LogJSON {
		return slog.NewJSONHandler(w, nil)
	}
	return slog.NewTextHandler(w, nil)
}
