package acceptance

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/node"
	"roam/nidkey"
	ilnpwire "roam/wire/ilnp"
)

// TestKeysAmiss has hosts that are paired by key get into trouble with their files and clocks: a key that a second
// host has as well, a file of peers that cannot be read, clocks that were set while no daemon ran.
func TestKeysAmiss(t *testing.T) {
	w := newWorld(t, "amiss", 2*time.Millisecond,
		place{"mn", 1, true}, place{"second", 1, true}, place{"cn", 1, false}, place{"other", 1, false},
		place{"bare", 1, false})
	if err := w.hosts["bare"].AddAddr("net1", netip.PrefixFrom(w.wire("bare", 1), 128)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mn", "cn", "other", "bare"} { // second has none
		w.echo(t, name, claimPort)
	}
	mn, cn, other := w.newHost("mn", added).start(), w.newHost("cn", added).start(), w.newHost("other", added).start()
	if err := node.PairKeys(t.Context(), mn.Node, cn.Node, other.Node); err != nil {
		t.Fatal(err)
	}
	reconnects(t, w, "mn", "cn")
	reconnects(t, w, "mn", "other")
	w.sub("a copied key", func(t *testing.T) { copiedKey(t, w, mn, cn) })
	w.sub("a file of peers that cannot be read", func(t *testing.T) { unreadablePeers(t, w, mn) })
	w.sub("clocks", func(t *testing.T) { clocks(t, w, mn, cn, other) })
}

// added are settings of hosts whose peers are all added.
var added = settings{accept: "known", hosts: "# none\n"}

// copiedKey starts a host with the key and the Node Identifier of another one, whose session goes on. The peer has the
// newcomer under an alias, keeps the name where it was, and tells both.
func copiedKey(t *testing.T, w *world, mn, cn *host) {
	u := w.udp(t, "mn", "cn", "cn", 7000, 200)
	mn.proved("cn")
	began, before := time.Now(), cn.with("mn")
	second := w.newHost("second", settings{accept: added.accept, hosts: added.hosts, nid: w.nid("mn")})
	state := func(h *host) string { return filepath.Join(h.Host.Dir(), "state") }
	if err := os.CopyFS(state(second), os.DirFS(state(mn))); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(state(second), "key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := second.LoseSessions(); err != nil {
		t.Fatal(err)
	}
	second.start()
	w.talk(t, "second", "tcp6", "cn", claimPort).echoed(t, "from the copy")
	testutil.Eventually(t, patience, func() bool {
		out, _, _ := cn.command("doctor", "mn")
		return strings.Contains(out, "two hosts have proven the key of mn: one at "+l64(w, "second", 1).String())
	}, "cn says that two hosts have the key")
	for _, h := range []*host{mn, second} {
		testutil.Eventually(t, patience, func() bool {
			out, _, _ := h.command("doctor")
			log, err := os.ReadFile(h.Log)
			return strings.Contains(out, "two hosts have proven the key of this one to cn") && err == nil &&
				strings.Contains(string(log), "msg=key-copied")
		}, h.name+" is told that two hosts have its key")
	}
	w.talk(t, "cn", "tcp6", "mn", claimPort).echoed(t, "to the first one")
	after := cn.with("mn")
	if after.Address != w.session("mn") || !after.Since.Equal(before.Since) || after.InUse == nil ||
		after.InUse.Remote != l64(w, "mn", 1) {
		t.Errorf("the session with the name was %+v\nand is %+v", before, after)
	}
	w.lossless(t, u, began)
	second.down()
}

// unreadablePeers has a daemon start that cannot read what it knows of its peers. Those of the run before stay guarded,
// and the others go on by key.
func unreadablePeers(t *testing.T, w *world, mn *host) {
	bare := w.session("bare").String()
	k, err := nidkey.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	mn.roam("add", strings.Replace(strings.TrimSpace(w.hostsFile("bare")), " bare", " key="+k.Public.String()+" bare", 1))
	file := filepath.Join(mn.Host.Dir(), "state", "peers")
	again := func() {
		t.Helper()
		mn.signal(syscall.SIGTERM)
		mn.start()
	}
	for _, err := range []error{os.Rename(file, file+".away"), os.Mkdir(file, 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	again()
	if out, _, _ := mn.command("doctor"); !strings.Contains(out, "see that it is a file that root can read") {
		t.Errorf("doctor does not name the file: %s", out)
	}
	plain := mn.counter("tx_plain")
	if c := w.talk(t, "mn", "tcp6", bare, claimPort); c.connected() {
		t.Errorf("a connection to a guarded peer without ILNP: %s", c.out.text())
	}
	w.talk(t, "mn", "tcp6", w.session("cn").String(), claimPort).echoed(t, "by key")
	mn.proved("cn")
	if n := mn.counter("tx_plain") - plain; n != 0 || mn.counter("tx_retried") != 0 {
		t.Errorf("%d packets left as plain IPv6", n)
	}
	for _, err := range []error{os.Remove(file), os.Rename(file+".away", file)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	again()
}

// clocks starts daemons whose clocks were set. Each time mn connects by key, and its peer after it. Within a minute no
// peer lets two proofs replace a session that lives, so mn loses its state twice, towards one peer each.
func clocks(t *testing.T, w *world, mn, cn, other *host) {
	const year = 365 * 24 * time.Hour
	another := node.Binaries{Roam: binaries.Roam, Roamd: roamdOfAnotherClock(t)}
	tap := w.tap(t, w.r1, "core", "ip6 proto 60")
	challenges := func() int {
		return tap.count(func(p ilnpwire.Packet) bool { return p.Proof != nil && p.Proof.Step == ilnpwire.ProofChallenge })
	}
	for _, c := range []struct {
		what  string
		ahead time.Duration
		lose  []*host // their states as well
		peer  *host
	}{
		{"forward a year, state kept", year, nil, cn},
		{"forward a year", year, []*host{mn}, cn},
		{"1970", time.Until(time.Unix(3, 0)), []*host{mn}, other},
		{"back a year, at both", -year, []*host{mn, cn}, cn},
	} {
		t.Setenv(aheadEnv, strconv.Itoa(int(c.ahead/time.Second)))
		had := challenges()
		if c.lose == nil {
			mn.signal(syscall.SIGTERM)
			mn.Use(another)
			mn.start()
		}
		for _, h := range c.lose {
			h.down()
			if err := h.Forget(); err != nil {
				t.Fatal(err)
			}
			h.Use(another)
			h.start()
		}
		began := time.Now()
		reconnects(t, w, "mn", c.peer.name)
		t.Logf("%s: connected after %v, %d challenges", c.what, time.Since(began).Round(time.Millisecond), challenges()-had)
		mn.proved(c.peer.name)
		c.peer.proved("mn")
		reconnects(t, w, c.peer.name, "mn")
		if n := challenges() - had; (n > 0) != (c.lose != nil) {
			t.Errorf("%s: %d challenges", c.what, n)
		}
	}
}

// aheadEnv is by how many seconds the clock of a daemon is ahead that roamdOfAnotherClock has built.
const aheadEnv = "ROAM_CLOCK_AHEAD"

// setClock tells the time of a clock that was set: its wall clock differs by so much, and its monotonic one does not.
// Times with a monotonic reading have the seconds of the wall clock above 30 bits of nanoseconds.
const setClock = `package loop

import (
	"os"
	"strconv"
	"time"
	"unsafe"
)

var ahead, _ = strconv.ParseInt(os.Getenv("` + aheadEnv + `"), 10, 64)

func setClock() time.Time {
	t := time.Now()
	*(*uint64)(unsafe.Pointer(&t)) += uint64(ahead) << 30
	return t
}
`

// roamdOfAnotherClock builds a roamd whose engine has the clock of setClock, and returns its path.
func roamdOfAnotherClock(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../internal/loop")
	if err != nil {
		t.Fatal(err)
	}
	const system = "\t\tclock = time.Now\n"
	b, err := os.ReadFile(filepath.Join(dir, "loop.go"))
	if err != nil || strings.Count(string(b), system) != 1 {
		t.Fatalf("the clock of the loop: %v", err)
	}
	out := t.TempDir()
	replace := map[string]string{}
	for name, text := range map[string]string{
		"loop.go": strings.Replace(string(b), system, "\t\tclock = setClock\n", 1), "setclock.go": setClock,
	} {
		replace[filepath.Join(dir, name)] = filepath.Join(out, name)
		if err := os.WriteFile(filepath.Join(out, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file, roamd := filepath.Join(out, "overlay.json"), filepath.Join(out, "roamd")
	if err := os.WriteFile(file, overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("../../build/with-go", "go", "build", "-ldflags", "-s -w", "-overlay", file, "-o", roamd,
		"roam/cmd/roamd")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("build a roamd of another clock: %w\n%s", err, out))
	}
	return roamd
}
