package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cTarget is a file of C of which some functions are mutated.
type cTarget struct {
	file       string
	functions  []string // none: all
	statements bool     // each is taken out as well
}

// cTargets are the MAC of updates, and which session vouches for the place of a packet that is not its own.
var cTargets = []cTarget{
	{file: "bpf/ilnp/updatemac.h", statements: true},
	{file: "bpf/ilnp/pending.h", functions: []string{"is_in_place"}},
}

// The programs that the mutated files are part of, and the package whose tests run them.
const (
	cSource = "bpf/ilnp/ilnp_host.bpf.c"
	cDir    = "internal/dataplane/ilnphost"
	cLoader = cDir + "/bpf_bpfel.go"
	cFlags  = "-target bpfel -O2 -mcpu=v3 -g -w -I/usr/include/x86_64-linux-gnu -c"
	cObject = "ROAM_MUTANT_OBJECT" // the file of the compiled programs, in place of the embedded one
	cLimit  = 10 * time.Minute
)

// cLoads is how the generated loader reads the programs, and what it is replaced by.
var cLoads = [][2]string{
	{"import (\n", "import (\n\t\"os\"\n\t\"strconv\"\n"},
	{"	reader := bytes.NewReader(_BpfBytes)\n", "	object, err := os.ReadFile(os.Getenv(\"" + cObject + "\"))\n" +
		"	if err != nil {\n		return nil, err\n	}\n	reader := bytes.NewReader(object)\n"},
	{"	return spec, err\n", "	id, _ := strconv.Atoi(os.Getenv(\"" + variable + "\"))\n" +
		"	return spec, spec.Variables[\"mutant\"].Set(uint32(id))\n"},
}

// cTests are the rounds of tests, the quickest first, as a pattern of -run and one of -skip.
var cTests = [][2]string{
	{"^Test(Update|GoldenKeyed)", "^$"},
	{"^Test(Decisions|Golden|Pending|Unconfirmed|TwoAliases|Inbound)", "^TestGoldenKeyed"},
	{"^Test", "^Test(Update|GoldenKeyed|Decisions|Golden|Pending|Unconfirmed|TwoAliases|Inbound)"},
}

// runC plants the faults of the files of C whose paths contain only, and reports which the tests of the programs
// notice. The kernel's verifier is the first of them.
func runC(only string) (planted []*mutant, err error) {
	work, err := os.MkdirTemp("", "roam-mutants")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(work)
	if planted, err = cPlant(work, only); err != nil {
		return nil, err
	}
	object := filepath.Join(work, "object.o")
	if err := cCompile(work, object); err != nil {
		return nil, err
	}
	bin, err := cBinary(work)
	if err != nil {
		return nil, err
	}
	for _, round := range cTests {
		if out, err := cRun(bin, object, round, 0); err != nil {
			return nil, fmt.Errorf("without a fault: %w: %s", err, out)
		}
	}
	for _, m := range planted {
		for _, round := range cTests {
			if _, err := cRun(bin, object, round, m.id); err != nil {
				m.killed = true
				break
			}
		}
		if !m.killed {
			fmt.Fprintf(os.Stderr, "alive, %d of %d: %s\n", m.id, len(planted), m)
		}
	}
	return planted, nil
}

// cPlant writes the programs with all faults.
func cPlant(work, only string) (planted []*mutant, err error) {
	if err := os.CopyFS(filepath.Join(work, "bpf"), os.DirFS("bpf")); err != nil {
		return nil, fmt.Errorf("copy the programs: %w", err)
	}
	for _, t := range cTargets {
		if !strings.Contains(t.file, only) {
			continue
		}
		src, err := os.ReadFile(t.file)
		if err != nil {
			return nil, fmt.Errorf("read: %w", err)
		}
		list := cFaults(t.file, string(src), t.functions, t.statements, len(planted)+1)
		for _, name := range t.functions {
			if !slices.ContainsFunc(list, func(f cFault) bool { return f.in == name }) {
				return nil, fmt.Errorf("%s: no condition in %s", t.file, name)
			}
		}
		if err := os.WriteFile(filepath.Join(work, t.file), []byte(cText(string(src), list)), 0o600); err != nil {
			return nil, fmt.Errorf("write: %w", err)
		}
		for _, f := range list {
			planted = append(planted, &f.mutant)
		}
	}
	return planted, os.WriteFile(filepath.Join(work, "mutant.h"), []byte(cChoice), 0o600)
}

// cBinary builds the tests of the programs, which load what an environment variable names.
func cBinary(work string) (string, error) {
	loader, err := os.ReadFile(cLoader)
	if err != nil {
		return "", fmt.Errorf("read: %w", err)
	}
	text := string(loader)
	for _, c := range cLoads {
		if !strings.Contains(text, c[0]) {
			return "", fmt.Errorf("%s has no %q", cLoader, c[0])
		}
		text = strings.Replace(text, c[0], c[1], 1)
	}
	o := overlay{work, map[string]string{}}
	if err := o.put(cLoader, []byte(text)); err != nil {
		return "", err
	}
	return o.compile(cDir)
}

func cCompile(work, object string) error {
	args := append(strings.Fields(cFlags), "-include", filepath.Join(work, "mutant.h"), filepath.Join(work, cSource),
		"-o", object)
	if out, err := exec.Command("clang-14", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("compile: %w: %s", err, out)
	}
	return nil
}

func cRun(bin, object string, round [2]string, id int) ([]byte, error) {
	return test(cDir, bin, cLimit, []string{"-test.run=" + round[0], "-test.skip=" + round[1]},
		cObject+"="+object, variable+"="+strconv.Itoa(id))
}
