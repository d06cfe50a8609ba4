package house

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// TestRepository holds the whole repository to every rule.
func TestRepository(t *testing.T) {
	tree, err := Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			for _, finding := range rule.Check(tree) {
				t.Error(finding)
			}
		})
	}
}

// breach is a small tree that breaks one rule, and the finding that must tell.
type breach struct {
	rule  string
	files map[string]string
	want  string // part of the only finding; "" when there must be none
}

func (b breach) check(t *testing.T) {
	t.Helper()
	files := fstest.MapFS{}
	for p, src := range b.files {
		files[p] = &fstest.MapFile{Data: []byte(src)}
	}
	tree, err := Load(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range Rules() {
		if rule.Name != b.rule {
			continue
		}
		found := rule.Check(tree)
		switch {
		case b.want == "" && len(found) > 0:
			t.Errorf("found %v, want nothing", found)
		case b.want != "" && (len(found) != 1 || !strings.Contains(found[0].String(), b.want)):
			t.Errorf("found %v, want one that says %q", found, b.want)
		}
		return
	}
	t.Errorf("no rule is named %q", b.rule)
}

// in makes a tree of one file.
func in(p, src string) map[string]string { return map[string]string{p: src} }

// body makes a Go file of a package with one import and one statement.
func body(imports, statement string) string {
	return "// Package p is small.\npackage p\n\nimport " + imports + "\n\nfunc f() { " + statement + " }\n"
}

func TestEffects(t *testing.T) {
	for name, b := range map[string]breach{
		"the network":        {files: in("wire/ip6/a.go", body(`"net"`, "_ = net.Dial")), want: "wire/ip6/a.go:4: imports net"},
		"the system":         {files: in("sim/a.go", body(`"os"`, "_ = os.Args")), want: "imports os"},
		"entropy":            {files: in("ilnp/a.go", body(`"crypto/rand"`, "_ = rand.Reader")), want: "imports crypto/rand"},
		"the clock":          {files: in("ilnp/a.go", body(`"time"`, "_ = time.Now()")), want: "a.go:6: time.Now in a pure"},
		"a renamed clock":    {files: in("ilnp/a.go", body(`t "time"`, "t.Sleep(1)")), want: "time.Sleep"},
		"a time's value":     {files: in("ilnp/a.go", body(`"time"`, "_ = time.Second")), want: ""},
		"a clock handed in":  {files: in("ilnp/a.go", body(`"time"`, "var time struct{ Now func() }; time.Now()")), want: ""},
		"global randomness":  {files: in("sim/a.go", body(`"math/rand/v2"`, "_ = rand.IntN(3)")), want: "global source"},
		"seeded randomness":  {files: in("sim/a.go", body(`"math/rand/v2"`, "_ = rand.New(rand.NewPCG(1, 2))")), want: ""},
		"a goroutine":        {files: in("roam.go", "package roam\n\nfunc f() { go f() }\n"), want: "roam.go:3: a goroutine"},
		"a channel":          {files: in("naming/a.go", "package naming\n\nvar c chan int\n"), want: "a channel"},
		"printing":           {files: in("naming/a.go", body(`"fmt"`, "fmt.Println()")), want: "fmt.Println"},
		"printing to a Go's": {files: in("naming/a.go", "package naming\n\nfunc f() { println() }\n"), want: "printing"},
		"in any machine":     {files: in("tcpassist/a.go", body(`"time"`, "_ = time.Now()")), want: "time.Now in a pure"},
		"in a test":          {files: in("ilnp/a_test.go", body(`"os"`, "go f()")), want: ""},
		"beside the loop":    {files: in("internal/role/ilnphost/engine/a.go", body(`"time"`, "_ = time.Now()")), want: "time.Now; the"},
		"the loop's own":     {files: in("internal/loop/a.go", body(`"time"`, "_ = time.Now()")), want: ""},
		"below the effects":  {files: in("internal/role/ilnphost/engine/a.go", body(`"os"`, "go f()")), want: ""},
	} {
		b.rule = "effects"
		t.Run(name, b.check)
	}
}

func TestFloors(t *testing.T) {
	imports := func(p string) string { return body(`_ "`+p+`"`, "") }
	for name, b := range map[string]breach{
		"down":                  {files: in("ilnp/a.go", imports("roam/wire/ip6")), want: ""},
		"codec to codec":        {files: in("wire/ilnp/a.go", imports("roam/wire/ip6")), want: ""},
		"codec to core":         {files: in("wire/ip6/a.go", imports("roam/ilnp")), want: "wire/ip6 must not import ilnp"},
		"machine to core":       {files: in("tcpassist/a.go", imports("roam/ilnp")), want: "tcpassist must not import ilnp"},
		"core to machine":       {files: in("ilnp/a.go", imports("roam/tcpassist")), want: "ilnp must not import tcpassist"},
		"core to shared part":   {files: in("ilnp/a.go", imports("roam/sched")), want: ""},
		"shared part to core":   {files: in("multipath/a.go", imports("roam/ilnp")), want: "multipath must not import ilnp"},
		"shared part to codec":  {files: in("sched/a.go", imports("roam/wire/ip6")), want: "sched must not import wire/ip6"},
		"core to core":          {files: in("mip6/a.go", imports("roam/ilnp")), want: "mip6 must not import ilnp"},
		"core to effect":        {files: in("ilnp/a.go", imports("roam/internal/role/ilnphost/engine")), want: "must not import internal/role/ilnphost/engine"},
		"simulator to core":     {files: in("sim/a.go", imports("roam/ilnp")), want: "sim must not import ilnp"},
		"simulator to protocol": {files: in("sim/a.go", imports("roam/wire/ilnp")), want: "sim must not import wire/ilnp"},
		"kind of node to core":  {files: in("sim/ilnphost/a.go", imports("roam/ilnp")), want: ""},
		"core to simulator":     {files: in("ilnp/a.go", imports("roam/sim")), want: "ilnp must not import sim"},
		"core's test in sim":    {files: in("ilnp/a_test.go", imports("roam/sim")), want: ""},
		"lab into internal":     {files: in("lab/topo/a.go", imports("roam/internal/hostnet")), want: "must not import internal/hostnet"},
		"kit to core":           {files: in("internal/dataplane/a.go", imports("roam/ilnp")), want: "internal/dataplane must not import ilnp"},
		"kit's tables to core":  {files: in("internal/dataplane/ilnphost/a.go", imports("roam/ilnp")), want: ""},
		"lab's test":            {files: in("lab/topo/a_test.go", imports("roam/internal/testutil")), want: ""},
		"lab with test helpers": {files: in("lab/topo/a.go", imports("roam/internal/testutil")), want: "must not import internal/testutil"},
		"helping tests":         {files: in("internal/hostnet/nettest/a.go", imports("roam/internal/testutil")), want: ""},
		"helping lab's tests":   {files: in("lab/exp/exptest/a.go", imports("roam/internal/testutil")), want: ""},
		"helping no tests":      {files: in("internal/hostnet/a.go", imports("roam/internal/testutil")), want: "must not import internal/testutil"},
		"internal into lab":     {files: in("internal/role/ilnphost/engine/a.go", imports("roam/lab/topo")), want: "must not import lab/topo"},
		"command to effect":     {files: in("cmd/roam/a.go", imports("roam/internal/config")), want: ""},
		"lab's command to all":  {files: in("cmd/roam-lab/a.go", imports("roam/lab/runner")), want: ""},
		"command to lab":        {files: in("cmd/roam/a.go", imports("roam/lab/runner")), want: "cmd/roam must not import lab/runner"},
		"effect to command":     {files: in("internal/role/ilnphost/engine/a.go", imports("roam/cmd/roam")), want: "must not import cmd/roam"},
		"vocabulary to codec":   {files: in("roam.go", imports("roam/wire/ip6")), want: "must not import wire/ip6"},
		"no floor":              {files: in("pkg/a.go", "package pkg\n"), want: "stands on no floor"},
	} {
		b.rule = "floors"
		t.Run(name, b.check)
	}
}

func TestDoors(t *testing.T) {
	imports := func(p string) string { return body(`_ "`+p+`"`, "") }
	for name, b := range map[string]breach{
		"through the door":  {files: in("internal/dataplane/a.go", imports("github.com/cilium/ebpf/link")), want: ""},
		"beside the door":   {files: in("internal/role/ilnphost/engine/a.go", imports("github.com/cilium/ebpf")), want: "its door is internal/dataplane"},
		"netlink in a test": {files: in("internal/rawio/a_test.go", imports("github.com/vishvananda/netlink")), want: "its door is internal/hostnet"},
		"tests only":        {files: in("ilnp/a.go", imports("github.com/google/go-cmp/cmp")), want: "its door is tests"},
		"in a test":         {files: in("ilnp/a_test.go", imports("github.com/google/go-cmp/cmp")), want: ""},
		"nobody's choice":   {files: in("internal/role/ilnphost/engine/a.go", imports("example.org/left/pad")), want: "none of the chosen"},
		"standard library":  {files: in("internal/role/ilnphost/engine/a.go", imports("net/http")), want: ""},
	} {
		b.rule = "doors"
		t.Run(name, b.check)
	}
}

func TestModules(t *testing.T) {
	var mod strings.Builder
	mod.WriteString("module roam\n\nrequire (\n")
	for c := 'a'; c <= 'k'; c++ {
		mod.WriteString("\texample.org/" + string(c) + " v1.0.0\n")
	}
	breach{rule: "modules", files: in("go.mod", mod.String()+")\n"), want: "11 direct modules"}.check(t)
	ten := strings.Replace(mod.String(), "k v1.0.0", "k v1.0.0 // indirect", 1) + ")\n"
	breach{rule: "modules", files: in("go.mod", ten)}.check(t)
	breach{rule: "modules", want: "calls github.com/miekg/dns indirect", files: map[string]string{
		"go.mod":              "module roam\n\nrequire github.com/miekg/dns v1.1.0 // indirect\n",
		"internal/dnsio/a.go": body(`_ "github.com/miekg/dns"`, ""),
	}}.check(t)
}
