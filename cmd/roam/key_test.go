package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"roam/internal/cli"
	"roam/internal/control"
	"roam/internal/control/controltest"
	"roam/naming"
	"roam/nidkey"
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

// TestKeyRotate: the printed line is one that the peer verifies with the key that it knows, and nothing
// printed has a private half. A second run prints the same line; after revoke there is nothing to revoke.
func TestKeyRotate(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "roam.conf")
	text := fmt.Sprintf("[host]\nstate_dir = %q\nrun_dir = %q\n", dir, dir)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	reader, err := nidkey.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	own := naming.Record{NID: 1 << 40, Names: []string{"host"}, Locators: []naming.Locator{{L64: 0x2001_0db8_0001_0001}}}
	if w.daemon.ExportLine, err = naming.FormatPairing(own); err != nil {
		t.Fatal(err)
	}
	place := []control.Place{{File: "/etc/roam/hosts", Line: 1}}
	w.daemon.PeerList = []control.KnownPeer{
		{
			NID: reader.NID, Names: []string{"keyed"}, Written: place,
			Options: []string{"plain=yes", "key=" + reader.Public.String(), "key=optional"},
		},
		{NID: 4, Names: []string{"unkeyed"}, Written: place},
		{NID: 5, Names: []string{}},
	}
	roam := func(args ...string) (int, string, string) {
		return w.try(append([]string{"--config", conf}, args...)...)
	}
	if status, _, errs := roam("key", "rotate"); status != cli.StatusFailure || !strings.Contains(errs, "roam key new") {
		t.Errorf("without a key: status %d, %s", status, errs)
	}
	if status, _, errs := roam("key", "new"); status != cli.StatusOK {
		t.Fatal(errs)
	}
	before, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	old, err := nidkey.ParseFile(before)
	if err != nil {
		t.Fatal(err)
	}
	w.daemon.Err = errAbsent
	if status, _, _ := roam("key", "rotate"); status == cli.StatusOK {
		t.Error("rotated without a daemon, so without lines for the peers")
	}
	w.daemon.Err = nil
	status, out, errs := roam("key", "rotate", "--json")
	var r rotated
	err = json.Unmarshal([]byte(out), &r)
	if err != nil || status != cli.StatusOK || len(r.Lines) != 1 || len(r.Unkeyed) != 1 {
		t.Fatalf("status %d, %v, %s%s", status, err, out, errs)
	}
	record, err := naming.ParsePairing(r.Lines[0].Line)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := reader.Shared(old.Public)
	if err != nil {
		t.Fatal(err)
	}
	if !record.Vouch.Check(secret, reader.NID) || record.NID != *r.NID || record.Vouch.Old != old.NID ||
		!record.Vouch.Until.Equal(controltest.Now.Add(defaultKeep)) || record.Locators[0].L64 != own.Locators[0].L64 {
		t.Errorf("the line is %+v of %+v", record, r)
	}
	status, text, _ = roam("key", "rotate")
	if status != cli.StatusOK || !strings.Contains(text, "roam add "+r.Lines[0].Line) ||
		!strings.Contains(text, "unkeyed") {
		t.Errorf("again: status %d, %s", status, text)
	}
	notPrinted(t, out+text, filepath.Join(dir, "key"), filepath.Join(dir, "key.old"))
	if status, out, errs := roam("key", "revoke"); status != cli.StatusOK || !strings.Contains(out, "no longer vouches") {
		t.Errorf("revoke: status %d, %s%s", status, out, errs)
	}
	if status, _, errs := roam("key", "revoke"); status != cli.StatusFailure || !strings.Contains(errs, "no old key") {
		t.Errorf("revoke again: status %d, %s", status, errs)
	}
	if _, _, errs := roam("key", "rotate", "--keep", "1s"); !strings.Contains(errs, "a minute") {
		t.Errorf("--keep 1s: %s", errs)
	}
}

// TestAddSaysWhatItGot: a peer with a key, one that takes another one's place, and one that nothing lists.
func TestAddSaysWhatItGot(t *testing.T) {
	const keyed, guarded = "proof: keyed: Locator Updates need a MAC by its key\n", "plain IPv6 is not used with it: " +
		"connections to it fail until this host's line is\nadded there, or if it has no ILNP\n"
	for want, p := range map[string]control.Peer{
		keyed + guarded: {Proof: control.ProofKeyed},
		"its key so far vouches for the new one: 0000:0000:0000:0007 is forgotten\n" + keyed: {
			Proof: control.ProofKeyed, Plain: true, Replaced: 7,
		},
		"proof: nonce: no record lists where it is; its nonce moves the session\n": {
			Proof: control.ProofNonce, Plain: true,
		},
	} {
		w := newWorld(t)
		if w.got(p); w.out.String() != want {
			t.Errorf("%+v: %q, want %q", p, w.out.String(), want)
		}
	}
}

// notPrinted looks for the private halves of key files in what was printed.
func notPrinted(t *testing.T, printed string, files ...string) {
	t.Helper()
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(b), "private ")
		if private, _, _ := strings.Cut(rest, "\n"); len(private) != 43 || strings.Contains(printed, private) {
			t.Errorf("the private half in %s is printed", file)
		}
	}
}
