package ilnphost

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"roam/internal/dnsio"
)

// resolvBench is a resolv.conf that a keeper has taken.
type resolvBench struct {
	*resolvKeeper
	t    *testing.T
	now  time.Time
	path string
}

func newResolvBench(t *testing.T, path string) *resolvBench {
	t.Helper()
	file := dnsio.ResolvConf{Path: path, Dir: t.TempDir()}
	b := &resolvBench{newResolvKeeper(file, netip.MustParseAddrPort("127.0.0.156:53")), t, time.Unix(1000, 0), path}
	if _, err := b.take(); err != nil {
		t.Fatal(err)
	}
	b.quiet("just taken")
	return b
}

// write writes a file as a manager of links does: whole, under another name
// first.
func write(t *testing.T, path, text string) {
	t.Helper()
	err := os.WriteFile(path+".part", []byte(text), 0o644)
	if err = errors.Join(err, os.Rename(path+".part", path)); err != nil {
		t.Fatal(err)
	}
}

func (b *resolvBench) text() string {
	b.t.Helper()
	text, err := os.ReadFile(b.path)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

func (b *resolvBench) quiet(what string) {
	b.t.Helper()
	for range 3 {
		b.now = b.now.Add(resolvEvery)
		if servers, changed, err := b.look(b.now); changed || err != nil {
			b.t.Errorf("%s: %v %t %v, want nothing done", what, servers, changed, err)
		}
	}
}

// wants expects that the second look from now on finds these servers, and that
// applications ask us then.
func (b *resolvBench) wants(what, server string) {
	b.t.Helper()
	if _, changed, err := b.look(b.now); changed || err != nil {
		b.t.Errorf("%s: dealt with while it may still be written, %v", what, err)
	}
	servers, changed, err := b.look(b.now)
	if want := netip.MustParseAddrPort(server + ":53"); err != nil || !changed || len(servers) != 1 || servers[0] != want {
		b.t.Errorf("%s: %v %t %v, want %v", what, servers, changed, err, want)
	}
	if !b.pointsToUs() {
		b.t.Errorf("%s: the file does not point to us:\n%s", what, b.text())
	}
	b.quiet(what + ", and then nothing")
}

func TestResolvConfIsTakenAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	write(t, path, "search home.example\nnameserver 192.0.2.1\n")
	b := newResolvBench(t, path)
	write(t, path, "# of the next network\nsearch cafe.example\nnameserver 192.0.2.2\n")
	b.wants("another network", "192.0.2.2")
	if !strings.Contains(b.text(), "search cafe.example") {
		t.Errorf("the domain of the network is lost:\n%s", b.text())
	}
	edited := b.text() + "options timeout:1\n"
	write(t, path, edited)
	b.quiet("edited by hand")
	if b.text() != edited {
		t.Errorf("the edit is lost:\n%s", b.text())
	}
	write(t, path, "nameserver 192.0.2.33\n")
	b.wants("a third one", "192.0.2.33")
	if err := b.file.Restore(); err != nil {
		t.Fatal(err)
	}
	if b.text() != "nameserver 192.0.2.33\n" {
		t.Errorf("after the end:\n%s", b.text())
	}
}

func TestResolvConfThatWasALink(t *testing.T) {
	dir := t.TempDir()
	path, run := filepath.Join(dir, "resolv.conf"), filepath.Join(dir, "run.conf")
	write(t, run, "nameserver 192.0.2.1\n")
	if err := os.Symlink("run.conf", path); err != nil {
		t.Fatal(err)
	}
	b := newResolvBench(t, path)
	// Its owner does not touch the link, and does not know that it is gone.
	write(t, run, "nameserver 192.0.2.22\n")
	b.wants("another network", "192.0.2.22")
	if err := b.file.Restore(); err != nil {
		t.Fatal(err)
	}
	if b.text() != "nameserver 192.0.2.22\n" {
		t.Errorf("after the end:\n%s", b.text())
	}
}

// After a crash the next daemon asks the servers that the target of the link names by now, not those that were there
// when a daemon first took resolv.conf. Without a target it asks the last ones.
func TestResolvConfThatWasALinkAfterACrash(t *testing.T) {
	dir := t.TempDir()
	path, run := filepath.Join(dir, "resolv.conf"), filepath.Join(dir, "run.conf")
	write(t, run, "nameserver 192.0.2.1\n")
	if err := os.Symlink("run.conf", path); err != nil {
		t.Fatal(err)
	}
	b := newResolvBench(t, path)
	write(t, run, "nameserver 192.0.2.22\n")
	b.wants("another network", "192.0.2.22")
	again := func(what, server string) {
		t.Helper()
		next := &resolvBench{newResolvKeeper(b.file, b.own), t, b.now, path}
		want := netip.MustParseAddrPort(server + ":53")
		before, err := next.file.Upstream(next.own)
		if err != nil || len(before) != 1 || before[0] != want {
			t.Errorf("%s: %v %v before resolv.conf is taken, want %v", what, before, err, want)
		}
		servers, err := next.take()
		if err != nil || len(servers) != 1 || servers[0] != want {
			t.Errorf("%s: %v %v, want %v", what, servers, err, want)
		}
		if !next.pointsToUs() || !strings.Contains(next.text(), server) {
			t.Errorf("%s: resolv.conf is\n%s", what, next.text())
		}
		next.quiet(what)
	}
	again("after a crash", "192.0.2.22")
	write(t, run, "nameserver 192.0.2.3\n")
	again("written while no daemon ran", "192.0.2.3")
	if err := os.Remove(run); err != nil {
		t.Fatal(err)
	}
	again("no target", "192.0.2.3")
	if err := b.file.Restore(); err != nil {
		t.Fatal(err)
	}
	if link, err := os.Readlink(path); err != nil || link != "run.conf" {
		t.Errorf("after the end: %q %v", link, err)
	}
}

func TestResolvConfIsNotFoughtFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	write(t, path, "nameserver 192.0.2.1\n")
	b := newResolvBench(t, path)
	takes, complaints := 0, 0
	for n := range 3 * resolvTakes {
		write(t, path, fmt.Sprintf("nameserver 192.0.2.%d\n", n+2))
		for range 2 {
			b.now = b.now.Add(time.Second)
			_, changed, err := b.look(b.now)
			switch {
			case changed:
				takes++
			case errors.Is(err, errFought):
				complaints++
			case err != nil:
				t.Fatal(err)
			}
		}
	}
	if takes != resolvTakes || complaints != 1 {
		t.Errorf("taken %d times with %d complaints, want %d with one", takes, complaints, resolvTakes)
	}
	b.now = b.now.Add(resolvPeriod)
	write(t, path, "nameserver 192.0.2.200\n")
	b.wants("after the period", "192.0.2.200")
}
