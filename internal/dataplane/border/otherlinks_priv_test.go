package border

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/testutil"
	"roam/wire/ip6"
)

// tagged puts a packet on the far end of a link, behind a VLAN tag or to another hardware address.
func (n *network) tagged(name string, mac [6]byte, tag []byte, packet []byte) {
	n.Helper()
	frame := append(append(append(append(mac[:], 2, 0, 0, 0, 0, 2), tag...), 0x86, 0xdd), packet...)
	n.must(unix.Sendto(n.fds[name], frame, 0, &unix.SockaddrLinklayer{Ifindex: n.device(name + "x").Index}))
}

// listen opens a socket for all frames of a device, with their VLAN tags: the kernel takes these off
// before it passes a packet on by its protocol.
func (n *network) listen(device string) (fd int) {
	n.Helper()
	const all = 0x0300 // in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, all)
	n.must(err)
	n.Cleanup(func() { unix.Close(fd) })
	n.must(unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: n.device(device).Index}))
	n.must(unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1))
	return fd
}

// vlanOf waits for the next datagram from that locator, and reports whether it has a VLAN tag.
func (n *network) vlanOf(fd int, from roam.L64) (tag bool) {
	n.Helper()
	b, aside := make([]byte, 2000), make([]byte, 200)
	testutil.Eventually(n.T, 5*time.Second, func() bool {
		for {
			size, asideLen, _, _, err := unix.Recvmsg(fd, b, aside, 0)
			if err != nil {
				return false
			}
			if size < 54 || source(b[14:size]) != from || b[14+6] != ip6.UDP {
				continue
			}
			list, err := unix.ParseSocketControlMessage(aside[:asideLen])
			n.must(err)
			const vlanValid = 1 << 4 // in the status of struct tpacket_auxdata
			tag = len(list) > 0 && list[0].Data[0]&vlanValid != 0
			return true
		}
	}, "a datagram")
	return tag
}

// Packets of a VLAN of a link, and those to another hardware address, are not the link's: they pass
// as they are, are counted, and do not cross the border. A tag that has a priority alone is taken off.
func TestOtherLinks(t *testing.T) {
	n := newNetwork(t, false)
	site := roam.ILV{L64: siteA, NID: insideNID}
	n.confirmOver(site)
	n.must(n.Announce(theKey, n.table, []roam.L64{siteA}))
	outside := n.listen("wan0x")
	mac := func(name string) (m [6]byte) {
		copy(m[:], n.device(name).HardwareAddr)
		return m
	}
	datagram := transport(t, ip6.UDP, 1, 2)
	inside := n.echo(theirs, site, inward, true, 9, 56)
	other := [6]byte{2, 0, 0, 0, 0, 0x77}
	for _, c := range []struct {
		name, link string
		mac        [6]byte
		tag        []byte
		packet     []byte
	}{
		{"a VLAN inside", "lan", mac("lan"), []byte{0x81, 0, 0, 5}, datagram},
		{"a VLAN outside", "wan0", mac("wan0"), []byte{0x81, 0, 0, 5}, inside},
		{"another router's, inside", "lan", other, nil, datagram},
		{"another router's, outside", "wan0", other, nil, inside},
	} {
		before := n.counts()
		n.tagged(c.link, c.mac, c.tag, c.packet)
		testutil.Eventually(t, 5*time.Second, func() bool {
			return n.counter("pass_other_link") == before["pass_other_link"]+1
		}, c.name+" is counted")
		for _, name := range []string{"tx_flow", "tx_fallback", "rx_flow", "rx_fallback"} {
			if got := n.counter(name); got != before[name] {
				t.Errorf("%s: %s counts %d, want %d", c.name, name, got, before[name])
			}
		}
	}
	for _, tag := range [][]byte{nil, {0x81, 0, 0x60, 0}} {
		n.tagged("lan", mac("lan"), tag, datagram)
		if n.vlanOf(outside, siteA) {
			t.Errorf("tag %x leaves", tag)
		}
	}
}
