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
	f.Add([]byte(`{"version":2,"changes":[{"owner":"a","route":{"dst":"::/0","link":2}}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "host.json")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := loadJournal(path)
		if err != nil {
			return
		}
		if err := j.save(j.entries); err != nil {
			t.Fatalf("cannot be written again: %v", err)
		}
		again, err := loadJournal(path)
		if err != nil || len(again.entries) != len(j.entries) {
			t.Fatalf("%d changes became %d: %v", len(j.entries), len(again.entries), err)
		}
		for i, c := range j.entries {
			if again.entries[i] != c {
				t.Errorf("%+v became %+v", c, again.entries[i])
			}
		}
	})
}
