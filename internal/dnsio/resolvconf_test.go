package dnsio

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

var own = netip.MustParseAddrPort("127.0.0.156:53")

const original = `# by hand
nameserver 2001:db8::53
nameserver 192.0.2.53
nameserver 192.0.2.53
nameserver 127.0.0.156
nameserver nonsense
search example.org
options edns0 rotate
`

func resolvDirs(t *testing.T) (ResolvConf, string) {
	t.Helper()
	dir := t.TempDir()
	run := filepath.Join(dir, "run")
	if err := os.Mkdir(run, 0o755); err != nil {
		t.Fatal(err)
	}
	return ResolvConf{Path: filepath.Join(dir, "resolv.conf"), Dir: run}, dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func take(t *testing.T, r ResolvConf) []netip.AddrPort {
	t.Helper()
	up, err := r.Take(own)
	if err != nil {
		t.Fatal(err)
	}
	return up
}

func release(t *testing.T, r ResolvConf) {
	t.Helper()
	if err := r.Restore(); err != nil {
		t.Fatal(err)
	}
}

func TestTakeAndRestore(t *testing.T) {
	r, dir := resolvDirs(t)
	write(t, r.Path, original)
	want := []netip.AddrPort{netip.MustParseAddrPort("[2001:db8::53]:53"), netip.MustParseAddrPort("192.0.2.53:53")}
	if got, err := r.Upstream(own); err != nil || !slices.Equal(got, want) {
		t.Errorf("before: upstream %v, %v", got, err)
	}
	// The second take is by the successor of a killed daemon: it must not save Roam's own
	// file as the original.
	for range 2 {
		if got := take(t, r); !slices.Equal(got, want) {
			t.Errorf("upstream %v, want %v", got, want)
		}
		wantText := marker + "\nnameserver 127.0.0.156\nnameserver 2001:db8::53\nnameserver 192.0.2.53\nsearch " +
			"example.org\noptions edns0\n"
		if got := read(t, r.Path); got != wantText {
			t.Errorf("our file:\n%s\nwant:\n%s", got, wantText)
		}
	}
	release(t, r)
	if got := read(t, r.Path); got != original {
		t.Errorf("restored:\n%s", got)
	}
	if info, err := os.Stat(r.Path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	release(t, r) // again: nothing to do
	for _, d := range []string{dir, r.Dir} {
		left, err := os.ReadDir(d)
		if err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }) {
			t.Errorf("left behind in %s: %v, %v", d, left, err)
		}
	}
}

func TestSymbolicLink(t *testing.T) {
	r, dir := resolvDirs(t)
	write(t, filepath.Join(dir, "stub"), original)
	if err := os.Symlink("stub", r.Path); err != nil {
		t.Fatal(err)
	}
	take(t, r)
	if got := read(t, filepath.Join(dir, "stub")); got != original {
		t.Error("wrote through the link into somebody else's file")
	}
	release(t, r)
	if link, err := os.Readlink(r.Path); err != nil || link != "stub" {
		t.Errorf("link %q, %v", link, err)
	}
}

func TestDanglingLinkAndAbsentFile(t *testing.T) {
	r, _ := resolvDirs(t)
	if up := take(t, r); len(up) != 0 {
		t.Errorf("upstream %v from nothing", up)
	}
	release(t, r)
	if _, err := os.Lstat(r.Path); !os.IsNotExist(err) {
		t.Errorf("absent file came to be: %v", err)
	}
	if err := os.Symlink("nowhere", r.Path); err != nil {
		t.Fatal(err)
	}
	take(t, r)
	release(t, r)
	if link, err := os.Readlink(r.Path); err != nil || link != "nowhere" {
		t.Errorf("link %q, %v", link, err)
	}
}

func TestTheFileOfOthersStays(t *testing.T) {
	r, _ := resolvDirs(t)
	write(t, r.Path, original)
	take(t, r)
	const dhcp = "nameserver 198.51.100.1\n"
	write(t, r.Path, dhcp)
	release(t, r)
	if got := read(t, r.Path); got != dhcp {
		t.Errorf("overwrote what a DHCP client wrote: %q", got)
	}
	take(t, r)
	write(t, r.Path, dhcp)
	if up := take(t, r); len(up) != 1 || up[0] != netip.MustParseAddrPort("198.51.100.1:53") {
		t.Errorf("upstream %v, want the new file's", up)
	}
	release(t, r)
	if got := read(t, r.Path); got != dhcp {
		t.Errorf("restored %q", got)
	}
}

func TestLostOriginal(t *testing.T) {
	r, _ := resolvDirs(t)
	write(t, r.Path, original)
	take(t, r)
	if err := os.Remove(filepath.Join(r.Dir, savedName)); err != nil {
		t.Fatal(err)
	}
	if up := take(t, r); len(up) != 2 {
		t.Errorf("upstream %v, want those named behind us", up)
	}
	release(t, r)
	if got, want := read(t, r.Path),
		"nameserver 2001:db8::53\nnameserver 192.0.2.53\nsearch example.org\noptions edns0\n"; got != want {
		t.Errorf("restored %q, want %q", got, want)
	}
}

func TestTakeRefuses(t *testing.T) {
	r, _ := resolvDirs(t)
	write(t, r.Path, original)
	if _, err := r.Take(netip.MustParseAddrPort("127.0.0.1:5353")); err == nil ||
		!strings.Contains(err.Error(), "port 53 only") {
		t.Errorf("another port: %v", err)
	}
	write(t, filepath.Join(r.Dir, savedName), "{")
	write(t, r.Path, marker+"\n")
	if _, err := r.Take(own); err == nil {
		t.Error("took over with a damaged original")
	}
	if err := r.Restore(); err == nil {
		t.Error("released with a damaged original")
	}
	write(t, r.Path, original)
	r.Dir = filepath.Join(r.Path, "below a file")
	if _, err := r.Take(own); err == nil || read(t, r.Path) != original {
		t.Errorf("touched the file without keeping it first: %v", err)
	}
}

func TestUnspecifiedServer(t *testing.T) {
	if got := servers("nameserver 0.0.0.0\n", own); len(got) != 1 || !got[0].Addr().IsLoopback() {
		t.Errorf("got %v", got)
	}
}

// TestResolvedIsNotAsked takes the resolv.conf of a host with systemd-resolved,
// which would ask us in turn.
func TestResolvedIsNotAsked(t *testing.T) {
	r, dir := resolvDirs(t)
	stub := filepath.Join(dir, "stub")
	r.Resolved = filepath.Join(dir, "servers")
	write(t, stub, "nameserver 127.0.0.53\noptions edns0 trust-ad\n")
	write(t, r.Resolved, "nameserver 192.0.2.1\nnameserver 127.0.0.156\n")
	if err := os.Symlink("stub", r.Path); err != nil {
		t.Fatal(err)
	}
	direct := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:53")}
	if up, err := r.Upstream(own); err != nil || !slices.Equal(up, direct) {
		t.Errorf("resolved asks us already: %v, %v", up, err)
	}
	write(t, r.Resolved, "nameserver 192.0.2.1\n")
	asked := netip.MustParseAddrPort("127.0.0.53:53")
	if up, err := r.Upstream(own); err != nil || !slices.Equal(up, []netip.AddrPort{asked}) {
		t.Errorf("resolved does not ask us: %v, %v", up, err)
	}
	for range 2 { // the second time the file is Roam's, as after a kill
		if up := take(t, r); !slices.Equal(up, direct) {
			t.Errorf("taken: %v", up)
		}
		if up, err := r.Upstream(own); err != nil || !slices.Equal(up, direct) {
			t.Errorf("while it is ours: %v, %v", up, err)
		}
		if up, err := r.Followed(own); err != nil || !slices.Equal(up, direct) || r.Follows() != r.Resolved {
			t.Errorf("follows %q, %v, %v", r.Follows(), up, err)
		}
	}
	if text := read(t, r.Path); !strings.Contains(text, "nameserver 127.0.0.156\nnameserver 127.0.0.53\n") {
		t.Errorf("after a kill resolved is not asked:\n%s", text)
	}
	release(t, r)
	if link, err := os.Readlink(r.Path); err != nil || link != "stub" {
		t.Errorf("link %q, %v", link, err)
	}
}

// TestWrittenMeanwhile: what another program writes while our file is being made is
// not overwritten.
func TestWrittenMeanwhile(t *testing.T) {
	r, dir := resolvDirs(t)
	write(t, r.Path, original)
	const theirs = "nameserver 192.0.2.99\n"
	err := replaceIf(r.Path, []byte(marker), 0o644, func() bool { write(t, r.Path, theirs); return false })
	left, _ := os.ReadDir(dir)
	if got := read(t, r.Path); !errors.Is(err, errWritten) || got != theirs ||
		slices.ContainsFunc(left, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }) {
		t.Errorf("%v, %q, left %v", err, got, left)
	}
}

// TestResolvedForgetsUs gives resolv.conf back to systemd-resolved, which looks at it
// when it is asked: it finds no server there but itself, and neither do applications
// that ask meanwhile.
func TestResolvedForgetsUs(t *testing.T) {
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 1)
	r, dir := resolvDirs(t)
	r.Stub = netip.MustParseAddrPort(pc.LocalAddr().String())
	resolved := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		b, _ := os.ReadFile(r.Path)
		seen <- string(b)
		_ = w.WriteMsg(new(dns.Msg).SetReply(q))
	})}
	go func() { _ = resolved.ActivateAndServe() }()
	t.Cleanup(func() { _ = resolved.Shutdown() })
	link := filepath.Join(dir, "systemd", "resolve", "stub-resolv.conf")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, link, "nameserver 127.0.0.53\n")
	if err := os.Symlink(link, r.Path); err != nil {
		t.Fatal(err)
	}
	take(t, r)
	release(t, r)
	select {
	case got := <-seen:
		if want := marker + "\nnameserver 127.0.0.1\n"; got != want {
			t.Errorf("resolved was shown %q, want %q", got, want)
		}
	default:
		t.Error("resolved was not asked")
	}
	if to, err := os.Readlink(r.Path); err != nil || to != link {
		t.Errorf("link %q, %v", to, err)
	}
}

// TestRestoreLeavesWhatIsNew: another program writes the file while systemd-resolved
// is made to forget us.
func TestRestoreLeavesWhatIsNew(t *testing.T) {
	pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r, dir := resolvDirs(t)
	r.Stub = netip.MustParseAddrPort(pc.LocalAddr().String())
	const theirs = "nameserver 192.0.2.99\n"
	resolved := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		_ = os.WriteFile(r.Path, []byte(theirs), 0o644)
		_ = w.WriteMsg(new(dns.Msg).SetReply(q))
	})}
	go func() { _ = resolved.ActivateAndServe() }()
	t.Cleanup(func() { _ = resolved.Shutdown() })
	link := filepath.Join(dir, "systemd", "resolve", "stub-resolv.conf")
	if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.WriteFile(link, []byte(original), 0o644),
		os.Symlink(link, r.Path)); err != nil {
		t.Fatal(err)
	}
	take(t, r)
	release(t, r)
	if got := read(t, r.Path); got != theirs {
		t.Errorf("overwritten with %q", got)
	}
}
