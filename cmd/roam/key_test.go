package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"roam/internal/cli"
)

// TestKeyVerbs makes a key on a host that never started, shows it, and makes no second one.
// Nothing that the verbs print has the private half.
func TestKeyVerbs(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "roam.conf")
	text := fmt.Sprintf("[host]\nstate_dir = %q\nrun_dir = %q\n", dir, dir)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	roam := func(args ...string) (int, string, string) {
		return newWorld(t).try(append([]string{"--config", conf}, args...)...)
	}
	if status, _, errs := roam("key"); status != cli.StatusFailure || !strings.Contains(errs, "roam key new") {
		t.Errorf("without a key: status %d, %s", status, errs)
	}
	status, out, errs := roam("key", "new")
	if status != cli.StatusOK || !strings.Contains(out, "the hash of the key") {
		t.Fatalf("new: status %d, %s%s", status, out, errs)
	}
	all := out
	const exists = "there is a key already"
	if status, _, errs := roam("key", "new"); status != cli.StatusFailure || !strings.Contains(errs, exists) {
		t.Errorf("new again: status %d, %s", status, errs)
	}
	var shown shownKey
	status, out, _ = roam("key", "show", "--json")
	err := json.Unmarshal([]byte(out), &shown)
	if status != cli.StatusOK || err != nil || !shown.Hashed || len(shown.Public) != 43 {
		t.Errorf("show: status %d, %v, %s", status, err, out)
	}
	file, err := os.ReadFile(shown.File)
	if err != nil {
		t.Fatal(err)
	}
	private := strings.Fields(string(file))[3]
	if strings.Contains(all+out, private) || len(private) != 43 {
		t.Error("the private half is printed")
	}
	if err := os.Chmod(shown.File, 0o644); err != nil {
		t.Fatal(err)
	}
	remedy := "chmod 600 " + shown.File
	if status, _, errs := roam("key", "show"); status != cli.StatusFailure || !strings.Contains(errs, remedy) {
		t.Errorf("readable by others: status %d, %s", status, errs)
	}
}
