package acceptance

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"roam/internal/testutil"
)

// drawn has a host get its key and NID at its first start; more is appended to its configuration.
func (w *world) drawn(name string, more ...string) *host {
	h := w.newHost(name, settings{accept: "known", hosts: "# nobody\n", more: strings.Join(more, "")})
	b, err := os.ReadFile(h.Config)
	if err != nil {
		w.t.Fatal(err)
	}
	text := strings.Replace(string(b), "nid = \""+w.nid(name).String()+"\"", "nid = \"auto\"", 1)
	if err := os.WriteFile(h.Config, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	h.start()
	if line := h.roam("export"); !strings.HasPrefix(line, "roam2:") {
		w.t.Errorf("%s starts for the first time, and exports %q", name, line)
	}
	return h
}

// TestRotate replaces the key of a host. Its peer believes the line that the old key made for it, and
// no other; then each reaches the other under the new identifier, keyed, without plain IPv6.
func TestRotate(t *testing.T) {
	w := newWorld(t, "rotate", 2*time.Millisecond, place{"mn", 1, true}, place{"cn", 1, false})
	mn, cn := w.drawn("mn"), w.drawn("cn")
	for _, pair := range [][2]*host{{mn, cn}, {cn, mn}} {
		pair[1].roam("add", strings.TrimSpace(pair[0].roam("export")), "--as", pair[0].name)
	}
	w.echo(t, "cn", 7007)
	w.echo(t, "mn", 7007)
	w.talk(t, "mn", "tcp6", "cn", 7007).echoed(t, "before")
	mn.reaches("cn", "established")
	before := cn.with("mn").NID
	live := w.talk(t, "cn", "tcp6", "mn", 7007)

	out := mn.roam("key", "rotate")
	_, line, found := strings.Cut(out, "\ncn:\nroam add ")
	if line, _, _ = strings.Cut(line, "\n"); !found {
		t.Fatalf("rotate prints no line for cn: %s", out)
	}
	live.echoed(t, "a live session keeps the old identifier")
	mn.roam("config", "reload")
	if s := cn.with("mn"); s.NID != before || s.Proof != "keyed" {
		t.Errorf("after the reload cn has %+v", s)
	}
	if _, diag, err := mn.command("add", line); err == nil {
		t.Errorf("mn adds itself: %s", diag)
	}
	forged := line[:len(line)-len(":00000000")]
	forged = forged[:len(forged)-2] + "AA" // of the MAC
	_, diag, err := cn.command("add", resealed(forged))
	if err == nil || !strings.Contains(diag, "was not made for this host") {
		t.Errorf("cn believes a forged line: %v, %s", err, diag)
	}
	out = cn.roam("add", line)
	if !strings.Contains(out, "vouches for the new one") || !strings.Contains(out, "keyed") {
		t.Errorf("cn adds the line: %s", out)
	}
	mn.down()
	mn.start()
	again := cn.roam("add", line)
	if strings.Contains(again, "vouches") {
		t.Errorf("cn adds the line once more: %s", again)
	}
	w.talk(t, "cn", "tcp6", "mn", 7007).echoed(t, "after, to it")
	w.talk(t, "mn", "tcp6", "cn", 7007).echoed(t, "after, from it")
	for _, h := range []*host{mn, cn} {
		peer := map[*host]string{mn: "cn", cn: "mn"}[h]
		if s := h.with(peer); s.State != "established" || s.Proof != "keyed" || h == cn && s.NID == before {
			t.Errorf("%s has %+v", h.name, s)
		}
		secretFree(t, h)
	}
	if out := mn.roam("key", "revoke"); !strings.Contains(out, "removed") {
		t.Errorf("revoke: %s", out)
	}
	mn.roam("config", "reload")
	w.talk(t, "cn", "tcp6", "mn", 7007).echoed(t, "after the old key is gone")
}

// TestRotateAlone replaces the key of a host, and nobody does anything at its peer: the old key
// vouches for the new one as soon as the host is there under its new identifier. After its next
// start the peer still knows, and once the old key is revoked nobody hears of it.
func TestRotateAlone(t *testing.T) {
	w := newWorld(t, "rotated", 2*time.Millisecond, place{"mn", 1, true}, place{"cn", 1, false})
	mn, cn := w.drawn("mn"), w.drawn("cn")
	for _, pair := range [][2]*host{{mn, cn}, {cn, mn}} {
		pair[1].roam("add", strings.TrimSpace(pair[0].roam("export")), "--as", pair[0].name)
	}
	w.echo(t, "cn", 7007)
	w.echo(t, "mn", 7007)
	live := w.talk(t, "cn", "tcp6", "mn", 7007)
	before := cn.with("mn").NID
	mn.roam("key", "rotate")
	live.echoed(t, "a live session keeps the old identifier")
	mn.down()
	mn.start()
	testutil.Eventually(t, 20*time.Second, func() bool {
		s := cn.with("mn")
		return s.NID != before && s.State == "established" && s.Proof == "keyed"
	}, "cn has the new identifier and a keyed session")
	file := filepath.Join(cn.Host.Dir(), "state", "peers")
	if old, err := os.ReadFile(file); err != nil || strings.Contains(string(old), before.String()) {
		t.Errorf("cn still has the old identifier on file: %v\n%s", err, old)
	}
	w.talk(t, "cn", "tcp6", "mn", 7007).echoed(t, "after, to it")
	w.talk(t, "mn", "tcp6", "cn", 7007).echoed(t, "after, from it")
	cn.down()
	cn.start()
	w.talk(t, "cn", "tcp6", "mn", 7007).echoed(t, "after the peer's start")
	mn.roam("key", "revoke")
	w.talk(t, "mn", "tcp6", "cn", 7007).echoed(t, "after the old key is gone")
	for _, h := range []*host{mn, cn} {
		secretFree(t, h)
	}
}

// resealed puts the right checksum behind a pairing line.
func resealed(body string) string {
	return fmt.Sprintf("%s:%08x", body, crc32.ChecksumIEEE([]byte(body)))
}
