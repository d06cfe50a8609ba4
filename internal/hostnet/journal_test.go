package hostnet

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"roam/internal/hostnet/desired"
)

func TestJournalSurvivesItsProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.json")
	j, err := loadJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	a, prefix := netip.MustParseAddr("2001:db8::1"), netip.MustParsePrefix("2001:db8::/32")
	dad := desired.Sysctl{Link: 2, Param: "optimistic_dad"}
	list := []entry{
		{ownerDevices, desired.Device{Name: "roam0", Peer: "roam0x"}, ""},
		{ownerLocators, dad, "0"},
		{ownerLocators, desired.Address{Link: 2, Addr: a, Bits: 128}, ""},
		{"border", desired.Neighbour{Link: 2, Addr: a, MAC: "02:00:00:00:00:01"}, ""},
		{"border", desired.Proxy{Link: 2, Addr: a}, ""},
		{"border", desired.Route{Dst: prefix, Link: 2, Gateway: a, Source: a, Table: 7, Metric: 9}, ""},
		{"border", desired.Route{Dst: prefix, Unreachable: true, Table: 8, Metric: 9}, ""},
		{"border", desired.Rule{Priority: 7, From: prefix, To: prefix, In: "lan", Mark: 5, Table: 7}, ""},
	}
	if err := j.edit(nil, list); err != nil {
		t.Fatal(err)
	}
	// The first old value is the one to put back.
	if err := j.edit(nil, []entry{list[2], {ownerLocators, dad, "1"}}); err != nil {
		t.Fatal(err)
	}
	next, err := loadJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(next.entries, list) {
		t.Errorf("%+v\nbecame\n%+v", list, next.entries)
	}
	if err := next.edit(list[2:], nil); err != nil {
		t.Fatal(err)
	}
	if last, err := loadJournal(path); err != nil || !slices.Equal(last.entries, list[:2]) {
		t.Errorf("after forgetting: %+v, %v", last, err)
	}
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(names) != 0 {
		t.Errorf("left over: %v", names)
	}
}

// The build before this form wrote three kinds of changes; an upgrade takes over
// what it made.
func TestJournalOfTheFirstVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.json")
	const text = `{"version":1,"changes":[{"kind":"device","link":"roam0"},
		{"kind":"address","link":"eth0","index":2,"address":"2001:db8::1"},
		{"kind":"sysctl","sysctl":"eth0/optimistic_dad","old":"0"}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := loadJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []entry{
		{ownerDevices, desired.Device{Name: "roam0", Peer: "roam0x"}, ""},
		{ownerLocators, desired.Address{Link: 2, Addr: netip.MustParseAddr("2001:db8::1"), Bits: 128}, ""},
		{ownerLocators, desired.Sysctl{Name: "eth0", Param: "optimistic_dad"}, "0"},
	}
	if !slices.Equal(j.entries, want) {
		t.Errorf("got %+v\nwant %+v", j.entries, want)
	}
}

func TestJournalThatCannotBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.json")
	for text, want := range map[string]string{
		"":                            "damaged",
		"{":                           "damaged",
		`{"version":99,"changes":[]}`: "version 99",
		`{"version":1,"changes":[{"kind":"address","address":"x"}]}`: "damaged",
		`{"version":1,"changes":[{"kind":"tunnel"}]}`:                "unknown kind",

		`{"version":2,"changes":[{"owner":"a"}]}`:                                                   "change 1 names no item",
		`{"version":2,"changes":[{"device":{"name":"a"},"proxy":{"link":2,"addr":"2001:db8::1"}}]}`: "or several",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := loadJournal(path)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: error %v, want one about %q that names the file", text, err, want)
		}
		if err := Restore(path); err == nil {
			t.Errorf("%q: Restore went on", text)
		}
	}
}

// A change that cannot be recorded is not believed to be recorded.
func TestJournalThatCannotBeWritten(t *testing.T) {
	j, err := loadJournal(filepath.Join(t.TempDir(), "none", "host.json"))
	if err != nil {
		t.Fatal(err)
	}
	x := desired.Device{Name: "roam0", Peer: "roam0x"}
	if err := j.edit(nil, []entry{{ownerDevices, x, ""}}); err == nil || j.has(x) {
		t.Errorf("error %v, recorded %v", err, j.has(x))
	}
}
