package hostnet

import (
	"encoding/binary"
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/hostnet/desired"
	"roam/internal/hostnet/nettest"
	"roam/internal/rawio"
	"roam/internal/testutil"
)

func session(n roam.NID) netip.Addr {
	return roam.ILV{NID: n, L64: roam.DefaultSessionPrefix}.Addr()
}

func setupIn(t *testing.T, h *Host) Device {
	t.Helper()
	d, err := h.Setup()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Open is called on the namespace's thread; Setup then works from any thread.
func TestSetupMakesTheSessionDevice(t *testing.T) {
	host := nettest.New(t)
	h := openIn(t, host, testConfig(t))
	d := setupIn(t, h)
	if d.Name != "roam0" || d.PeerName != "roam0x" || d.Index == 0 || d.PeerIndex == 0 || len(d.MAC) != 6 || d.MTU != 1500 {
		t.Errorf("device %+v", d)
	}
	link := host.Run("ip", "-o", "link", "show", "roam0")
	for _, want := range []string{"NOARP", "LOWER_UP", ",UP"} {
		if !strings.Contains(link, want) {
			t.Errorf("roam0 lacks %s: %s", want, link)
		}
	}
	if strings.Contains(link, "MULTICAST") {
		t.Errorf("roam0 speaks multicast: %s", link)
	}
	addrs := host.Run("ip", "-6", "-o", "addr", "show", "dev", "roam0")
	if strings.Count(addrs, "inet6") != 1 || !strings.Contains(addrs, session(testNID).String()+"/128") {
		t.Errorf("roam0 has other addresses than the session address: %s", addrs)
	}
	if out := host.Run("ip", "-6", "addr", "show", "dev", "roam0x"); out != "" {
		t.Errorf("roam0x has addresses: %s", out)
	}
	before := host.State()
	if again := setupIn(t, h); again.Index != d.Index {
		t.Errorf("second Setup made another device: %+v", again)
	}
	if after := host.State(); after != before {
		t.Errorf("second Setup changed the host:\n%s\nto\n%s", before, after)
	}
}

// Sockets towards session addresses start from our session address; plain ones
// never do.
func TestSocketsPickTheSessionAddress(t *testing.T) {
	host, router := hostAndRouter(t)
	h := openIn(t, host, testConfig(t))
	setupIn(t, h)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	router.Advertise("lan", advert(netA))
	next(t, h, present(netA))
	for dst, want := range map[netip.Addr]bool{
		session(0x0a0b_0c0d_0000_0001):            true,
		netip.MustParseAddr("2001:db8:ffff::1"):   false,
		netip.MustParseAddr("fd00:1:2:3::1"):      false,
		netip.MustParseAddr("fd69:6c6e:7001::99"): false,
	} {
		src, err := source(host, dst)
		if err != nil {
			t.Errorf("connect to %s: %v", dst, err)
		} else if got := src == session(testNID); got != want {
			t.Errorf("towards %s the source is %s, session address wanted: %v", dst, src, want)
		}
	}
}

// source returns what a connected UDP socket takes for its own address.
func source(n *nettest.NS, dst netip.Addr) (src netip.Addr, err error) {
	n.Do(func() {
		var fd int
		if fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return
		}
		defer unix.Close(fd)
		if err = unix.Connect(fd, &unix.SockaddrInet6{Addr: dst.As16(), Port: 9}); err != nil {
			return
		}
		var sa unix.Sockaddr
		if sa, err = unix.Getsockname(fd); err == nil {
			src = netip.AddrFrom16(sa.(*unix.SockaddrInet6).Addr)
		}
	})
	return src, err
}

func TestSegmentationOffloadStaysOn(t *testing.T) {
	host := nettest.New(t)
	h := openIn(t, host, testConfig(t))
	setupIn(t, h)
	on := h.kernel.features("roam0")
	for _, f := range []string{"tx-tcp6-segmentation", "tx-checksum-ip-generic", "tx-udp-segmentation", "tx-scatter-gather"} {
		if !on[f] {
			t.Errorf("roam0 lacks %s", f)
		}
	}
	testutil.Need(t, "ethtool")
	out := host.Run("ethtool", "-k", "roam0")
	for f := range on {
		if strings.Contains(out, f+": off") {
			t.Errorf("ethtool says that %s is off", f)
		}
	}
}

// Whoever meddles with the device is told of, and a restart mends it.
func TestMeddlingWithTheDevice(t *testing.T) {
	for _, meddle := range []string{"link set roam0 down", "addr flush dev roam0", "link del roam0"} {
		host := nettest.New(t)
		cfg := testConfig(t)
		h := openIn(t, host, cfg)
		setupIn(t, h)
		if err := h.Start(); err != nil {
			t.Fatal(err)
		}
		want := host.State()
		host.Run("ip", strings.Fields(meddle)...)
		next(t, h, func(e Trouble) bool { return e.LinkName == "roam0" && strings.Contains(e.Reason, "restart") })
		h.Close()
		setupIn(t, openIn(t, host, cfg))
		if got := host.State(); meddle != "link del roam0" && got != want {
			t.Errorf("%s, then a restart:\n%s\nwant\n%s", meddle, got, want)
		}
	}
}

func TestDeviceMTUFollowsTheUplinks(t *testing.T) {
	host, router := hostAndRouter(t)
	h := openIn(t, host, testConfig(t))
	setupIn(t, h)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	mtu := func(want string) func() bool {
		return func() bool { return strings.Contains(host.Run("ip", "-o", "link", "show", "roam0"), " mtu "+want+" ") }
	}
	router.Advertise("lan", advert(netA))
	testutil.Eventually(t, soon, mtu("1492"), "8 bytes for the option under 1500")
	a := advert(netA)
	a.MTU = 1400
	router.Advertise("lan", a)
	testutil.Eventually(t, soon, mtu("1392"), "the router's MTU counts")
	host.Run("ip", "link", "set", "upA", "mtu", "1280")
	testutil.Eventually(t, soon, mtu("1280"), "never under IPv6's minimum")
	host.Run("ip", "link", "set", "upA", "mtu", "9000")
	host.Sysctl("net/ipv6/conf/upA/mtu", "9000")
	router.Advertise("lan", advert(netA))
	testutil.Eventually(t, soon, mtu("1500"), "never over the default")
	if h.Device().MTU != 1500 {
		t.Errorf("Device says MTU %d", h.Device().MTU)
	}
}

// One destination's path MTU is forgotten, others' stay.
func TestFlushPMTU(t *testing.T) {
	host := nettest.New(t)
	h := openIn(t, host, testConfig(t))
	d := setupIn(t, h)
	one, two := session(0x11), session(0x12)
	for _, dst := range []netip.Addr{one, two} {
		tooBig(t, host, d, dst, 1300)
	}
	mtu := func(dst netip.Addr) bool {
		return strings.Contains(host.Run("ip", "-6", "route", "get", dst.String()), "mtu 1300")
	}
	testutil.Eventually(t, soon, func() bool { return mtu(one) && mtu(two) }, "path MTUs learned")
	if err := h.FlushPMTU(one); err != nil {
		t.Fatal(err)
	}
	if mtu(one) || !mtu(two) {
		t.Errorf("after the flush: %v, %v, want false, true", mtu(one), mtu(two))
	}
	if err := h.FlushPMTU(one); err != nil {
		t.Errorf("nothing to flush: %v", err)
	}
}

// tooBig makes the kernel learn a path MTU the way discovery does: an ICMPv6
// error about an echo request of ours arrives on roam0.
func tooBig(t *testing.T, n *nettest.NS, d Device, dst netip.Addr, mtu uint32) {
	t.Helper()
	own := session(testNID)
	body := binary.BigEndian.AppendUint32([]byte{2, 0, 0, 0}, mtu)
	body = append(body, packet(own, dst, []byte{128, 0, 0, 0, 0, 1, 0, 1})...)
	binary.BigEndian.PutUint16(body[2:], checksum(dst, own, body))
	var err error
	n.Do(func() {
		var s *rawio.Sender
		if s, err = rawio.Open(); err == nil {
			err = s.Inject(roam.LinkID(d.PeerIndex), d.MAC, packet(dst, own, body))
			s.Close()
		}
	})
	if err != nil {
		t.Fatalf("make the kernel learn a path MTU: %v", err)
	}
}

// packet puts an IPv6 header in front of an ICMPv6 message.
func packet(src, dst netip.Addr, body []byte) []byte {
	b := []byte{0x60, 0, 0, 0, byte(len(body) >> 8), byte(len(body)), unix.IPPROTO_ICMPV6, 64}
	s, d := src.As16(), dst.As16()
	return append(append(append(b, s[:]...), d[:]...), body...)
}

// checksum is that of RFC 4443 §2.3 over a message whose field is zero.
func checksum(src, dst netip.Addr, body []byte) uint16 {
	sum := uint32(len(body)) + unix.IPPROTO_ICMPV6
	s, d := src.As16(), dst.As16()
	for _, b := range [][]byte{s[:], d[:], body} {
		for i := 0; i+1 < len(b); i += 2 {
			sum += uint32(b[i])<<8 | uint32(b[i+1])
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

func TestRestoreLeavesTheHostAsItWas(t *testing.T) {
	host, router := hostAndRouter(t)
	router.Advertise("lan", advert(netA))
	settledAddress(t, host, "2001:db8:a:1:")
	before, dad := host.State(), host.ReadSysctl("net/ipv6/conf/upA/optimistic_dad")

	cfg := testConfig(t)
	h := openIn(t, host, cfg)
	setupIn(t, h)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	router.Advertise("lan", advert(netA))
	next(t, h, present(netA))
	during := host.State()
	if during == before {
		t.Fatal("the host did not change")
	}
	// A successor adopts what it finds.
	h.Close()
	if after := host.State(); !sameButFlags(after, during) {
		t.Errorf("Close changed the host:\n%s\nto\n%s", during, after)
	}
	successor := startIn(t, host, cfg)
	setupIn(t, successor)
	router.Advertise("lan", advert(netA))
	next(t, successor, present(netA))
	successor.Close()

	var err error
	host.Do(func() { err = Restore(cfg.JournalPath) })
	if err != nil {
		t.Fatal(err)
	}
	if after := host.State(); after != before {
		t.Errorf("after Restore:\n%s\nbefore:\n%s", after, before)
	}
	if got := host.ReadSysctl("net/ipv6/conf/upA/optimistic_dad"); got != dad {
		t.Errorf("optimistic_dad is %s, was %s", got, dad)
	}
	if _, err := os.Stat(cfg.JournalPath); !os.IsNotExist(err) {
		t.Errorf("journal still there: %v", err)
	}
	host.Do(func() { err = Restore(cfg.JournalPath) })
	if err != nil {
		t.Errorf("Restore of nothing: %v", err)
	}
}

// A process died while the sysctl was set, and its link and its address are
// another matter by now.
func TestRestoreAfterACrash(t *testing.T) {
	host, _ := hostAndRouter(t)
	settledAddress(t, host, "fe80::") // its route comes with the end of duplicate detection
	before := host.State()
	own := addrKey{host.Index("upA"), roam.ILV{NID: testNID, L64: netA}.Addr()}
	crash := func(path string) {
		j, err := loadJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		err = j.edit(nil, []entry{
			{ownerDevices, desired.Device{Name: "roam0", Peer: "roam0x"}, ""},
			{ownerLocators, desired.Address{Link: own.link, Addr: own.addr, Bits: 128}, ""},
			{ownerLocators, desired.Address{Link: 99, Addr: own.addr, Bits: 128}, ""},
			{ownerLocators, desired.Sysctl{Link: own.link, Param: optimisticDAD}, "0"},
			{ownerLocators, desired.Sysctl{Link: 99, Param: optimisticDAD}, "0"},
			{ownerLocators, desired.Sysctl{Name: "gone", Param: optimisticDAD}, "0"},
		})
		if err != nil {
			t.Fatal(err)
		}
		host.Sysctl("net/ipv6/conf/upA/optimistic_dad", "1")
		host.Run("ip", "addr", "add", own.addr.String()+"/128", "dev", "upA", "nodad", "noprefixroute")
	}
	dad := func() string { return host.ReadSysctl("net/ipv6/conf/upA/optimistic_dad") }

	cfg := testConfig(t)
	crash(cfg.JournalPath)
	var err error
	host.Do(func() { err = Restore(cfg.JournalPath) })
	if after := host.State(); err != nil || after != before || dad() != "0" {
		t.Errorf("Restore: %v, optimistic_dad %s\n%s\nwant\n%s", err, dad(), after, before)
	}

	// A successor repairs as well, and takes back an address without prefix.
	crash(cfg.JournalPath)
	startIn(t, host, cfg)
	testutil.Eventually(t, soon, func() bool { return host.State() == before && dad() == "0" }, "successor repaired the host")
}

// settledAddress waits until an address is past duplicate detection.
func settledAddress(t *testing.T, n *nettest.NS, prefix string) {
	t.Helper()
	testutil.Eventually(t, soon, func() bool {
		return strings.Contains(n.Run("ip", "-6", "addr", "show", "-tentative"), prefix) &&
			n.Run("ip", "-6", "addr", "show", "tentative") == ""
	}, "addresses of "+prefix+" past duplicate detection")
}

// sameButFlags compares states without what duplicate detection changes.
func sameButFlags(a, b string) bool {
	strip := func(s string) string {
		for _, w := range []string{" tentative", " optimistic", " dynamic", "\\"} {
			s = strings.ReplaceAll(s, w, "")
		}
		return strings.Join(strings.Fields(s), " ")
	}
	return strip(a) == strip(b)
}

// An interface of the same name that is not ours is refused and left alone.
func TestForeignDeviceIsRefused(t *testing.T) {
	host := nettest.New(t)
	host.Run("ip", "link", "add", "roam0", "type", "veth", "peer", "name", "other")
	h := openIn(t, host, testConfig(t))
	_, err := h.Setup()
	if err == nil || !strings.Contains(err.Error(), "roam0") {
		t.Errorf("error %v does not name the device", err)
	}
	var restored error
	host.Do(func() { restored = Restore(h.state.journal.path) })
	if out, err := host.Try("ip", "link", "show", "roam0"); restored != nil || err != nil {
		t.Errorf("Restore (%v) took somebody else's interface: %s", restored, out)
	}
}
