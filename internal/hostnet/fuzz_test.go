package hostnet

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzJournal reads any journal of changes: one that is accepted is read the
// same after it was written again, so that nothing of the host's state is lost.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"version":1,"changes":[]}`))
	f.Add([]byte(`{"version":1,"changes":[{"kind":"address","index":2,"address":"2001:db8::1"},{"kind":"sysctl","sysctl":"all/forwarding","old":"0"}]}`))
	f.Add([]byte(`{"version":2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "host.json")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := loadJournal(path)
		if err != nil {
			return
		}
		if err := j.save(j.changes); err != nil {
			t.Fatalf("cannot be written again: %v", err)
		}
		again, err := loadJournal(path)
		if err != nil || len(again.changes) != len(j.changes) {
			t.Fatalf("%d changes became %d: %v", len(j.changes), len(again.changes), err)
		}
		for i, c := range j.changes {
			if again.changes[i] != c {
				t.Errorf("%+v became %+v", c, again.changes[i])
			}
		}
	})
}
