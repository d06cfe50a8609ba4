package linkem

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	vnetLen = 10 // struct virtio_net_hdr, in front of each frame
	ethLen  = 14
	// maxFrame fits the largest GSO frame (64 KiB of payload in one IPv6 packet) and
	// headers.
	maxFrame = vnetLen + ethLen + 4 + 65536 + 1024
	// txQueue is the length of the device's own queue, which absorbs the kernel's packets
	// while the reading thread does not run. The pipe emulates the link's queue, so this
	// one must never drop.
	txQueue = 4096
)

// Tap is a TAP device: one end of a link.
type Tap struct {
	name  string
	fd    int
	whole bool
}

// OpenTap creates a TAP device in the network namespace of the calling
// thread; it stays there. The device is down and has carrier.
func OpenTap(name string) (*Tap, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open tap %s: %w", name, err)
	}
	t := &Tap{name: name, fd: fd}
	if err := t.configure(); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("open tap %s: %w", name, err)
	}
	return t, nil
}

func (t *Tap) configure() error {
	ifr, err := unix.NewIfreq(t.name)
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(t.fd, unix.TUNSETIFF, ifr); err != nil {
		return fmt.Errorf("create device: %w", err)
	}
	if err := unix.IoctlSetPointerInt(t.fd, unix.TUNSETVNETHDRSZ, vnetLen); err != nil {
		return fmt.Errorf("set header size: %w", err)
	}
	if err := t.setWhole(true); err != nil {
		return err
	}
	return t.setQueueLen(txQueue)
}

// setQueueLen sets the device's queue length. The ioctl needs a socket in the device's
// namespace, where the calling thread still is.
func (t *Tap) setQueueLen(n uint32) error {
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("set queue length: %w", err)
	}
	defer unix.Close(s)
	ifr, err := unix.NewIfreq(t.name)
	if err != nil {
		return err
	}
	ifr.SetUint32(n)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFTXQLEN, ifr); err != nil {
		return fmt.Errorf("set queue length: %w", err)
	}
	return nil
}

// setWhole says whether the device hands over GSO frames as one, with their
// checksums open, or has the kernel cut and finish them.
func (t *Tap) setWhole(on bool) error {
	if on == t.whole {
		return nil
	}
	flags := 0
	if on {
		const tcp = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN
		flags = tcp | unix.TUN_F_USO4 | unix.TUN_F_USO6
		if unix.IoctlSetInt(t.fd, unix.TUNSETOFFLOAD, flags) == nil {
			t.whole = true
			return nil
		}
		flags = tcp // kernels before 6.2 know no USO
	}
	if err := unix.IoctlSetInt(t.fd, unix.TUNSETOFFLOAD, flags); err != nil {
		return fmt.Errorf("set offloads of %s: %w", t.name, err)
	}
	t.whole = on
	return nil
}

// setCarrier makes the device gain or lose carrier.
func (t *Tap) setCarrier(on bool) error {
	v := 0
	if on {
		v = 1
	}
	if err := unix.IoctlSetPointerInt(t.fd, unix.TUNSETCARRIER, v); err != nil {
		return fmt.Errorf("set carrier of %s: %w", t.name, err)
	}
	return nil
}

// Close removes the device. One that vanished with its namespace is no error.
func (t *Tap) Close() error {
	if t.fd < 0 {
		return nil
	}
	err := unix.Close(t.fd)
	t.fd = -1
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("close tap %s: %w", t.name, err)
	}
	return nil
}

// isControl reports whether an Ethernet frame carries an IP packet of class
// CS6.
func isControl(frame []byte) bool {
	const cs6 = 48
	if len(frame) < ethLen+2 {
		return false
	}
	ip := frame[ethLen:]
	switch uint16(frame[12])<<8 | uint16(frame[13]) {
	case unix.ETH_P_IPV6:
		return (ip[0]&0x0f)<<2|ip[1]>>6 == cs6
	case unix.ETH_P_IP:
		return ip[1]>>2 == cs6
	}
	return false
}
