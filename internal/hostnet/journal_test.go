package hostnet

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestJournalSurvivesItsProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.json")
	j, err := loadJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	addr := change{Kind: addedAddress, Link: "eth0", Index: 2, Address: netip.MustParseAddr("2001:db8::1")}
	list := []change{
		{Kind: madeDevice, Link: "roam0"}, addr,
		{Kind: setSysctl, Sysctl: "eth0/optimistic_dad", Old: "0"},
	}
	if err := j.record(list...); err != nil {
		t.Fatal(err)
	}
	// The first old value is the one to put back.
	if err := j.record(addr, change{Kind: setSysctl, Sysctl: "eth0/optimistic_dad", Old: "1"}); err != nil {
		t.Fatal(err)
	}
	next, err := loadJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(list, next.changes, cmpopts.EquateComparable(netip.Addr{})); d != "" {
		t.Error(d)
	}
	if !next.addresses()[addrKey{2, addr.Address}] || len(next.addresses()) != 1 {
		t.Errorf("addresses %v", next.addresses())
	}
	if err := next.forget(next.entriesFor(addrKey{2, addr.Address})...); err != nil {
		t.Fatal(err)
	}
	if last, err := loadJournal(path); err != nil || len(last.changes) != 2 || len(last.addresses()) != 0 {
		t.Errorf("after forgetting: %+v, %v", last, err)
	}
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(names) != 0 {
		t.Errorf("left over: %v", names)
	}
}

func TestJournalThatCannotBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.json")
	for text, want := range map[string]string{
		"":                            "damaged",
		"{":                           "damaged",
		`{"version":99,"changes":[]}`: "version 99",
		`{"version":1,"changes":[{"kind":"address","address":"x"}]}`: "damaged",
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
	c := change{Kind: madeDevice, Link: "roam0"}
	if err := j.record(c); err == nil || j.has(c) {
		t.Errorf("error %v, recorded %v", err, j.has(c))
	}
}
