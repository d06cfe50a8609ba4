package acceptance

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	ilnpwire "roam/wire/ilnp"
)

// TestKeys pairs two hosts by key. A soft handoff loses nothing, and somebody on the path who
// reads the nonce cannot move the session, neither by a Locator Update nor by data.
func TestKeys(t *testing.T) {
	w := newWorld(t, "keys", 2*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	w.cable("mn", "net2", false)
	mn, cn := w.newHost("mn", settings{accept: "known"}).start(), w.newHost("cn", settings{accept: "known"}).start()
	mn.becomes("net1")
	for _, pair := range [][2]*host{{mn, cn}, {cn, mn}} {
		pair[0].roam("key", "new")
		line := strings.TrimSpace(pair[0].roam("export"))
		if !strings.HasPrefix(line, "roam2:") {
			t.Fatalf("export prints %q", line)
		}
		if old := pair[0].roam("export", "--v1"); !strings.HasPrefix(old, "roam1:") {
			t.Errorf("export --v1 prints %q", old)
		}
		out := pair[1].roam("add", line, "--as", pair[0].name)
		t.Logf("%s adds %s: %s", pair[1].name, pair[0].name, out)
	}
	f := &forgery{w: w, mn: mn, cn: cn, tap: w.tap(t, w.r1, "core"), inject: w.injector(t, "r1")}
	f.cnWire = roam.ILVFromAddr(w.wire("cn", 1))
	for n := range f.mnWire {
		f.mnWire[n] = roam.ILVFromAddr(w.wire("mn", n+1))
	}
	began := time.Now()
	u := w.udp(t, "mn", "cn", "cn", 7000, 500)
	c := w.tcp(t, "mn", "cn", "cn", 7101, true)
	cn.reaches("mn", "established")
	mn.reaches("cn", "established")
	for _, h := range []*host{mn, cn} {
		if out := h.roam("session", "show"); !strings.Contains(out, "keyed") || strings.Contains(out, "have none") {
			t.Errorf("%s shows\n%s", h.name, out)
		}
	}
	mn.proved("cn")
	cn.proved("mn")
	w.sub("soft handoff", func(t *testing.T) {
		w.cable("mn", "net2", true)
		mn.becomes("net2")
		mn.sendsFrom("cn", "net2")
		testutil.Eventually(t, patience, func() bool {
			s := cn.with("mn")
			return len(s.Paths) == 1 && s.Paths[0].Remote == l64(w, "mn", 2)
		}, "cn sends to mn's new locator")
		flows(t, u, 50)
		flows(t, c, 50)
	})
	w.must("mn", "ping", "-6", "-c", "2", "-i", "0.2", "-W", "3", "cn")
	p, _ := f.tap.last("a ping with nonce", func(p ilnpwire.Packet) bool {
		return p.Src.NID == f.mnWire[0].NID && p.Nonce.Present() && p.Type == ilnpwire.TypeEchoRequest
	})
	f.mnNonce = p.Nonce
	w.sub("forged on the path", f.keyed)
	w.lossless(t, u, began)
	if _, err := c.Stop(w.within(patience)); err != nil {
		t.Error(err)
	}
	for _, h := range []*host{mn, cn} {
		secretFree(t, h)
	}
}

// proved waits until a session shows that its peer has proven its key.
func (h *host) proved(peer string) {
	h.w.t.Helper()
	testutil.Eventually(h.w.t, patience, func() bool {
		s := h.with(peer)
		return s.State == "established" && s.Proved && s.Proof == "keyed"
	}, h.name+" shows that "+peer+" has proven its key")
}

// TestProof has a keyed host contact another one from a network that no line lists.
// First packets of another node in its name wait with the daemon.
func TestProof(t *testing.T) {
	w := newWorld(t, "proof", 2*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	w.cable("mn", "net2", false)
	mn, cn := w.newHost("mn", settings{accept: "known"}).start(), w.newHost("cn", settings{accept: "known"}).start()
	mn.becomes("net1")
	for _, pair := range [][2]*host{{mn, cn}, {cn, mn}} {
		pair[0].roam("key", "new")
		pair[1].roam("add", strings.TrimSpace(pair[0].roam("export")), "--as", pair[0].name)
	}
	w.cable("mn", "net2", true)
	mn.becomes("net2")
	w.cable("mn", "net1", false)
	f := &forgery{w: w, mn: mn, cn: cn, tap: w.tap(t, w.r1, "core"), inject: w.injector(t, "r1")}
	f.cnWire = roam.ILVFromAddr(w.wire("cn", 1))
	for n := range f.mnWire {
		f.mnWire[n] = roam.ILVFromAddr(w.wire("mn", n+1))
	}
	other, err := ilnpwire.NewNonce([]byte{6, 6, 6, 6})
	if err != nil {
		t.Fatal(err)
	}
	header, err := other.AppendHeader(nil, 17)
	if err != nil {
		t.Fatal(err)
	}
	f.counted(t, cn, "a first packet in mn's name, from where its line has it", "rx_held", func() {
		f.inject.send(f.raw(f.mnWire[0], f.cnWire, 60, append(header, datagram()...)))
	})
	began := time.Now()
	u := w.udp(t, "mn", "cn", "cn", 7000, 500)
	mn.proved("cn")
	cn.proved("mn")
	w.lossless(t, u, began)
	if s := cn.with("mn"); s.Address != w.session("mn") {
		t.Errorf("cn has mn under another name: %+v", s)
	}
	_, offer := f.tap.last("an offer of mn", func(p ilnpwire.Packet) bool {
		return p.Src.NID == f.mnWire[0].NID && p.Proof != nil && p.Proof.Step == ilnpwire.ProofOffer
	})
	f.counted(t, cn, "a replayed probe and offer", "core_refused_proof", func() {
		f.inject.send(append(offer[:len(offer):len(offer)], nil...))
		m := append([]byte(nil), offer...)
		m[len(m)-40] ^= 1 // its MAC
		f.inject.send(m)
	})
}

// keyed has an attacker at another place of the path send updates and data in mn's name.
func (f *forgery) keyed(t *testing.T) {
	const elsewhere roam.L64 = 0x2001_0db8_0bad_0001
	there := roam.ILV{NID: f.mnWire[0].NID, L64: elsewhere}
	list := []ilnpwire.LocatorEntry{entry(elsewhere, 0, 600)}
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Locators: list}
	build := func(src roam.ILV, seal *ilnpwire.Seal) []byte {
		b, err := ilnpwire.BuildUpdate(src, f.cnWire, f.mnNonce, lu)
		if seal != nil {
			b, err = ilnpwire.BuildSealed(src, f.cnWire, f.mnNonce, lu, *seal)
		}
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	before := f.cn.with("mn")
	far := &ilnpwire.Seal{Counter: 1 << 63}
	encap, err := ilnpwire.Encapsulate(build(f.mnWire[1], far), 6740)
	if err != nil {
		t.Fatal(err)
	}
	_, replayed := f.tap.last("an update of mn", updateFrom(f.mnWire[0].NID, ilnpwire.Advertisement))
	for _, c := range []struct {
		what, counter string
		packet        []byte
	}{
		{"the right nonce from mn's address, no MAC", "core_refused_locator_update_without_mac", build(f.mnWire[1], nil)},
		{"the right nonce from elsewhere, no MAC", "core_refused_locator_update_without_mac", build(there, nil)},
		{"a MAC made up", "core_refused_locator_update_with_a_wrong_mac", build(f.mnWire[1], far)},
		{"the same in UDP", "core_refused_locator_update_with_a_wrong_mac", encap},
		{"replayed", "core_refused_locator_update_that_is_old", replayed},
	} {
		f.counted(t, f.cn, c.what, c.counter, func() { f.inject.send(c.packet) })
	}
	nonce, err := f.mnNonce.AppendHeader(nil, 17)
	if err != nil {
		t.Fatal(err)
	}
	f.counted(t, f.cn, "data with the right nonce from elsewhere", "drop_unknown_locator", func() {
		f.inject.send(f.raw(there, f.cnWire, 60, append(nonce, datagram()...)))
	})
	after := f.cn.with("mn")
	same := len(after.Paths) == len(before.Paths) && after.Paths[0].Remote == before.Paths[0].Remote
	if !same || after.Proof != "keyed" || !after.Since.Equal(before.Since) {
		t.Errorf("session before: %+v\nafter: %+v", before, after)
	}
	for _, l := range after.Locators {
		if l.L64 == elsewhere {
			t.Error("cn has learned the forged locator")
		}
	}
}

// secretFree looks for the private key in all that a host has written or prints.
func secretFree(t *testing.T, h *host) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(h.Host.Dir(), "state", "key"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(file), "private ")
	private, _, _ := strings.Cut(rest, "\n")
	if len(private) != 43 {
		t.Fatalf("the key file has no private key of 43 characters")
	}
	var all strings.Builder
	for _, args := range [][]string{
		{"key", "show"}, {"key", "show", "--json"}, {"session", "show", "--json"}, {"counter", "--json"},
		{"peer", "show"}, {"--json"}, {"config", "show"}, {"export", "--json"},
	} {
		all.WriteString(h.roam(args...))
	}
	state := filepath.Join(h.Host.Dir(), "state")
	for _, name := range []string{
		h.Log, filepath.Join(h.RunDir(), "sessions"), filepath.Join(state, "sessions"), filepath.Join(state, "peers"),
	} {
		b, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		all.Write(b)
	}
	if strings.Contains(all.String(), private) || !strings.Contains(all.String(), "keyed") {
		t.Errorf("%s has the private key in what it writes or prints", h.name)
	}
}
