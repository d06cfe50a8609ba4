package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"time"

	"roam/internal/cli"
	"roam/internal/control"
	"roam/internal/doctor"

	"github.com/spf13/cobra"
)

func (a *app) reportCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "report [PEER]", Short: "Collect the data for a bug report in one archive, without secrets", Args: cli.AtMost(1),
		ValidArgsFunction: a.completePeers,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.report(cmd.Context(), output, args)
		},
	}
	cmd.Flags().StringVar(&output, "output", "", "write to `FILE`, or to standard output if it is - (default roam-report-TIME.tar.gz)")
	return cmd
}

// reported is what `roam report --json` prints.
type reported struct {
	File  string   `json:"file"`
	Parts []string `json:"parts"` // names inside the archive
}

// part is one file of the archive.
type part struct {
	name string
	data []byte
}

func (a *app) report(ctx context.Context, output string, args []string) error {
	if a.JSON && output == "-" {
		return cli.Usagef("--json and --output - both want standard output")
	}
	name := "roam-report-" + a.now().UTC().Format("20060102-150405")
	if output == "" {
		output = name + ".tar.gz"
	}
	parts := a.reportParts(ctx, args)
	if output == "-" {
		return writeArchive(a.Out, name, a.now(), parts)
	}
	// The archive reveals the host's locators and peers, so only its user may read it.
	f, err := os.OpenFile(output, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	err = writeArchive(f, name, a.now(), parts)
	if e := f.Close(); err == nil && e != nil {
		err = fmt.Errorf("write report: %w", e)
	}
	if err != nil {
		_ = os.Remove(output)
		return err
	}
	out := reported{File: output}
	for _, p := range parts {
		out.Parts = append(out.Parts, p.name)
	}
	if a.JSON {
		return a.PrintJSON(out)
	}
	a.Fill("", fmt.Sprintf("%s: %d files. It contains no nonce and no key, but names, identifiers and addresses of "+
		"this host and its correspondents: read it before you send it.", output, len(parts)))
	return nil
}

// reportParts collects the files. A file that cannot be collected has the reason as its text.
func (a *app) reportParts(ctx context.Context, args []string) []part {
	var parts []part
	word := ""
	if len(args) == 1 {
		word = args[0]
	}
	add := func(name, text string) {
		if text != "" {
			parts = append(parts, part{name, []byte(text)})
		}
	}
	facts := a.facts(ctx, word)
	add("versions.json", asJSON(map[string]string{
		"roam": version, "go": runtime.Version(), "arch": runtime.GOARCH, "kernel": facts.Kernel,
		"build": a.host.Read("/proc/version"), "system": a.host.Read("/etc/os-release"),
	}))
	add("doctor.json", asJSON(doctor.Examine(facts)))
	parts = append(parts, a.daemonParts(ctx, facts.Daemon)...)
	add("config/roam.conf", a.host.Read(facts.ConfigFile))
	if file, err := keptFile(a); err == nil {
		add("config/in-force.conf", a.host.Read(file))
	}
	add("config/hosts", a.host.Read(facts.Config.Host.Hosts))
	add("config/peers", a.host.Read(facts.Config.Peers()))
	add("config/resolv.conf", facts.ResolvConf)
	add("config/host.json", a.host.Read(facts.Config.Journal()))
	for _, c := range systemCommands {
		add(path.Join("system", c.file), a.host.Output(ctx, c.words[0], c.words[1:]...))
	}
	add("log/roamd.log", tail(a.host.Read(filepath.Join(facts.Config.Host.RunDir, "roamd.log")), maxLog))
	add("log/journal.txt", tail(a.host.Output(ctx, "journalctl", "--no-pager", "--lines=5000", "--unit="+unit), maxLog))
	return parts
}

// systemCommands print the state of the network. None of them reads the maps of the data
// plane, which contain nonces.
var systemCommands = []struct {
	file  string
	words []string
}{
	{"addresses.txt", []string{"ip", "-d", "address", "show"}},
	{"routes.txt", []string{"ip", "-6", "route", "show", "table", "all"}},
	{"rules.txt", []string{"ip", "-6", "rule", "show"}},
	{"neighbours.txt", []string{"ip", "-6", "neighbour", "show"}},
	{"links.txt", []string{"ip", "-s", "link", "show"}},
	{"nft.txt", []string{"nft", "list", "ruleset"}},
	{"ip6tables.txt", []string{"ip6tables-save"}},
	{"attachments.txt", []string{"bpftool", "net", "show"}},
	{"sysctl.txt", []string{"sysctl", "-a", "--pattern", "^net[.]ipv6[.]conf"}},
	{"unit.txt", []string{"systemctl", "show", unit}},
}

// maxLog bounds the part of each log that is included, in bytes.
const maxLog = 1 << 20

func tail(text string, limit int) string { return text[max(0, len(text)-limit):] }

// daemonParts collects the answers of the daemon.
func (a *app) daemonParts(ctx context.Context, s *control.Status) (parts []part) {
	ask := func(name string, f func(context.Context, control.Backend) (any, error)) {
		err := a.ask(ctx, func(ctx context.Context, b control.Backend) error {
			v, err := f(ctx, b)
			if err == nil {
				parts = append(parts, part{"daemon/" + name, []byte(asJSON(v))})
			}
			return err
		})
		if err != nil {
			parts = append(parts, part{"daemon/" + name + ".error", []byte(err.Error() + "\n")})
		}
	}
	ask("status.json", func(ctx context.Context, b control.Backend) (any, error) { return b.Status(ctx) })
	ask("locators.json", func(ctx context.Context, b control.Backend) (any, error) { return b.Locators(ctx) })
	ask("sessions.json", func(ctx context.Context, b control.Backend) (any, error) {
		return control.Sessions(ctx, b)
	})
	ask("peers.json", func(ctx context.Context, b control.Backend) (any, error) { return b.Peers(ctx) })
	ask("counters.json", func(ctx context.Context, b control.Backend) (any, error) { return b.Counters(ctx) })
	ask("history.json", func(ctx context.Context, b control.Backend) (any, error) { return b.History(ctx) })
	if s != nil && len(s.Roles) > 0 {
		ask("roles.json", func(ctx context.Context, b control.Backend) (any, error) { return b.Roles(ctx, 0) })
	}
	return parts
}

func asJSON(v any) string {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err.Error() + "\n" // the reader of the report sees it
	}
	return string(b) + "\n"
}

// writeArchive writes the files, in a directory of their own, as .tar.gz.
func writeArchive(w io.Writer, dir string, at time.Time, parts []part) error {
	zip := gzip.NewWriter(w)
	archive := tar.NewWriter(zip)
	for _, p := range parts {
		h := &tar.Header{Name: path.Join(dir, p.name), Mode: 0o600, Size: int64(len(p.data)), ModTime: at}
		if err := archive.WriteHeader(h); err != nil {
			return fmt.Errorf("write report: %s: %w", p.name, err)
		}
		if _, err := archive.Write(p.data); err != nil {
			return fmt.Errorf("write report: %s: %w", p.name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if err := zip.Close(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
