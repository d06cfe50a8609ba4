package naming

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCleanName(t *testing.T) {
	for in, want := range map[string]string{
		"Server.Example.":              "server.example",
		"a":                            "a",
		"_sip._tcp.x":                  "_sip._tcp.x",
		"x-1.y":                        "x-1.y",
		"1-2-3":                        "1-2-3",
		strings.Repeat("a", 63) + ".b": strings.Repeat("a", 63) + ".b",
	} {
		if got, err := CleanName(in); err != nil || got != want {
			t.Errorf("CleanName(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", ".", "a..b", ".a", "-a", "a-", "a.-b", "a b", "a\x00", "ä", "a@b", "a/b", "::1", "192.0.2.1", "2001:db8::1",
		strings.Repeat("a", 64), strings.Repeat("a.", 127) + "aa", "fe80::1%eth0",
	} {
		if got, err := CleanName(in); err == nil {
			t.Errorf("CleanName(%q) = %q, want an error", in, got)
		}
	}
}

func TestParseLocator(t *testing.T) {
	for in, want := range map[string]Locator{
		"2001:db8:1:1":          {0x2001_0db8_0001_0001, DefaultPreference},
		"2001+db8+1+1":          {0x2001_0db8_0001_0001, DefaultPreference},
		"2001:0db8:0001:0001,0": {0x2001_0db8_0001_0001, 0},
		"2001:db8:1:1,65535":    {0x2001_0db8_0001_0001, 65535},
		"2001:db8:1:1::/64":     {0x2001_0db8_0001_0001, DefaultPreference},
		"2001:db8::/64,7":       {0x2001_0db8_0000_0000, 7},
	} {
		if got, err := parseLocator(in); err != nil || got != want {
			t.Errorf("parseLocator(%q) = %+v, %v, want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", ",", "2001:db8:1", "2001:db8:1:1,", "2001:db8:1:1,-1", "2001:db8:1:1,65536",
		"2001:db8:1:1,1,2", "2001:db8::/63", "192.0.2.0/64", "2001:db8+1:1", "2001:db8:1:1::1"} {
		if got, err := parseLocator(in); err == nil {
			t.Errorf("parseLocator(%q) = %+v, want an error", in, got)
		}
	}
}

func TestHostsLine(t *testing.T) {
	for _, r := range []Record{
		{NID: 1, Names: []string{"a"}},
		{NID: 1, Names: []string{"a", "b"}, Locators: []Locator{{0x2001 << 48, 1}, {0x2002 << 48, 2}}},
		{NID: 1, Names: []string{"a"}, Checksum: ChecksumIPv6, Update: UpdateRFC6743},
		{NID: 1, Names: []string{"a"}, Nonce: NonceAlways, Order: OrderOld, Anywhere: AnywhereYes},
		{NID: 1, Names: []string{"a"}, Anywhere: AnywhereNo},
		{NID: 1<<64 - 1, Names: []string{"a"}, Checksum: ChecksumRFC6741, Update: UpdateDraft},
	} {
		got, err := ParseHostsLine(r.HostsLine())
		if err != nil || !cmp.Equal(got, r) {
			t.Errorf("%+v is written as %q and read as %+v, %v", r, r.HostsLine(), got, err)
		}
	}
}

func TestMergeLeavesTheRecordWhereItFails(t *testing.T) {
	before := Record{
		NID:      1,
		Names:    []string{"a"},
		Locators: []Locator{{0x2001 << 48, 1}},
		Checksum: ChecksumIPv6,
		Update:   UpdateDraft,
	}
	for _, o := range []Record{
		{Locators: []Locator{{0x2002 << 48, 1}, {0x2001 << 48, 2}}, Names: []string{"b"}},
		{Locators: []Locator{{0x2002 << 48, 1}}, Checksum: ChecksumRFC6741},
		{Names: []string{"b"}, Update: UpdateRFC6743},
	} {
		r := before
		if err := r.merge(o); err == nil || !cmp.Equal(r, before) {
			t.Errorf("merging %+v: %v, and the record is %+v", o, err, r)
		}
	}
}

func TestMergeDoesNotShareMemory(t *testing.T) {
	a := Record{NID: 1, Names: make([]string, 1, 8), Locators: make([]Locator, 1, 8)}
	a.Names[0], a.Locators[0] = "a", Locator{0x2001 << 48, 1}
	b, c := a, a
	if err := b.merge(Record{Names: []string{"b"}, Locators: []Locator{{0x2002 << 48, 1}}}); err != nil {
		t.Fatal(err)
	}
	if err := c.merge(Record{Names: []string{"c"}, Locators: []Locator{{0x2003 << 48, 1}}}); err != nil {
		t.Fatal(err)
	}
	if b.Names[1] != "b" || b.Locators[1].L64 != 0x2002<<48 {
		t.Errorf("a second merge wrote into the first: %+v", b)
	}
}

func TestIsPairing(t *testing.T) {
	for in, want := range map[string]bool{
		sampleLine: true, " roam2:x\n": true, "roam65535:": true,
		"roam:x": false, "roamer:x": false, "roam1": false, "": false, "nid=1:2:3:4 roam1": false, "roam-1:x": false,
	} {
		if got := IsPairing(in); got != want {
			t.Errorf("IsPairing(%q) = %v", in, got)
		}
	}
}

// TestEverySlipIsFound changes each character of a pairing line in turn.
func TestEverySlipIsFound(t *testing.T) {
	for i := range sampleLine {
		for _, c := range []string{"", "0", "x", ":", string(sampleLine[i]) + string(sampleLine[i])} {
			line := sampleLine[:i] + c + sampleLine[i+1:]
			if line == sampleLine {
				continue
			}
			if got, err := ParsePairing(line); err == nil && !cmp.Equal(got, sample) {
				t.Errorf("%q is read as %+v", line, got)
			}
		}
	}
}

func TestErrorsUnwrap(t *testing.T) {
	_, err := ParseHosts("h", "x\ny\n")
	es, ok := err.(Errors)
	if !ok || len(es.Unwrap()) != 2 || es[0].Unwrap() == nil || es.Error() != es[0].Error()+"\n"+es[1].Error() {
		t.Errorf("got %#v", err)
	}
}

// TestOrderOfLinesDoesNotMatter reads the lines of one node in both orders.
func TestOrderOfLinesDoesNotMatter(t *testing.T) {
	one := "nid=1:2:3:4 l64=2001:1:1:1,10 checksum=rfc6741 a\n"
	two := "nid=1:2:3:4 l64=2001:2:2:2,5 update=draft a\n"
	x, err := ParseHosts("x", one+two)
	if err != nil {
		t.Fatal(err)
	}
	y, err := ParseHosts("y", two+one)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(x, y); d != "" || len(x) != 1 {
		t.Errorf("(-first +second):\n%s", d)
	}
}

func TestEmptyTable(t *testing.T) {
	table, errs := NewTable(nil)
	if _, ok := table.ByName("a"); ok || errs != nil || len(table.Records()) != 0 {
		t.Errorf("an empty table has %v, %v", table.Records(), errs)
	}
	var zero Table
	if _, ok := zero.ByNID(1); ok {
		t.Error("the zero table answers")
	}
}
