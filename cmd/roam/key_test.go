package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
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

// keyWorld is a host with a state directory, and what runs a verb of `roam key` on it.
func keyWorld(t *testing.T) (w *world, dir string, key func(args ...string) (int, string, string)) {
	t.Helper()
	w, dir = newWorld(t), t.TempDir()
	conf := filepath.Join(t.TempDir(), "roam.conf")
	text := fmt.Sprintf("[host]\nstate_dir = %q\nrun_dir = %q\n", dir, dir)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	own := naming.Record{NID: 1 << 40, Names: []string{"host"}}
	line, err := naming.FormatPairing(own)
	if err != nil {
		t.Fatal(err)
	}
	w.daemon.ExportLine = line
	return w, dir, func(args ...string) (int, string, string) {
		return w.try(append([]string{"--config", conf, "key"}, args...)...)
	}
}

// TestKeyFaults: each verb fails with what stands in its way, and changes nothing then.
func TestKeyFaults(t *testing.T) {
	for _, verb := range []string{"new", "show", "rotate", "revoke"} {
		w := newWorld(t)
		status, _, errs := w.try("--config", "/nonexistent/other.conf", "key", verb)
		if status != cli.StatusFailure || !strings.Contains(errs, "/nonexistent/other.conf") {
			t.Errorf("%s without its configuration: status %d, %s", verb, status, errs)
		}
	}
	w, dir, key := keyWorld(t)
	block := func(name string) (unblock func()) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.Mkdir(path, 0o700), os.WriteFile(path+"/x", nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		return func() { _ = os.RemoveAll(path) }
	}
	fails := func(verb, says string) {
		t.Helper()
		if status, out, errs := key(verb); status != cli.StatusFailure || !strings.Contains(errs, says) || out != "" {
			t.Errorf("%s: status %d, %s%s, want %q", verb, status, out, errs, says)
		}
	}
	unblock := block("key.new")
	fails("new", "key.new")
	unblock()
	w.daemon.Err = control.Errorf(control.CodeInvalid, "a line of the hosts file has a fault")
	status, out, errs := key("new", "--json")
	if s := (shownKey{}); status != cli.StatusOK || json.Unmarshal([]byte(out), &s) != nil || !s.Hashed {
		t.Errorf("new, as JSON: status %d, %s%s", status, out, errs)
	}
	if err := os.Remove(filepath.Join(dir, "key")); err != nil {
		t.Fatal(err)
	}
	status, _, errs = key("new")
	if status != cli.StatusOK || !strings.Contains(errs, "has not taken the key: a line of") {
		t.Errorf("new, which the daemon does not take: status %d, %s", status, errs)
	}
	fails("rotate", "a line of the hosts file")
	w.daemon.Err = nil
	line := w.daemon.ExportLine
	w.daemon.ExportLine = "nonsense"
	fails("rotate", "read pairing line")
	w.daemon.ExportLine = line
	unblock = block("key.old.new")
	fails("rotate", "key.old.new")
	unblock()
	unblock = block("key.old")
	fails("revoke", "key.old")
	unblock()
}

// TestKeyTexts: what people read of a key, with and without an old one, and where its identifier comes from.
func TestKeyTexts(t *testing.T) {
	w, dir, key := keyWorld(t)
	w.daemon.Err = errAbsent
	if status, out, errs := key("new"); status != cli.StatusOK || !strings.Contains(out, "roam export") || errs != "" {
		t.Errorf("new without a daemon: status %d, %s%s", status, out, errs)
	}
	w.daemon.Err = nil
	w.daemon.PeerList = []control.KnownPeer{{
		NID: 3, Names: []string{"faulty"}, Options: []string{"plain=yes", "key=x"},
		Written: []control.Place{{File: "/etc/roam/hosts", Line: 1}},
	}}
	text := func(want string, not ...string) {
		t.Helper()
		status, out, errs := key("show")
		if status != cli.StatusOK || !strings.Contains(out, want) {
			t.Errorf("status %d, %s%s, want %q", status, out, errs, want)
		}
		for _, n := range not {
			if strings.Contains(out, n) {
				t.Errorf("%s has %q", out, n)
			}
		}
	}
	text("the hash of the key", "vouches until", "not the hash")
	_, out, _ := key("rotate")
	if !strings.Contains(out, "systemctl restart roamd") || strings.Contains(out, "On each other peer run its line") ||
		!strings.Contains(out, "have no key, so that the old key cannot vouch") || !strings.Contains(out, "faulty") {
		t.Errorf("rotated: %s", out)
	}
	text("vouches until")
	w.daemon.PeerList = nil
	if _, out, _ := key("rotate"); strings.Contains(out, "have no key") {
		t.Errorf("rotated without peers: %s", out)
	}
	w.daemon.Err = control.Errorf(control.CodeInvalid, "a line of the hosts file has a fault")
	status, out, errs := key("revoke", "--json")
	removed := map[string]string{}
	if err := json.Unmarshal([]byte(out), &removed); err != nil || status != cli.StatusOK ||
		removed["removed"] != filepath.Join(dir, "key.old") ||
		!strings.Contains(errs, "has not forgotten the old key: a line of") {
		t.Errorf("revoked, as JSON: status %d, %v, %s%s", status, err, out, errs)
	}
	text("the hash of the key", "vouches until")
	if err := os.WriteFile(filepath.Join(dir, "nid"), []byte("11-22ff-0-1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	text("not the hash of the key")
	if err := os.Remove(filepath.Join(dir, "nid")); err != nil {
		t.Fatal(err)
	}
	text("that of an address", "the hash of the key")
}
