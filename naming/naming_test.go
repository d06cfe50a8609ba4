package naming

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"roam"
)

func TestParseHosts(t *testing.T) {
	const text = `# correspondents
d250-99ff-fed1-5a0c.2001+2+dd+dd   m5-ilnp m5   # the papers' form
D250-99ff-fed1-5a0c.2001+2+ee+ee   M5-ILNP.

nid=0011:22ff:0:1 l64=2001:db8:1:1,20 l64=2001:db8:2:1 checksum=rfc6741 update=draft nonce=always lu-order=old server.example server
nid=0011-22ff-0-2 l64=2001:db8:3:1::/64 anywhere=no third
nid=0011:22ff:0:3 anywhere=yes roaming
order=locator-first
2001-2-0-aa.0+0+0+a1 turned
order=identifier-first 0-0-0-a2.2001+2+0+aa back
order=identifier-first
0-0-0-a3.2001+2+0+aa plain-again
`
	got, err := ParseHosts("hosts", text)
	if err != nil {
		t.Fatal(err)
	}
	want := []Record{
		{NID: 0xd250_99ff_fed1_5a0c, Locators: []Locator{{0x2001_0002_00dd_00dd, 10}, {0x2001_0002_00ee_00ee, 10}},
			Names: []string{"m5-ilnp", "m5"}},
		{
			NID: 0x0011_22ff_0000_0001, Locators: []Locator{{0x2001_0db8_0002_0001, 10}, {0x2001_0db8_0001_0001, 20}},
			Names: []string{"server.example", "server"}, Checksum: ChecksumRFC6741, Update: UpdateDraft,
			Nonce: NonceAlways, Order: OrderOld,
		},
		{NID: 0x0011_22ff_0000_0002, Locators: []Locator{{0x2001_0db8_0003_0001, 10}},
			Names: []string{"third"}, Anywhere: AnywhereNo},
		{NID: 0x0011_22ff_0000_0003, Names: []string{"roaming"}, Anywhere: AnywhereYes},
		{NID: 0xa1, Locators: []Locator{{0x2001_0002_0000_00aa, 10}}, Names: []string{"turned"}},
		{NID: 0xa2, Locators: []Locator{{0x2001_0002_0000_00aa, 10}}, Names: []string{"back"}},
		{NID: 0xa3, Locators: []Locator{{0x2001_0002_0000_00aa, 10}}, Names: []string{"plain-again"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("ParseHosts (-want +got):\n%s", d)
	}
}

func TestHostsFaults(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"no name", "1-2-3-4.2001+2+3+4", "h:1: no name"},
		{"only a name", "\nserver", `h:2: "server": want n-n-n-n.l+l+l+l or nid=`},
		{"three groups", "1-2-3.2001+2+3+4 a", "3 groups, want 4"},
		{"wrong order", "2001+2+3+4.1-2-3-4 a", "read as identifier.locator"},
		{"no dot", "order=locator-first 2001+2+3+4 a", `"2001+2+3+4" (read as locator.identifier)`},
		{"two vectors", "1-2-3-4.2001+2+3+4 1-2-3-4.2001+2+3+5 a", "further locators on lines of their own"},
		{"vector after name", "nid=1:2:3:4 a 1-2-3-4.2001+2+3+4", "names come last"},
		{"option after name", "nid=1:2:3:4 a l64=2001:2:3:4", "names come last"},
		{"both forms", "nid=1:2:3:4 1-2-3-4.2001+2+3+4 a", "an identifier already"},
		{"two nids", "nid=1:2:3:4 nid=1:2:3:4 a", "an identifier already"},
		{"l64 first", "l64=2001:2:3:4 nid=1:2:3:4 a", "nid= comes before l64="},
		{"zero nid", "nid=0:0:0:0 a", "no node has it"},
		{"link-local", "nid=1:2:3:4 l64=fe80:0:0:0 a", "link-local"},
		{"multicast", "1-2-3-4.ff02+0+0+0 a", "multicast"},
		{"preference", "nid=1:2:3:4 l64=2001:2:3:4,70000 a", "not a number from 0 to 65535"},
		{"prefix length", "nid=1:2:3:4 l64=2001:db8::/48 a", "locator"},
		{"option", "nid=1:2:3:4 colour=red a", "there are nid, l64, order, checksum, update, nonce, lu-order, " +
			"anywhere, plain and key"},
		{"checksum", "nid=1:2:3:4 checksum=tcp a", "want one of ipv6, rfc6741"},
		{"checksum empty", "nid=1:2:3:4 checksum= a", "want one of ipv6, rfc6741"},
		{"update", "nid=1:2:3:4 update=x a", "want one of rfc6743, draft"},
		{"nonce", "nid=1:2:3:4 nonce=never a", "want one of first, always"},
		{"order of updates", "nid=1:2:3:4 lu-order=both a", "want one of new, old"},
		{"anywhere", "nid=1:2:3:4 anywhere=always a", "want one of no, yes"},
		{"two answers to anywhere", "nid=1:2:3:4 anywhere=no a\nnid=1:2:3:4 anywhere=yes b", "of one node"},
		{"two nonces", "nid=1:2:3:4 nonce=first a\nnid=1:2:3:4 nonce=always b", "of one node"},
		{"two orders of updates", "nid=1:2:3:4 lu-order=new a\nnid=1:2:3:4 lu-order=old b", "of one node"},
		{"order", "order=backwards", "order=identifier-first"},
		{"name", "nid=1:2:3:4 a_b..c", "label"},
		{"name character", "nid=1:2:3:4 a/b", `'/' is not allowed`},
		{"name is an address", "nid=1:2:3:4 192.0.2.1", "is an address"},
		{"name of two nodes", "nid=1:2:3:4 a\n\nnid=1:2:3:5 a", "h:3: name a means node 0001:0002:0003:0004 since line 1"},
		{"two preferences", "nid=1:2:3:4 l64=2001:2:3:4,1 a\nnid=1:2:3:4 l64=2001:2:3:4,2 a", "h:2: locator"},
		{"two checksums", "nid=1:2:3:4 checksum=ipv6 a\nnid=1:2:3:4 checksum=rfc6741 b", "of one node"},
		{"two updates", "nid=1:2:3:4 update=draft a\nnid=1:2:3:4 update=rfc6743 b", "of one node"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseHosts("h", tc.text)
			if err == nil {
				t.Fatalf("accepted: %+v", got)
			}
			var es Errors
			if !errors.As(err, &es) || got != nil {
				t.Fatalf("got %v with error of type %T", got, err)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q lacks %q", err, tc.want)
			}
		})
	}
}

func TestAllHostsFaults(t *testing.T) {
	_, err := ParseHosts("h", "a\nnid=1:2:3:4 ok\nb\n")
	var es Errors
	if !errors.As(err, &es) || len(es) != 2 || es[0].Line != 1 || es[1].Line != 3 {
		t.Errorf("got %v, want faults of lines 1 and 3", err)
	}
}

var sample = Record{
	NID: 0x0011_22ff_0000_0001, Names: []string{"server.example"},
	Locators: []Locator{{0x2001_0db8_0001_0001, 10}, {0x2001_0db8_0002_0001, 20}},
}

const sampleLine = "roam1:11-22ff-0-1:2001+db8+1+1,2001+db8+2+1/20:server.example:c6efbb5a"

func TestPairing(t *testing.T) {
	line, err := FormatPairing(sample)
	if err != nil || line != sampleLine {
		t.Fatalf("FormatPairing = %q, %v, want %q", line, err, sampleLine)
	}
	got, err := ParsePairing(" " + line + "\n")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sample, got); d != "" {
		t.Errorf("round trip (-want +got):\n%s", d)
	}
	lonely := Record{NID: 7, Names: []string{"x"}}
	line, err = FormatPairing(lonely)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParsePairing(line); err != nil || !cmp.Equal(got, lonely) {
		t.Errorf("ParsePairing(%q) = %+v, %v", line, got, err)
	}
}

func TestPairingFaults(t *testing.T) {
	signed := func(body string) string { return body + ":" + sum(body) }
	for _, tc := range []struct{ name, line, want string }{
		{"empty", "", "paste the whole output of `roam export`"},
		{"cut at the end", sampleLine[:len(sampleLine)-3], "copy it again"},
		{"cut in front", sampleLine[4:], "does not begin with"},
		{"a field missing", "roam1:11-22ff-0-1:server:00000000", "4 fields"},
		{"changed", strings.Replace(sampleLine, "db8", "db9", 1), "the line was changed on its way"},
		{"newer", "roam3:x", "a newer Roam"},
		{"nid", signed("roam1:11-22ff-0:2001+db8+1+1:x"), "3 groups"},
		{"zero", signed("roam1:0-0-0-0:2001+db8+1+1:x"), "no node has it"},
		{"locator", signed("roam1:1-2-3-4:fe80+0+0+0:x"), "link-local"},
		{"locator form", signed("roam1:1-2-3-4:2001+db8:x"), "2 groups"},
		{"preference", signed("roam1:1-2-3-4:2001+db8+1+1/x:x"), "preference"},
		{"contradiction", signed("roam1:1-2-3-4:2001+db8+1+1/1,2001+db8+1+1/2:x"), "has preference"},
		{"name", signed("roam1:1-2-3-4:2001+db8+1+1:"), "1 to 253 characters"},
		{"too many", signed("roam1:1-2-3-4:" + strings.Repeat("2001+db8+1+1,", 255) + "2001+db8+1+1:x"), "at most 255"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := ParsePairing(tc.line); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("ParsePairing(%q) = %+v, error %q, want %q", tc.line, got, err, tc.want)
			}
		})
	}
	many := Record{NID: 1, Names: []string{"a"}}
	for i := range 256 {
		many.Locators = append(many.Locators, Locator{L64: 0x2001_0db8_0001_0000 + roam.L64(i)})
	}
	for _, r := range []Record{
		many,
		{NID: 0, Names: []string{"x"}},
		{NID: 1},
		{NID: 1, Names: []string{"a b"}},
		{NID: 1, Names: []string{"a"}, Locators: []Locator{{L64: 0xfe80 << 48}}},
	} {
		if line, err := FormatPairing(r); err == nil {
			t.Errorf("FormatPairing(%+v) = %q, want an error", r, line)
		}
	}
}

func TestParseAny(t *testing.T) {
	for _, s := range []string{sampleLine, sample.HostsLine()} {
		if got, err := ParseAny(s); err != nil || !cmp.Equal(got, sample) {
			t.Errorf("ParseAny(%q) = %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "x", "roam1:x", "nid=1:2:3:4 l64=2001:2:3:4,1 l64=2001:2:3:4,2 a"} {
		if _, err := ParseAny(s); err == nil {
			t.Errorf("ParseAny(%q) accepted", s)
		}
	}
}

func TestTable(t *testing.T) {
	a := Record{NID: 1, Names: []string{"a"}, Locators: []Locator{{0x2001 << 48, 20}}}
	table, errs := NewTable([]Record{
		a,
		{NID: 2, Names: []string{"b", "a"}}, // takes a name of node 1
		{NID: 1, Names: []string{"aa"}, Locators: []Locator{{0x2002 << 48, 10}}},
		{NID: 1, Names: []string{"ab"}, Locators: []Locator{{0x2002 << 48, 11}}}, // contradicts
		{NID: 3, Names: []string{"c"}},
	})
	if len(errs) != 2 {
		t.Errorf("errors %v, want 2", errs)
	}
	want := Record{NID: 1, Names: []string{"a", "aa"}, Locators: []Locator{{0x2002 << 48, 10}, {0x2001 << 48, 20}}}
	if got, ok := table.ByName("AA."); !ok || !cmp.Equal(got, want) {
		t.Errorf("ByName = %+v, %v, want %+v", got, ok, want)
	}
	if got, ok := table.ByNID(3); !ok || got.Names[0] != "c" {
		t.Errorf("ByNID(3) = %+v, %v", got, ok)
	}
	if _, ok := table.ByName("b"); ok {
		t.Error("the record that was left out answers")
	}
	if _, ok := table.ByNID(9); ok || len(table.Records()) != 2 {
		t.Errorf("records %+v", table.Records())
	}
}

// TestFaultyLinesAreSkipped reads what the other lines of a file say.
func TestFaultyLinesAreSkipped(t *testing.T) {
	const text = `nid=1:2:3:4 l64=2001:2:3:4 a
nid=1:2:3:5 a b
nid=1:2:3:5 b
nid=1:2:3:6 l64=2001:2:3:4,1 l64=2001:2:3:4,2 c
nid=1:2:3:4  l64=2001:2:3:4,9 never # and why
who
nid=1:2:3:7 d
`
	h := ReadHosts(File{"h", text})
	want := []Record{
		{NID: 0x0001_0002_0003_0004, Names: []string{"a"}, Locators: []Locator{{0x2001_0002_0003_0004, 10}}},
		{NID: 0x0001_0002_0003_0005, Names: []string{"b"}},
		{NID: 0x0001_0002_0003_0007, Names: []string{"d"}},
	}
	if d := cmp.Diff(want, h.Records); d != "" {
		t.Errorf("records (-want +got):\n%s", d)
	}
	var at []string
	for _, f := range h.Faults {
		at = append(at, Place{f.File, f.Line}.String()+" "+f.Text)
	}
	if d := cmp.Diff([]string{
		"h:2 nid=1:2:3:5 a b", "h:4 nid=1:2:3:6 l64=2001:2:3:4,1 l64=2001:2:3:4,2 c",
		"h:5 nid=1:2:3:4 l64=2001:2:3:4,9 never", "h:6 who",
	}, at); d != "" {
		t.Errorf("faults (-want +got):\n%s", d)
	}
	// A line that only contradicts others says all the same whom it is about.
	if l := h.Written(0x0001_0002_0003_0005); len(l) != 2 || l[0].Fault == nil || l[0].Line != 2 || l[1].Fault != nil {
		t.Errorf("written of node 5: %+v", l)
	}
	if _, ok := h.Named("never"); ok {
		t.Error("a line that is skipped gives a name")
	}
	if l, ok := h.Named("b"); !ok || l.Line != 3 {
		t.Errorf("b is named by %+v", l)
	}
}

// TestFaultyOrderTurnsNothingRound skips the lines whose order is not known: half of a
// locator is no identifier.
func TestFaultyOrderTurnsNothingRound(t *testing.T) {
	h := ReadHosts(File{"h", `order=locater-first
2001-2-0-aa.0+0+0+a1 turned
order=locator-first 2001-2-0-bb.0+0+0+a2 own
nid=1:2:3:4 plain
order=identifier-first
0-0-0-a3.2001+2+0+aa again
`})
	var names []string
	for _, r := range h.Records {
		names = append(names, r.Names...)
	}
	if d := cmp.Diff([]string{"own", "plain", "again"}, names); d != "" || len(h.Faults) != 2 || h.Faults[1].Line != 2 {
		t.Errorf("faults %v, names (-want +got):\n%s", h.Faults, d)
	}
}

// TestLaterFile has a second file replace what the first says of a node, but not
// give its name to another one.
func TestLaterFile(t *testing.T) {
	h := ReadHosts(
		File{"hosts", "nid=1:2:3:4 l64=2001:1:1:1,5 checksum=rfc6741 anywhere=yes a\nnid=1:2:3:5 b\norder=locator-first\n"},
		File{"peers", "nid=1:2:3:6 a\nnid=1:2:3:4 l64=2001:1:1:1,7 l64=2001:2:2:2 update=draft x\n1-2-3-7.2001+3+3+3 c\n"})
	want := []Record{
		{
			NID: 0x0001_0002_0003_0004, Names: []string{"a", "x"}, Locators: []Locator{{0x2001_0001_0001_0001, 7},
				{0x2001_0002_0002_0002, 10}},
			Checksum: ChecksumRFC6741, Update: UpdateDraft, Anywhere: AnywhereYes,
		},
		{NID: 0x0001_0002_0003_0005, Names: []string{"b"}},
		{NID: 0x0001_0002_0003_0007, Names: []string{"c"}, Locators: []Locator{{0x2001_0003_0003_0003, 10}}},
	}
	if d := cmp.Diff(want, h.Records); d != "" {
		t.Errorf("records (-want +got):\n%s", d)
	}
	if len(h.Faults) != 1 || h.Faults[0].Error() != "peers:1: name a means node 0001:0002:0003:0004 since hosts:1: give "+
		"this node, 0001:0002:0003:0006, another name" {
		t.Errorf("faults %v", h.Faults)
	}
}

func FuzzParseHosts(f *testing.F) {
	f.Add("d250-99ff-fed1-5a0c.2001+2+dd+dd m5 # x\nnid=1:2:3:4 l64=2001:2:3:4,1 checksum=ipv6 a b\n")
	f.Add("order=locator-first\n2001-2-0-aa.0+0+0+a1 b")
	f.Add("nid=1:2:3:4 anywhere=yes lu-order=old a\nnid=1:2:3:5 anywhere=no a\nnid=1:2:3:5 nonce=always b\n")
	f.Add("order=x\n2001-2-0-aa.0+0+0+a1 b\nnid=1:2:3:4 l64=2001:1:1:1,1 l64=2001:1:1:1,2 c\n")
	f.Fuzz(func(t *testing.T, text string) {
		h := ReadHosts(File{"h", text})
		records := h.Records
		if strict, err := ParseHosts("h", text); (err == nil) != (len(h.Faults) == 0) || err == nil &&
			!cmp.Equal(strict, records) {
			t.Fatalf("%d faults, and ParseHosts says %v", len(h.Faults), err)
		}
		var b strings.Builder
		for _, r := range records {
			b.WriteString(r.HostsLine() + "\n")
		}
		again, err := ParseHosts("written", b.String())
		if err != nil || !cmp.Equal(records, again) {
			t.Fatalf("written as %q, read as %+v, %v", b.String(), again, err)
		}
	})
}

func FuzzParsePairing(f *testing.F) {
	f.Add(sampleLine)
	f.Fuzz(func(t *testing.T, line string) {
		r, err := ParsePairing(line)
		if err != nil {
			return
		}
		out, err := FormatPairing(r)
		if err != nil {
			t.Fatalf("read %+v, cannot write it: %v", r, err)
		}
		if again, err := ParsePairing(out); err != nil || !cmp.Equal(r, again) {
			t.Fatalf("written as %q, read as %+v, %v", out, again, err)
		}
	})
}
