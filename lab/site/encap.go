package site

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"roam/lab/topo"
)

// tunnels are the upper-layer protocols and extension headers that carry or steer packets: IPv4, IPv6, the Routing
// header (segment routing), GRE, ESP, EtherIP, L2TP and MPLS.
var tunnels = []int{4, 41, 43, 47, 50, 97, 115, 137}

// tunnelPorts are the UDP ports of tunnels: L2TP, GTP-U, Teredo, ESP, GRE, VXLAN, Geneve, MPLS and WireGuard.
var tunnelPorts = []int{1701, 2152, 3544, 4500, 4754, 4789, 6081, 6635, 51820}

// Encapsulations are how many ways to encapsulate a packet SendEncapsulated uses: each protocol of tunnels by itself
// and behind destination options, each port, and IPv6 and IPv4 in UDP between other ports.
var Encapsulations = 2*len(tunnels) + len(tunnelPorts) + 4

// EncapsulationFilter selects for a capture what has another packet in it, or a Routing header: by protocol, also
// behind one header of options, by UDP port, and whatever begins with an IP header in UDP as long as that says.
func EncapsulationFilter() string {
	var or []string
	for _, p := range tunnels {
		or = append(or, fmt.Sprintf("ip6[6] = %d", p), fmt.Sprintf("(ip6[6] = 60 or ip6[6] = 0) and ip6[40] = %d", p))
	}
	for _, udp := range []struct {
		at   int
		when string
	}{{40, "ip6[6] = 17"}, {48, "ip6[6] = 60 and ip6[40] = 17 and ip6[41] = 0"}} {
		for _, p := range tunnelPorts {
			or = append(or, fmt.Sprintf("%s and (ip6[%d:2] = %d or ip6[%d:2] = %[3]d)", udp.when, udp.at, p, udp.at+2))
		}
		or = append(or,
			fmt.Sprintf("%s and ip6[%d] & 0xf0 = 0x60 and ip6[%d:2] + 48 = ip6[%d:2]", udp.when, udp.at+8, udp.at+12, udp.at+4),
			fmt.Sprintf("%s and ip6[%d] & 0xf0 = 0x40 and ip6[%d:2] + 8 = ip6[%d:2]", udp.when, udp.at+8, udp.at+10, udp.at+4))
	}
	return "(" + strings.Join(or, ") or (") + ")"
}

// SendEncapsulated has the near border send a packet of each kind to its first provider, the control of
// EncapsulationFilter.
func (s *Site) SendEncapsulated(ctx context.Context) error {
	device := func(h *topo.Host, ifname string) (dev *net.Interface, err error) {
		err = h.Do(func() (err error) { dev, err = net.InterfaceByName(ifname); return err })
		return dev, err
	}
	near, err := device(s.Router, "wan0")
	if err != nil {
		return err
	}
	far, err := device(s.Provider[0], "site")
	if err != nil {
		return err
	}
	return s.Router.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("send encapsulated packets: %w", err)
		}
		defer unix.Close(fd)
		for _, p := range encapsulated() {
			frame := slices.Concat(far.HardwareAddr, near.HardwareAddr, []byte{0x86, 0xdd}, p)
			to := unix.SockaddrLinklayer{Ifindex: near.Index, Protocol: 0xdd86}
			if err := unix.Sendto(fd, frame, 0, &to); err != nil {
				return fmt.Errorf("send encapsulated packets: %w", err)
			}
		}
		return nil
	})
}

// encapsulated are packets of each kind. Their hop limit ends at the provider.
func encapsulated() (list [][]byte) {
	inner := ip6Packet(59, nil) // no next header
	v4 := make([]byte, 20)
	v4[0], v4[3], v4[9] = 0x45, 20, 59
	add := func(next int, payload []byte) {
		options := []byte{byte(next), 0, 1, 4, 0, 0, 0, 0}
		list = append(list, ip6Packet(next, payload), ip6Packet(60, append(options, payload...)))
	}
	for _, p := range tunnels {
		payload := inner
		if p == 43 { // to its last destination, before the packet
			payload = append([]byte{41, 0, 4, 0, 0, 0, 0, 0}, inner...)
		}
		add(p, payload)
	}
	for _, p := range tunnelPorts {
		list = append(list, ip6Packet(17, udpDatagram(p, []byte{1, 2, 3, 4})))
	}
	add(17, udpDatagram(9, inner))
	add(17, udpDatagram(9, v4))
	return list
}

func ip6Packet(next int, payload []byte) []byte {
	b := make([]byte, 40, 40+len(payload))
	b[0], b[6], b[7] = 0x60, byte(next), 1
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	src, dst := Providers[0][0].Addr().As16(), External.Addr().As16()
	copy(b[8:], src[:])
	copy(b[24:], dst[:])
	return append(b, payload...)
}

func udpDatagram(port int, payload []byte) []byte {
	b := make([]byte, 8, 8+len(payload))
	binary.BigEndian.PutUint16(b, 9)
	binary.BigEndian.PutUint16(b[2:], uint16(port))
	binary.BigEndian.PutUint16(b[4:], uint16(8+len(payload)))
	return append(b, payload...)
}
