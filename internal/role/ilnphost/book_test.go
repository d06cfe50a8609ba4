package ilnphost

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/control"
	"roam/internal/dnsio"
	"roam/naming"

	"github.com/google/go-cmp/cmp"
)

const (
	nodeA roam.NID = 0x0001_0002_0003_0004 + iota
	nodeB
	nodeC
)

// bookOf returns the book of two texts.
func bookOf(hosts, peers string) book {
	b := book{hosts: naming.File{Name: "hosts", Text: hosts}, peers: naming.File{Name: "peers", Text: peers}}
	b.Hosts = naming.ReadHosts(b.hosts, b.peers)
	return b
}

func named(nid roam.NID, names ...string) naming.Record {
	return naming.Record{NID: nid, Names: names, Locators: []naming.Locator{{L64: 0x2001_0db8_0001_0001, Preference: 10}}}
}

func TestBook(t *testing.T) {
	const peers = "# mine\nnid=1:2:3:4 l64=2001:1:1:1 anywhere=yes a # the first\n\nnid=1:2:3:5 b c\n"
	for _, tc := range []struct {
		name  string
		hosts string
		peers string
		do    func(book) (book, error)
		want  string
	}{
		{
			"the first one", "", "", func(b book) (book, error) { return b.add(named(nodeA, "a"), false) },
			bookHead + "nid=0001:0002:0003:0004 l64=2001:0db8:0001:0001,10 a\n",
		},
		{
			"again, with other locators: its options stay", "", peers, func(b book) (book, error) { return b.add(named(nodeA, "a"), false) },
			"# mine\n\nnid=1:2:3:5 b c\nnid=0001:0002:0003:0004 l64=2001:0db8:0001:0001,10 anywhere=yes a\n",
		},
		{
			"a reinstalled peer", "", peers, func(b book) (book, error) { return b.add(named(nodeC, "a"), true) },
			"# mine\n\nnid=1:2:3:5 b c\nnid=0001:0002:0003:0006 l64=2001:0db8:0001:0001,10 a\n",
		},
		{
			"one name of two", "", peers, func(b book) (book, error) { return b.add(named(nodeC, "b"), true) },
			"# mine\nnid=1:2:3:4 l64=2001:1:1:1 anywhere=yes a # the first\n\nnid=0001:0002:0003:0005 c\nnid=0001:0002:0003:0006 l64=2001:0db8:0001:0001,10 b\n",
		},
		{
			"a line that contradicts another goes with its node", "", "nid=1:2:3:4 a\nnid=1:2:3:6 a\nwhat\n",
			func(b book) (book, error) { return b.add(named(nodeC, "c"), false) },
			"nid=1:2:3:4 a\nwhat\nnid=0001:0002:0003:0006 l64=2001:0db8:0001:0001,10 c\n",
		},
		{
			"removal", "nid=1:2:3:5 l64=2001:9:9:9 x\n", peers, func(b book) (book, error) { return b.remove(nodeB), nil },
			"# mine\nnid=1:2:3:4 l64=2001:1:1:1 anywhere=yes a # the first\n\n",
		},
		{
			"rename", "", peers, func(b book) (book, error) { return b.rename(nodeB, "c", "d", false) },
			"# mine\nnid=1:2:3:4 l64=2001:1:1:1 anywhere=yes a # the first\n\nnid=0001:0002:0003:0005 b d\n",
		},
		{
			"rename to a name that it has", "", peers, func(b book) (book, error) { return b.rename(nodeB, "c", "b", false) },
			"# mine\nnid=1:2:3:4 l64=2001:1:1:1 anywhere=yes a # the first\n\nnid=0001:0002:0003:0005 b\n",
		},
		{
			"rename to the same name", "", peers, func(b book) (book, error) { return b.rename(nodeB, "c", "c", false) }, peers,
		},
		{
			"rename to a name of another", "", peers, func(b book) (book, error) { return b.rename(nodeB, "c", "a", true) },
			"# mine\n\nnid=0001:0002:0003:0005 b a\n",
		},
		{
			"no end of line", "", "order=locator-first\n2001-1-1-1.1+2+3+4 a", func(b book) (book, error) { return b.add(named(nodeC, "c"), false) },
			"order=locator-first\n2001-1-1-1.1+2+3+4 a\nnid=0001:0002:0003:0006 l64=2001:0db8:0001:0001,10 c\n",
		},
	} {
		before := bookOf(tc.hosts, tc.peers)
		next, err := tc.do(before)
		if d := cmp.Diff(tc.want, next.peers.Text); err != nil || d != "" {
			t.Errorf("%s: %v, (-want +got):\n%s", tc.name, err, d)
		}
		if len(next.Faults) > len(before.Faults) || next.hosts != before.hosts {
			t.Errorf("%s: faults %v, hosts file %q", tc.name, next.Faults, next.hosts.Text)
		}
	}
}

// What could not be read at the next start is not written.
func TestBookRefusesWhatItCouldNotRead(t *testing.T) {
	b := bookOf("nid=1:2:3:4 a\n", "nid=1:2:3:5 b\nnid=1:2:3:6 c\n")
	twice := bookOf("", "nid=1:2:3:5 b\nnid=1:2:3:6 b\n") // there is a fault already
	for name, do := range map[string]func() (book, error){
		"a name of another":                   func() (book, error) { return b.add(named(nodeC, "b"), false) },
		"a name of the hosts file":            func() (book, error) { return b.add(named(nodeC, "a"), true) },
		"a rename to one of another":          func() (book, error) { return b.rename(nodeB, "b", "a", true) },
		"a rename that would put another out": func() (book, error) { return b.rename(nodeB, "b", "c", false) },
		"the same fault again":                func() (book, error) { return twice.add(named(nodeC, "b"), false) },
	} {
		got, err := do()
		var e *control.Error
		if !errors.As(err, &e) || e.Code != control.CodeConflict || got.peers.Text != b.peers.Text && got.peers.Text != twice.peers.Text {
			t.Errorf("%s: %v, and the text is %q", name, err, got.peers.Text)
		}
	}
}

func TestFind(t *testing.T) {
	b := bookOf("nid=1:2:3:4 a\n", "nid=1:2:3:5 b\nnid=1:2:3:6 a\n")
	for word, want := range map[string]roam.NID{"A.": nodeA, "b": nodeB, "1:2:3:5": nodeB, "0001-0002-0003-0006": nodeC} {
		if got, ok := b.find(word); !ok || got != want {
			t.Errorf("%s: %v, %t", word, got, ok)
		}
	}
	for _, word := range []string{"", "nobody", "1:2:3:7", "a b"} {
		if got, ok := b.find(word); ok {
			t.Errorf("%q: %v", word, got)
		}
	}
}

// TestJudge asks which names may be given to node C unasked.
func TestJudge(t *testing.T) {
	b := bookOf("nid=1:2:3:4 a\nnid=1:2:3:6 old.example\n", "nid=1:2:3:5 b\n")
	j := judgement{nid: nodeC, host: "Laptop.home", means: map[string]string{"nas": "192.0.2.1 (the DNS)"}}
	with := func(change func(*judgement)) judgement {
		k := j
		change(&k)
		return k
	}
	forced := with(func(j *judgement) { j.force = true })
	replacing := with(func(j *judgement) { j.replace = true })
	typed := with(func(j *judgement) { j.explicit = true })
	const other, replace, force, edit = "roam add --as NAME", "roam add --replace", "roam add --force", "out of that file"
	for _, tc := range []struct {
		j    judgement
		name string
		why  string // "": nothing
		ways []string
	}{
		{j, "c", "", nil},
		{j, "old.example", "", nil}, // it has that name already
		{j, "b", "b means node 0001:0002:0003:0005 (peers:1)", []string{other, replace}},
		{replacing, "b", "", nil},
		{forced, "b", "means node", []string{other, replace}},
		{j, "a", "in hosts:1, which Roam does not edit", []string{other, edit}},
		{replacing, "a", "which Roam does not edit", []string{other, edit}},
		{forced, "a", "which Roam does not edit", []string{other, edit}},
		{j, "localhost", "a meaning of its own", []string{other, force}},
		{typed, "localhost", "a meaning of its own", []string{other, force}},
		{j, "x.localhost", "a meaning of its own", nil},
		{j, "ip6-localhost", "a meaning of its own", nil},
		{j, "localdomain", "a meaning of its own", nil},
		{j, "broadcasthost", "a meaning of its own", nil},
		{replacing, "localhost", "a meaning of its own", []string{other, force}},
		{forced, "localhost", "", nil},
		{j, "laptop", "the name of this host", []string{other, force}},
		{j, "laptop.home", "the name of this host", nil},
		{j, "www.example", "has a dot", []string{other, force}},
		{typed, "www.example", "", nil},
		{j, "nas", "nas is 192.0.2.1 (the DNS) today", []string{other, force}},
		{typed, "nas", "today", []string{other, force}},
		{forced, "nas", "", nil},
	} {
		err := tc.j.judge(b, []string{"fine", tc.name}).refusal("add", addWays)
		if tc.why == "" {
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		var e *control.Error
		if !errors.As(err, &e) || e.Code != control.CodeChoice || !strings.Contains(e.Message, tc.why) || !strings.Contains(e.Message, "nothing was changed") {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.why)
			continue
		}
		for _, way := range tc.ways {
			if !strings.Contains(e.Hint, way) {
				t.Errorf("%s: hint %q lacks %q", tc.name, e.Hint, way)
			}
		}
	}
}

// Every name of a line is told of at once, and so is every way out.
func TestJudgeNamesAll(t *testing.T) {
	b := bookOf("", "nid=1:2:3:5 b\n")
	err := judgement{nid: nodeC}.judge(b, []string{"b", "localhost", "x.example"}).refusal("add", addWays)
	for _, want := range []string{"b means", "localhost has", "x.example has a dot"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	if hint := control.Hint(err); !strings.Contains(hint, "--as") || !strings.Contains(hint, "--replace") || !strings.Contains(hint, "--force") {
		t.Errorf("hint %q", hint)
	}
}

func TestHostsAddrs(t *testing.T) {
	const text = "127.0.0.1 localhost\n192.0.2.7\tNAS.home nas # 192.0.2.9 nas\n2001:db8::7 nas\nbad nas\n"
	if got := hostsAddrs(text, "nas"); len(got) != 2 || got[0].String() != "192.0.2.7" || got[1].String() != "2001:db8::7" {
		t.Errorf("nas: %v", got)
	}
	if got := hostsAddrs(text, "nas.home"); len(got) != 1 {
		t.Errorf("nas.home: %v", got)
	}
	if got := hostsAddrs(text, "home"); got != nil {
		t.Errorf("home: %v", got)
	}
}

// TestElsewhere asks a server what names mean: another node is an objection, the same one
// and no answer are none.
func TestElsewhere(t *testing.T) {
	server, err := dnsio.Start(dnsio.Config{Listen: netip.MustParseAddrPort("127.0.0.1:0"), Prefix: roam.DefaultSessionPrefix})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	table, _ := naming.NewTable([]naming.Record{named(nodeA, "a"), named(nodeC, "c")})
	server.SetTable(table)
	ask := func(at netip.AddrPort) map[string]string {
		return elsewhere(t.Context(), named(nodeC, "a", "c", "nobody"), []string{"a", "c", "nobody"}, []netip.AddrPort{at}, t.TempDir()+"/none")
	}
	if means := ask(server.Addr()); len(means) != 1 || means["a"] != "fd69:6c6e:7000:2627:1:2:3:4 (the DNS)" {
		t.Errorf("means %v", means)
	}
	mute, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	began := time.Now()
	if means := ask(mute.LocalAddr().(*net.UDPAddr).AddrPort()); len(means) != 0 || time.Since(began) > 3*resolveTime {
		t.Errorf("of a server that says nothing: %v after %v", means, time.Since(began))
	}
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte("192.0.2.7 c\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if means := elsewhere(t.Context(), named(nodeC, "c"), []string{"c"}, nil, file); means["c"] != "192.0.2.7 ("+file+")" {
		t.Errorf("of a file: %v", means)
	}
}
