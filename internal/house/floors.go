package house

import (
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"
)

// cores are the protocol machines; they never import each other.
var cores = []string{"ilnp", "sbr", "mip6", "nemo", "shim6", "tcpassist", "observer"}

// shared are parts of cores that know no protocol.
var shared = []string{"sched", "multipath", "flowrule", "nidkey"}

// coreless are packages that serve any core, and so import none.
var coreless = []string{
	"internal/config", "internal/control", "internal/daemon", "internal/dataplane", "internal/doctor", "internal/hostnet",
	"internal/loop", "internal/metrics", "internal/role", "sim",
}

// The floors, from the top of the house down: a package imports only floors
// with a lower number.
const (
	floorVocabulary = iota // roam.go
	floorShared            // what every core needs, and no protocol
	floorCodecs            // wire, naming
	floorCores             // the protocol machines
	floorSim               // drives any core
	floorKernel            // what a host's programs and the lab both need of the kernel
	floorEffects           // internal, lab
	floorCommands          // cmd
	floorUnknown
)

func floor(dir string) int {
	switch {
	case dir == ".":
		return floorVocabulary
	case under(dir, shared...):
		return floorShared
	case under(dir, "wire", "naming"):
		return floorCodecs
	case under(dir, cores...):
		return floorCores
	case under(dir, "sim"):
		return floorSim
	case under(dir, "structops"):
		return floorKernel
	case under(dir, "internal", "lab"):
		return floorEffects
	case under(dir, "cmd"):
		return floorCommands
	}
	return floorUnknown
}

// labCommand alone of all commands stands on the lab.
const labCommand = "cmd/roam-lab"

// room is the first element of a directory: packages of one room may import
// each other.
func room(dir string) string {
	first, _, _ := strings.Cut(dir, "/")
	return first
}

// Floors finds imports that do not go down, cores that import each other, a
// lab that reaches into internal, and packages that stand on no floor.
func Floors(t *Tree) []Finding {
	var all []Finding
	for _, f := range t.Go {
		if floor(f.Dir) == floorUnknown {
			all = append(all, Finding{Path: f.Path, Text: "stands on no floor of the house"})
			continue
		}
		for _, spec := range f.AST.Imports {
			p := importPath(spec)
			if p != Module && !strings.HasPrefix(p, Module+"/") {
				continue
			}
			to := strings.TrimPrefix(strings.TrimPrefix(p, Module), "/")
			if to == "" {
				to = "."
			}
			if !mayImport(f, to) {
				all = append(all, t.find(f, spec.Pos(), "%s must not import %s", f.Dir, to))
			}
		}
	}
	return sortFindings(all)
}

func mayImport(f *GoFile, to string) bool {
	from := f.Dir
	switch {
	case f.Test && f.Dir == to: // an external test of the package
		return true
	case !f.Test && slices.Contains(coreless, from) && under(to, cores...):
		return false
	case from == "sim" && under(to, "wire/ilnp", "wire/xlate"):
		return false // what speaks a core's protocol is a kind of node
	case f.Test && floor(to) <= floorSim && floor(from) >= floorCodecs:
		return true // a core's timelines run in sim, a codec's goldens in any test
	case to == "internal/testutil": // for tests, and for packages that help tests
		return f.Test || under(from, to) || under(from, "internal", "lab") && strings.HasSuffix(from, "test")
	case room(from) == room(to):
		return true // wire/ilnp stands on wire/ip6, one effect on another
	case under(to, "lab"):
		return from == labCommand // a host's programs have nothing of the lab
	}
	return floor(to) < floor(from)
}

// doors names the only packages that may import a module; the word "tests"
// stands for every test file.
var doors = map[string][]string{
	"github.com/cilium/ebpf":          {"internal/dataplane", "structops", "lab/cc", "lab/workload/frames"},
	"github.com/vishvananda/netlink":  {"internal/hostnet", "lab/topo"},
	"github.com/vishvananda/netns":    {"internal/hostnet", "lab/topo"},
	"github.com/miekg/dns":            {"internal/dnsio"},
	"github.com/gopacket/gopacket":    {"lab", "tests"},
	"github.com/google/go-cmp":        {"tests"},
	"golang.org/x/sys":                {"internal", "lab", "cmd"},
	"github.com/spf13/cobra":          {"internal/cli", "cmd/roam", labCommand},
	"github.com/pelletier/go-toml/v2": {"internal/config"},
}

// Doors finds imports of third-party modules outside the package that is the
// module's door, and modules that nobody decided to depend on.
func Doors(t *Tree) []Finding {
	var all []Finding
	for _, f := range t.Go {
		for _, spec := range f.AST.Imports {
			p := importPath(spec)
			module, ok := thirdParty(p)
			if !ok {
				continue
			}
			open, known := doors[module]
			switch {
			case !known:
				all = append(all, t.find(f, spec.Pos(), "imports %s, which is none of the chosen modules", p))
			case !opens(open, f):
				all = append(all, t.find(f, spec.Pos(), "imports %s; its door is %s", p, strings.Join(open, ", ")))
			}
		}
	}
	return sortFindings(all)
}

func opens(open []string, f *GoFile) bool {
	for _, door := range open {
		if door == "tests" && f.Test || under(f.Dir, door) {
			return true
		}
	}
	return false
}

// thirdParty returns the module of an import path that is neither ours nor the
// standard library's: the chosen module that it lies in, else the path itself.
func thirdParty(p string) (string, bool) {
	first, _, _ := strings.Cut(p, "/")
	if !strings.Contains(first, ".") {
		return "", false
	}
	for module := range doors {
		if under(p, module) {
			return module, true
		}
	}
	return p, true
}

// MaxModules bounds the direct third-party modules.
const MaxModules = 10

var requireLine = regexp.MustCompile(`(?m)^(?:require)?\s+([^\s()]+\.[^\s()]+) v\S+(\s*// indirect)?`)

// DirectModules returns the third-party modules that the code imports, and
// those that go.mod requires without calling them indirect.
func (t *Tree) DirectModules() []string {
	set := map[string]bool{}
	for _, f := range t.Go {
		for _, spec := range f.AST.Imports {
			if module, ok := thirdParty(importPath(spec)); ok {
				set[module] = true
			}
		}
	}
	for _, m := range requireLine.FindAllStringSubmatch(string(t.Other["go.mod"]), -1) {
		if m[2] == "" {
			set[m[1]] = true
		}
	}
	var modules []string
	for module := range set {
		modules = append(modules, module)
	}
	sort.Strings(modules)
	return modules
}

// Modules finds a dependency too many, and those that go.mod calls indirect
// although the code imports them.
func Modules(t *Tree) []Finding {
	var all []Finding
	indirect := map[string]bool{}
	for _, m := range requireLine.FindAllStringSubmatch(string(t.Other["go.mod"]), -1) {
		indirect[m[1]] = m[2] != ""
	}
	for _, module := range t.DirectModules() {
		if indirect[module] {
			all = append(all, Finding{Path: "go.mod", Text: "calls " + module + " indirect, which the code imports"})
		}
	}
	if modules := t.DirectModules(); len(modules) > MaxModules {
		all = append(all, Finding{Path: "go.mod", Text: fmt.Sprintf("%d direct modules, at most %d: %s",
			len(modules), MaxModules, strings.Join(modules, " "))})
	}
	return all
}
