package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"roam/lab/interop"
	"roam/lab/interop/suite"
	"roam/lab/node"
	"roam/lab/result"
	"roam/lab/topo"
)

// InteropOptions select the foreign stack for Roam's interoperability test, and the output.
type InteropOptions struct {
	Target  string         // name of a profile, or of the foreign host
	Foreign *suite.Foreign // nil: a profile
	Hosts   string         // options of the target's hosts line
	Cases   []string       // empty: all
	JSON    string         // file of the result
	Report  string         // file of the report
	Logs    string         // directory for the daemon's logs
	Bin     string         // directory of roam and roamd; if empty, that of this binary
	Out     io.Writer      // the last line
	// Row prints a row of the table as each case ends: columns of fixed width, and the rest.
	Row func(head, text string)
}

// interopTools are the tools of the cases, with their packages.
var interopTools = map[string]string{"radvd": "radvd", "ping": "iputils-ping"}

// ErrTarget is wrapped by the error about a target that cannot be.
var ErrTarget = errors.New("no such target")

// Interop holds Roam against another stack and judges it.
func Interop(ctx context.Context, opt InteropOptions) (*result.Result, error) {
	run, about, err := opt.prepare()
	if err != nil {
		return nil, err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := topo.Sweep(); err != nil {
		return nil, fmt.Errorf("remove what an earlier run left: %w", err)
	}
	began := time.Now()
	opt.Row(fmt.Sprintf(interopRow, "CASE", "RESULT"), "TIME OR LOSS; REASON")
	run.Heard = opt.Show
	all, err := suite.Run(ctx, run)
	if err != nil {
		return nil, err
	}
	res := suite.Result(opt.Target, about, began, all)
	res.Machine = result.Describe(ctx, map[string][]string{"roam": {run.Bin.Roam, "version"},
		"radvd": {topo.Program("radvd"), "--version"}})
	pass, fail, missed := res.Count()
	fmt.Fprintf(opt.Out, "%s: %d passed, %d failed, %d not measured in %.0f s\n", opt.Target, pass,
		fail, missed, res.Seconds)
	return res, write(res, Options{JSON: opt.JSON, Report: opt.Report, Out: opt.Out})
}

// Show prints the row of a case.
func (opt InteropOptions) Show(o suite.Outcome) {
	text := o.Value
	if o.Value != "" && o.Why != "" {
		text += "; "
	}
	opt.Row(fmt.Sprintf(interopRow, o.Case.Name, o.Verdict()), text+o.Why)
}

const interopRow = "%-18s %-13s "

// prepare checks all that can be checked before anything is built.
func (opt InteropOptions) prepare() (run suite.Options, about string, err error) {
	run = suite.Options{Foreign: opt.Foreign, Hosts: opt.Hosts, Cases: opt.Cases, Logs: opt.Logs}
	if _, err := suite.Select(opt.Cases); err != nil {
		return run, "", err
	}
	about = "a host on link " + linkOf(opt.Foreign)
	if opt.Foreign == nil {
		p, ok := interop.FindProfile(opt.Target)
		if !ok {
			return run, "", fmt.Errorf("%q: %w; there are %v, or a host that --link, --nid and --l64 describe", opt.Target,
				ErrTarget, interop.ProfileNames())
		}
		run.Profile, about = p, p.About
	}
	if err := mayBuild(); err != nil {
		return run, "", err
	}
	if err := installed(interopTools); err != nil {
		return run, "", err
	}
	bin, err := binaries(opt.Bin)
	if err != nil {
		return run, "", err
	}
	if _, err := fingerprint(bin); err != nil {
		return run, "", err
	}
	run.Bin = node.In(bin)
	for _, dir := range []string{dirOf(opt.JSON), dirOf(opt.Report), opt.Logs} {
		if err := writable(dir); err != nil {
			return run, "", err
		}
	}
	return run, about, nil
}

func linkOf(f *suite.Foreign) string {
	if f == nil {
		return ""
	}
	return f.Link
}
