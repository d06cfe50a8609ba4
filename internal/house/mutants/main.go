// Command mutants plants faults in the code that judges measurements, one at a time, and
// lists those that no test notices.
//
// It implements four faults: a condition inverted, a sum skipped, the last of several values
// instead of the greatest or least, a bound ten times as large. Of the code that judges keys it
// replaces each condition by true and by false (-keys), in C too (-bpf). All faults of a package in Go are
// compiled into one test binary, in which an environment variable chooses one. It omits
// equivalence: survivors that cannot matter are listed in alive.txt with their reasons, and any
// other one makes it fail. It is driven by make test-mutants.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// target is a package of which some files are mutated.
type target struct {
	dir   string
	files []string
	live  []string // functions that need a network, which no test without one executes
	in    []string // functions in which faults are planted; none: all but those
	check bool     // its conditions are replaced by true and by false, and nothing else is planted
}

// targets are the metrics, the judges and the records of scenes.
var targets = []target{
	{dir: "lab/result", files: []string{"claim.go", "loss.go", "merge.go", "stall.go", "stats.go", "verdict.go"}},
	{dir: "lab/stats", files: []string{"stats.go"}},
	{dir: "lab/stallmonitor", files: []string{"owner.go", "proc.go"}, live: []string{"run", "settled", "blame"}},
	{dir: "lab/packets", files: []string{"flow.go", "icmp.go", "update.go", "moves.go"}},
	{dir: "lab/workload/udpflow", files: []string{"drops.go", "log.go"}},
	{dir: "lab/workload/tcpflow", files: []string{"log.go", "tcpflow.go"},
		live: []string{"Main", "setCongestion", "connect"}},
	{dir: "lab/workload/fetch", files: []string{"fetch.go"}, live: []string{"Main", "listener", "serve"}},
	{dir: "lab/workload/rtpflow", files: []string{"flow.go"}},
	{dir: "lab/workload", files: []string{"iperf.go"}, live: []string{"StartIperf", "Wait", "Record", "State"}},
	{dir: "lab/scene",
		files: []string{"data.go", "losses.go", "trace.go", "begin.go", "steps.go", "sample.go", "ra.go"},
		live: []string{"Run", "show", "CountData", "WatchLosses", "WatchOverflows", "WatchDropped", "watchBegins",
			"attach", "detach", "swap", "startSampler", "run", "ask", "take", "links", "CountAcks", "Acknowledged", "watchRA"}},
	{dir: "lab/exp/quickstart", files: []string{"arm.go", "metrics.go", "summary.go", "trace.go", "traffic.go"},
		live: []string{"ready", "measure", "pass", "routes", "endRoam", "compare", "startTraffic", "startApplications",
			"startProbes", "finish", "abandon"}},
	{dir: "lab/exp/beyond", files: []string{"judge.go", "goodput.go", "probe.go"},
		live: []string{"goodput", "transfer", "probe", "startLoad", "kill", "board", "finish"}},
	{dir: "lab/exp/bothmove", files: []string{"judge.go"}},
	{dir: "lab/exp/falsealarm", files: []string{"judge.go"}},
	{dir: "lab/exp/flood", files: []string{"judge.go"}},
	{dir: "lab/exp/instants", files: []string{"judge.go"}},
	{dir: "lab/exp/hostile", files: []string{"attack.go", "judge.go", "records.go", "whole.go", "wire.go"},
		live: []string{"gather", "await", "lookWhole", "countDatagrams", "capture", "readWire",
			"build", "attackOnce", "flow", "during", "settled", "count"}},
	{dir: "lab/exp/paths", files: []string{"change.go", "death.go", "exp.go", "fetch.go", "judge.go"},
		live: []string{"declare", "run", "runChanges", "measure", "runDeath", "die", "runFetches", "fetch", "fetchBy",
			"build", "load", "transfer", "sockets"}},
	{dir: "lab/exp/shares", files: []string{"judge.go"}},
	{dir: "lab/exp/silent", files: []string{"judge.go"}},
	{dir: "lab/exp/simpson",
		files: []string{"host.go", "hostjudge.go", "hosttraffic.go", "judge.go", "sweep.go", "traffic.go", "updates.go"},
		live: []string{"sweep", "updates", "announce", "readSoFar", "declareHost", "newPair", "start", "count", "counted",
			"settle", "narrow", "runHost", "measureHost", "exchangeAll", "exchange", "divide", "greet", "cross", "settled"}},
	{dir: "lab/exp/video", files: []string{"metrics.go", "pass.go", "studio.go"},
		live: []string{"measure", "cell", "stills", "stream", "capture", "resolve", "start", "take", "judge", "workspace"}},
	{dir: "lab/video", files: []string{"quality.go"}, live: []string{"Compare", "compare", "frames"}},
	{dir: "lab/exp/yanagida", files: []string{"judge.go", "outcome.go", "mobility.go", "duality.go", "beside.go"},
		live: []string{"mobility", "measureAll", "duality", "beside", "measureBeside", "traffic"}},
	{dir: "lab/exp/phoomikiattisak", files: []string{"metrics.go", "outcome.go", "flow.go", "beyond.go", "udp.go"},
		live: []string{"beyond", "load", "loadCell", "waitBoth", "priorityCell", "preferCell", "sumsCell", "udp", "udpCell"}},
}

// keyTargets are the conditions by which this host takes or refuses what bears a key, a proof or a MAC.
var keyTargets = []target{
	{dir: "wire/ilnp", check: true, files: []string{"keyed.go", "proof.go", "siphash.go", "updatemac.go", "vouch.go"}},
	{dir: "nidkey", check: true, files: []string{"ephemeral.go", "file.go", "nidkey.go", "vouch.go"}},
	{dir: "naming", check: true, files: []string{"pairing.go"}},
	{dir: "internal/keyfile", check: true, files: []string{"keyfile.go", "rotate.go"}},
	{dir: "internal/role/ilnphost", check: true,
		files: []string{"book.go", "identity.go", "people.go", "takeover.go"},
		in: []string{"takenOver", "vouched", "succession", "succeeded", "oldKey", "succeed", "sameKey", "AddPeer",
			"nidsOf", "forgetFormer", "identity", "firstIdentity"}},
	{dir: "ilnp", check: true, files: []string{"former.go", "guard.go", "handshake.go", "keycopy.go", "keyed.go",
		"prove.go", "proveanswer.go", "vouch.go"}},
}

func main() {
	keys := flag.Bool("keys", false, "replace the conditions of keys by true and by false instead")
	programs := flag.Bool("bpf", false, "the same in C, by the tests of the programs (needs root and clang-14)")
	only := flag.String("only", "", "mutate only files whose path contains this")
	known := flag.String("alive", "internal/house/mutants/alive.txt", "file of survivors with their reasons")
	most := flag.Float64("most", 2, "per cent of the faults that may survive")
	flag.Parse()
	reasons, err := readReasons(*known)
	if err != nil {
		fail(err)
	}
	list := targets
	if *keys || *programs {
		list, *most = keyTargets, 100 // each has its reason, and so no number bounds them
	}
	var planted []*mutant
	if *programs {
		list = nil
		if planted, err = runC(*only); err != nil {
			fail(err)
		}
	}
	for _, t := range list {
		t.files = slices.DeleteFunc(t.files, func(f string) bool { return !strings.Contains(t.dir+"/"+f, *only) })
		if len(t.files) == 0 {
			continue
		}
		list, err := t.run()
		if err != nil {
			fail(err)
		}
		planted = append(planted, list...)
	}
	if err := judge(os.Stdout, planted, reasons, *most); err != nil {
		fail(err)
	}
}

// judge lists the survivors with their reasons. It returns an error that names the survivors without one,
// and the reasons of faults that were not planted: code that has changed since would be excused by them.
func judge(w io.Writer, planted []*mutant, reasons map[string]string, most float64) error {
	var faults []string
	alive, files, keys := 0, map[string]bool{}, map[string]bool{}
	for _, m := range planted {
		files[m.file], keys[m.key()] = true, true
		if m.killed {
			continue
		}
		alive++
		if why := reasons[m.key()]; why != "" {
			fmt.Fprintf(w, "alive: %s: %s\n", m, why)
		} else {
			faults = append(faults, fmt.Sprintf("no test notices, and no reason is known: %s", m))
		}
	}
	for key := range reasons {
		if file, _, _ := strings.Cut(key, ": "); files[file] && !keys[key] {
			faults = append(faults, fmt.Sprintf("a reason is for no fault that was planted: %s", key))
		}
	}
	slices.Sort(faults)
	share := 100 * float64(alive) / float64(max(len(planted), 1))
	fmt.Fprintf(w, "%d faults planted, %d alive (%.1f %%)\n", len(planted), alive, share)
	if len(planted) == 0 || share > most {
		faults = append(faults, fmt.Sprintf("%d of %d faults are alive, want some planted and at most %v %%",
			alive, len(planted), most))
	}
	if len(faults) > 0 {
		return errors.New(strings.Join(faults, "\n"))
	}
	return nil
}

// readReasons reads lines of the form "file: function: fault -- reason".
func readReasons(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read survivors: %w", err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, why, ok := strings.Cut(line, " -- ")
		if !ok {
			return nil, fmt.Errorf("read survivors: no reason in %q", line)
		}
		out[key] = why
	}
	return out, nil
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "mutants:", err)
	os.Exit(1)
}

// privileged lists the tests of a package that need root, which are left out.
func privileged(dir string) []string {
	list, _ := filepath.Glob(filepath.Join(dir, "*_priv_test.go")) // the pattern is sound
	slices.Sort(list)
	return list
}
