package acceptance

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/workload"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// forgery is a world with a live session under load, an on-path attacker who reads the
// nonces, and packets with the mobile host's addresses.
type forgery struct {
	w       *world
	mn, cn  *host
	tap     *wiretap
	inject  *injector
	mnNonce ilnpwire.Nonce // mn's nonce towards cn
	mnWire  [2]roam.ILV    // on both links
	cnWire  roam.ILV
	udp     *workload.UDP
	began   time.Time
}

// TestForgery sends forbidden packets to a host with a live session: the host refuses each
// with a counter, or repairs the damage, and the session loses nothing.
func TestForgery(t *testing.T) {
	w := newWorld(t, "forgery", 2*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	f := &forgery{w: w, mn: w.newHost("mn", settings{}).start(), cn: w.newHost("cn", settings{}).start()}
	for n := range f.mnWire {
		f.mnWire[n] = roam.ILVFromAddr(w.wire("mn", n+1))
	}
	f.cnWire = roam.ILVFromAddr(w.wire("cn", 1))
	f.wide()
	f.tap = w.tap(t, w.r1, "core")
	f.inject = w.injector(t, "r1")
	f.began = time.Now()
	f.udp = w.udp(t, "mn", "cn", "cn", 7000, 500)
	f.mn.becomes("net2")
	f.cn.reaches("mn", "established")
	w.must("mn", "ping", "-6", "-c", "2", "-i", "0.2", "-W", "3", "cn")
	p, _ := f.tap.last("a ping with nonce", func(p ilnpwire.Packet) bool {
		return p.Src.NID == f.mnWire[0].NID && p.Nonce.Present() && p.Type == ilnpwire.TypeEchoRequest
	})
	f.mnNonce = p.Nonce
	before := f.cn.with("mn")
	w.sub("malformed and unauthentic", f.refused)
	w.sub("authentic but not to be followed", f.unfollowed)
	w.sub("from outside with session addresses", f.outside)
	w.sub("ICMPv6 errors without nonce", f.errors)
	w.sub("duplicates, replays and extremes are repaired", f.repaired)
	after := f.cn.with("mn")
	if !after.Since.Equal(before.Since) || after.State != before.State || after.Dead {
		t.Errorf("session before: %+v\nsession after: %+v", before, after)
	}
	w.lossless(t, f.udp, f.began)
}

// wide lets packets of 4000 bytes pass everywhere: no Locator Update is
// fragmented.
func (f *forgery) wide() {
	for _, at := range [][2]string{{"r0", "core"}, {"r1", "core"}, {"r1", "cn1"}, {"cn", "net1"}, {"r0", "mn1"},
		{"r0", "mn2"}, {"mn", "net1"}, {"mn", "net2"}} {
		f.w.must(at[0], "ip", "link", "set", at[1], "mtu", "4000")
	}
}

// entry is a locator as an update lists it.
func entry(l roam.L64, preference uint16, lifetime uint32) ilnpwire.LocatorEntry {
	return ilnpwire.LocatorEntry{L64: l, Preference: uint32(preference), Lifetime: lifetime}
}

// update makes a Locator Update from mn's second link.
func (f *forgery) update(nonce ilnpwire.Nonce, entries ...ilnpwire.LocatorEntry) []byte {
	f.w.t.Helper()
	b, err := ilnpwire.BuildUpdate(f.mnWire[1], f.cnWire, nonce,
		ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Locators: entries})
	if err != nil {
		f.w.t.Fatal(err)
	}
	return b
}

// raw makes a packet of any header and payload between any addresses; the
// transport checksum is finished where there is one.
func (f *forgery) raw(src, dst roam.ILV, next uint8, payload []byte) []byte {
	f.w.t.Helper()
	h := ip6.Header{NextHeader: next, HopLimit: 64, Src: src.Addr(), Dst: dst.Addr()}
	b, err := h.AppendTo(nil)
	if err != nil {
		f.w.t.Fatal(err)
	}
	b = append(b, payload...)
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	_ = ip6.FinishL4(b) // malformed packets have none
	return b
}

// datagram is a UDP header and payload towards the flow's port.
func datagram() []byte {
	b := make([]byte, 8+20)
	binary.BigEndian.PutUint16(b, 4444)
	binary.BigEndian.PutUint16(b[2:], 7000)
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
	return b
}

// damaged changes the payload of an update and makes its checksum good again.
func damaged(b []byte, change func(payload []byte) []byte) []byte {
	const at = ip6.HeaderLen + 8 // behind a nonce of 4 bytes
	b = append(slices.Clone(b[:at]), change(slices.Clone(b[at:]))...)
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-ip6.HeaderLen))
	_ = ip6.FinishL4(b)
	return b
}

// counted sends a packet to cn and waits until one of the counters that begin
// with a name has grown.
func (f *forgery) counted(t *testing.T, n *host, what, counter string, send func()) {
	t.Helper()
	sum := func() (s uint64) {
		for name, v := range n.counters() {
			if strings.HasPrefix(name, counter) {
				s += v
			}
		}
		return s
	}
	before := n.counters()
	was := sum()
	send()
	if !testutil.Wait(3*time.Second, func() bool { return sum() > was }) {
		var grown []string
		for name, v := range n.counters() {
			if v > before[name] && !strings.HasPrefix(name, "tx_") && !strings.HasPrefix(name, "rx_") {
				grown = append(grown, name)
			}
		}
		t.Errorf("%s: %s did not grow; these did: %v", what, counter, grown)
	}
}

// refused sends packets that the host must refuse.
func (f *forgery) refused(t *testing.T) {
	wrong, _ := ilnpwire.NewNonce([]byte{1, 2, 3, 4})
	good := f.update(f.mnNonce, entry(f.mnWire[1].L64, 10, 600))
	strange := roam.ILV{L64: 0x2001_0db8_a0ff_0000, NID: f.mnWire[0].NID}
	option := func(nonces ...[]byte) []byte {
		var o []byte
		for _, n := range nonces {
			o = append(append(o, ilnpwire.OptionNonce, byte(len(n))), n...)
		}
		for (len(o)+2)%8 != 0 {
			o = append(o, 0) // Pad1
		}
		return append([]byte{17, byte((len(o)+2)/8 - 1)}, o...)
	}
	with := func(header []byte) []byte {
		return f.raw(f.mnWire[1], f.cnWire, ip6.DestOpts, append(header, datagram()...))
	}
	n := f.mnNonce.Value()
	for _, c := range []struct {
		what, counter string
		packet        []byte
	}{
		{"an update with a wrong nonce", "drop_update_no_session", f.update(wrong, entry(f.mnWire[0].L64, 10, 600))},
		{"an update without nonce", "drop_update_no_nonce", f.raw(f.mnWire[1], f.cnWire, ip6.ICMPv6, good[48:])},
		{"data with a wrong nonce", "drop_wrong_nonce", with(option([]byte{1, 2, 3, 4}))},
		{"two nonces", "drop_two_nonces", with(option(n, n))},
		{"a nonce of 8 bytes", "drop_nonce_length", with(option(append(slices.Clone(n), n...)))},
		{"an option longer than its header", "drop_malformed", with([]byte{17, 0, ilnpwire.OptionNonce, 200, 1, 2, 3, 4})},
		{"a header longer than its packet", "drop_malformed", with([]byte{17, 255, ilnpwire.OptionNonce, 4, 1, 2, 3, 4})},
		{"data from an unknown locator", "drop_unknown_locator", f.raw(strange, f.cnWire, 17, datagram())},
		{"an echo request without nonce", "drop_icmp_no_nonce", f.raw(f.mnWire[1], f.cnWire, ip6.ICMPv6,
			[]byte{128, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0})},
	} {
		f.counted(t, f.cn, c.what, c.counter, func() { f.inject.send(c.packet) })
	}
	f.logged(t, "counter=drop_two_nonces ",
		fmt.Sprintf(" interface=net1 source=%v destination=%v protocol=17 source_port=4444 destination_port=7000",
			f.mnWire[1].Addr(), f.cnWire.Addr()))
	f.logged(t, "counter=drop_icmp_no_nonce ", fmt.Sprintf(" source=%v destination=%v protocol=58 icmp_type=128",
		f.mnWire[1].Addr(), f.cnWire.Addr()))
}

// logged waits until cn's security log has a line with all of these words.
func (f *forgery) logged(t *testing.T, words ...string) {
	t.Helper()
	var lines []string
	if !testutil.Wait(patience, func() bool {
		b, _ := os.ReadFile(f.cn.Log)
		lines = slices.DeleteFunc(strings.Split(string(b), "\n"), func(l string) bool {
			return !strings.Contains(l, "security: ")
		})
		return slices.ContainsFunc(lines, func(l string) bool {
			return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(l, w) })
		})
	}) {
		t.Errorf("no line of the security log has %q:\n%s", words, strings.Join(lines, "\n"))
	}
}

// unfollowed holds updates with the right nonce and an impossible content.
func (f *forgery) unfollowed(t *testing.T) {
	good := f.update(f.mnNonce, entry(f.mnWire[1].L64, 10, 600), entry(f.mnWire[0].L64, 20, 600))
	with := func(l roam.L64) []byte {
		return f.update(f.mnNonce, entry(f.mnWire[1].L64, 10, 600), entry(l, 0, 600))
	}
	for _, c := range []struct {
		what, counter string
		packet        []byte
	}{
		{"no locators", "core_refused", damaged(good, func(b []byte) []byte { b[4] = 0; return b[:8] })},
		{"a multicast locator", "core_refused", with(0xff0e_0000_0000_0000)},
		{"a link-local locator", "core_refused", with(0xfe80_0000_0000_0000)},
		{"the loopback locator", "core_refused", with(0)},
		{"the session prefix as locator", "core_refused", with(roam.DefaultSessionPrefix)},
		{"an unknown code", "core_refused", damaged(good, func(b []byte) []byte { b[1] = 8; return b })},
		{"the unused code", "core_refused", damaged(good, func(b []byte) []byte { b[1] = 1; return b })},
		{"an unknown operation", "core_refused", damaged(good, func(b []byte) []byte { b[5] = 7; return b })},
		{"a truncated update", "core_refused", damaged(good, func(b []byte) []byte { return b[:len(b)-5] })},
		{"a count that lies", "core_refused", damaged(good, func(b []byte) []byte { b[4] = 200; return b })},
		{"bytes behind the last locator", "core_refused", damaged(good, func(b []byte) []byte {
			return append(b, 1, 2, 3, 4)
		})},
	} {
		f.counted(t, f.cn, c.what, c.counter, func() { f.inject.send(c.packet) })
	}
}

// outside sends session addresses over the wire.
func (f *forgery) outside(t *testing.T) {
	session := roam.ILVFromAddr(f.w.session("mn"))
	f.counted(t, f.cn, "a session address as source", "drop_session_outside", func() {
		f.inject.send(f.raw(session, f.cnWire, 17, datagram()))
	})
	ll, err := f.w.hosts["cn"].LinkLocal("net1")
	if err == nil {
		err = f.w.r1.AddRoute(netip.PrefixFrom(f.w.session("cn"), 128), ll, "cn1")
	}
	if err != nil {
		t.Fatal(err)
	}
	f.counted(t, f.cn, "a session address as destination", "drop_session_outside", func() {
		f.inject.send(f.raw(f.mnWire[1], roam.ILVFromAddr(f.w.session("cn")), 17, datagram()))
	})
}

// errors claims that mn cannot receive cn's packets.
func (f *forgery) errors(t *testing.T) {
	quoted := f.raw(f.cnWire, f.mnWire[1], 17, datagram())
	for what, m := range map[string]ilnpwire.ErrorMessage{
		"packet too big":      {Type: ilnpwire.TypePacketTooBig, Param: 1280, Quoted: quoted},
		"port unreachable":    {Type: ilnpwire.TypeUnreachable, Code: 4, Quoted: quoted},
		"parameter problem":   {Type: ilnpwire.TypeParameterProblem, Code: 2, Param: 42, Quoted: quoted},
		"nothing of a packet": {Type: ilnpwire.TypeUnreachable, Code: 0, Quoted: quoted[:44]},
	} {
		b, err := ilnpwire.BuildError(f.mnWire[1], f.cnWire, ilnpwire.Nonce{}, m)
		if err != nil {
			t.Fatal(err)
		}
		before := total(f.cn.counters())
		f.inject.send(b)
		if !testutil.Wait(3*time.Second, func() bool { return total(f.cn.counters()) > before }) {
			t.Errorf("%s: nothing was counted", what)
		}
	}
}

// total sums up what was refused.
func total(counters map[string]uint64) (n uint64) {
	for name, v := range counters {
		if strings.HasPrefix(name, "drop_") && !strings.HasSuffix(name, "handed_over") ||
			strings.HasPrefix(name, "core_refused") || strings.HasPrefix(name, "engine_refused") {
			n += v
		}
	}
	return n
}

// listed waits until cn has exactly mn's own locators again.
func (f *forgery) listed(t *testing.T, what string) {
	t.Helper()
	want := []roam.L64{l64(f.w, "mn", 1), l64(f.w, "mn", 2)}
	testutil.Eventually(t, patience, func() bool {
		var have []roam.L64
		s := f.cn.with("mn")
		for _, l := range s.Locators {
			if l.State == "active" || l.State == "valid" {
				have = append(have, l.L64)
			}
		}
		slices.Sort(have)
		return slices.Equal(have, want) && len(s.Paths) == 1 && s.Paths[0].Remote == want[1]
	}, "cn has the locators of mn again after "+what)
}

// repaired holds authentic updates that are not the newest of mn: cn has to
// follow and to acknowledge them, and mn has to tell its own set again.
func (f *forgery) repaired(t *testing.T) {
	acks := updateFrom(f.cnWire.NID, ilnpwire.Acknowledgement)
	many := []ilnpwire.LocatorEntry{entry(f.mnWire[1].L64, 10, 600), entry(f.mnWire[0].L64, 20, 600)}
	for i := len(many); i < ilnpwire.MaxLocators; i++ {
		many = append(many, entry(0x2001_0db8_0bad_0000+roam.L64(i), 100, 600))
	}
	// mn withdraws a link and takes it back: the update of the first is old then.
	f.mn.roam("locator", "disable", "net1")
	_, old := f.tap.last("an update without net1", func(p ilnpwire.Packet) bool {
		return updateFrom(f.mnWire[0].NID, ilnpwire.Advertisement)(p) && p.Payload[4] == 1
	})
	f.mn.roam("locator", "enable", "net1")
	f.mn.roam("locator", "disable", "net2")
	f.mn.roam("locator", "enable", "net2") // the newest leads again
	f.mn.becomes("net2")
	f.listed(t, "the way there")
	_, newest := f.tap.last("the newest update", updateFrom(f.mnWire[0].NID, ilnpwire.Advertisement))
	for _, c := range []struct {
		what   string
		packet []byte
		older  bool // mn receives an acknowledgement of another node
	}{
		{"a duplicate", newest, false},
		{"a replay", old, true},
		{"255 locators", f.update(f.mnNonce, many...), true},
		{"lifetime 0", f.update(f.mnNonce, entry(f.mnWire[1].L64, 10, 600), entry(f.mnWire[0].L64, 20, 0)), true},
		{"the longest lifetime", f.update(f.mnNonce, entry(f.mnWire[1].L64, 10, 65535), entry(f.mnWire[0].L64, 30, 65535)),
			true},
	} {
		was := f.tap.count(acks)
		send := func() { f.inject.send(c.packet) }
		if c.older {
			f.counted(t, f.mn, c.what, "core_refused", send)
		} else {
			send()
		}
		testutil.Eventually(t, patience, func() bool { return f.tap.count(acks) > was }, "acknowledgement of "+c.what)
		f.listed(t, c.what)
	}
}
