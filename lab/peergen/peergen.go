// Package peergen emulates thousands of ILNPv6 correspondents in one process: real packets
// to and from a TUN device of a router, with any number of identifiers behind it.
//
// It implements opening sessions, answering probes and Locator Updates, announcing locators
// of its own, and floods of forged packets. It omits decisions of a correspondent: it only
// answers. It is driven by benchmarks and experiments on the capacity of one host; it needs
// root.
package peergen

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/lab/topo"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// Prefix is where all the correspondents are; the router needs a route for it
// to the device, which Start makes.
var Prefix = netip.MustParsePrefix("2001:db8:f000::/36")

const (
	firstNID roam.NID = 0x1000_0000_c000_0000
	firstL64 roam.L64 = 0x2001_0db8_f000_0000
	// Networks is how many networks the correspondents are spread over.
	Networks = 16
	queueLen = 4096 // of the device: capacity while the reading thread does not run
)

// Options are the common properties of all correspondents.
type Options struct {
	Locators int      // of each correspondent, 1 to 250; announced in its session
	Target   roam.ILV // the host under test
	Port     uint16   // of a service there
}

// Counts are the packets that the peer generator received.
type Counts struct {
	Probes    int // answered
	Updates   int // Locator Updates, including retransmissions, acknowledged
	Acks      int // acknowledgements of its own updates
	Datagrams int
	Errors    int // ICMPv6 errors
}

// Generator is a running peer generator. Its methods may be called from any goroutine.
type Generator struct {
	opt  Options
	file *os.File

	mu     sync.Mutex
	counts Counts
	told   map[roam.NID]time.Time // first Locator Update since Mark
	acked  map[roam.NID]bool      // correspondents that have acknowledged our updates
	probed map[roam.NID]bool
	talks  map[roam.NID]*talk
}

// Start makes the device on the router, with a route to the peer generator.
func Start(router *topo.Host, ifname string, o Options) (*Generator, error) {
	c := &Generator{
		opt:    o,
		told:   make(map[roam.NID]time.Time),
		acked:  make(map[roam.NID]bool),
		probed: make(map[roam.NID]bool),
		talks:  make(map[roam.NID]*talk),
	}
	err := router.Do(func() (err error) {
		c.file, err = OpenTun(ifname)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make device of the peer generator: %w", err)
	}
	if err := router.SetUp(ifname); err != nil {
		c.file.Close()
		return nil, err
	}
	if err := router.AddRoute(Prefix, netip.Addr{}, ifname); err != nil {
		c.file.Close()
		return nil, err
	}
	go c.receive()
	return c, nil
}

// Close stops the peer generator and removes its device.
func (c *Generator) Close() error { return c.file.Close() }

// OpenTun makes a device without link layer in the calling thread's network
// namespace; the file reads and writes one IPv6 packet at a time.
func OpenTun(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open tun %s: %w", name, err)
	}
	ifr, err := unix.NewIfreq(name)
	if err == nil {
		ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	if err == nil {
		err = setQueue(name)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make tun %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

func setQueue(name string) error {
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	ifr.SetUint32(queueLen)
	return unix.IoctlIfreq(s, unix.SIOCSIFTXQLEN, ifr)
}

// NID returns the identifier of the i-th correspondent.
func NID(i int) roam.NID { return firstNID + roam.NID(i) }

// Locator returns its k-th locator. Correspondents that only claim an identifier are bounded
// in each /48, so those beyond crowded are in others.
func Locator(i, k int) roam.L64 {
	const sites, each = 256, 16 // of /48; the most locators of a correspondent in its own
	const crowded = 50_000
	return firstL64 + roam.L64((i%sites*each+i/crowded+k)%(sites*each))<<16 + roam.L64(i%Networks)
}

// nonceOf is its nonce. It may be guessable, since nobody here attacks it.
func nonceOf(nid roam.NID) ilnpwire.Nonce {
	n := ilnpwire.Nonce{Len: 4}
	binary.BigEndian.PutUint32(n.Bytes[:], uint32(nid)*2654435761)
	return n
}

// Open has the i-th correspondent send its first packet: a datagram with its
// nonce.
func (c *Generator) Open(i int) error {
	src := roam.ILV{L64: Locator(i, 0), NID: NID(i)}
	b, err := datagram(src, c.opt.Target, nonceOf(src.NID), c.opt.Port, []byte("hello"))
	if err != nil {
		return fmt.Errorf("open session of correspondent %d: %w", i, err)
	}
	return c.send(b)
}

// Tell makes correspondent i announce all of its locators, the first one preferred.
func (c *Generator) Tell(i int) error {
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement}
	for k := range c.opt.Locators {
		lu.Locators = append(lu.Locators, ilnpwire.LocatorEntry{
			L64:        Locator(i, k),
			Preference: uint32(10 * (k + 1)),
			Lifetime:   3600,
		})
	}
	src := roam.ILV{L64: Locator(i, 0), NID: NID(i)}
	b, err := ilnpwire.BuildUpdate(src, c.opt.Target, nonceOf(src.NID), lu)
	if err != nil {
		return fmt.Errorf("announce locators of correspondent %d: %w", i, err)
	}
	return c.send(b)
}

func (c *Generator) send(b []byte) error {
	if _, err := c.file.Write(b); err != nil {
		return fmt.Errorf("send as the peer generator: %w", err)
	}
	return nil
}

// Counts returns the counts so far.
func (c *Generator) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// Probed returns how many correspondents were probed.
func (c *Generator) Probed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.probed)
}

// OpenAgain makes those of the first n that were not probed send once more, at most most of
// them, like applications that retry.
func (c *Generator) OpenAgain(n, most int) error {
	for i := 0; i < n && most > 0; i++ {
		c.mu.Lock()
		probed := c.probed[NID(i)]
		c.mu.Unlock()
		if probed {
			continue
		}
		most--
		if err := c.Open(i); err != nil {
			return err
		}
	}
	return nil
}

// Acked returns how many correspondents' locators were acknowledged.
func (c *Generator) Acked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.acked)
}

// IsAcked reports whether the host has acknowledged an update of a correspondent.
func (c *Generator) IsAcked(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.acked[NID(i)]
}

// Mark forgets which correspondents have received an update.
func (c *Generator) Mark() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.told)
}

// Told returns the number of correspondents that have received a Locator Update since Mark,
// and the times of the first and the last.
func (c *Generator) Told() (n int, first, last time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.told {
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	return len(c.told), first, last
}

func (c *Generator) receive() {
	b := make([]byte, 65536)
	for {
		n, err := c.file.Read(b)
		if err != nil {
			return
		}
		p, err := ilnpwire.ParsePacket(b[:n])
		if err != nil {
			continue
		}
		if p.Dst.NID >= spoofedNID {
			continue // nobody is there
		}
		answer, far := c.handle(time.Now(), p)
		switch {
		case answer == nil:
		case far:
			time.AfterFunc(Distance, func() { _ = c.send(answer) })
		default:
			_ = c.send(answer) // the peer retransmits after a lost answer
		}
	}
}

// handle processes one packet, and returns the answer, and whether the answer is delayed by
// Distance.
func (c *Generator) handle(now time.Time, p ilnpwire.Packet) (answer []byte, far bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answer(now, p), c.talks[p.Dst.NID] != nil
}

// answer makes the answer; call it with the lock held.
func (c *Generator) answer(now time.Time, p ilnpwire.Packet) []byte {
	switch {
	case p.Proto == ip6.UDP:
		c.counts.Datagrams++
		c.hears(p.Dst.NID)
	case p.Proto != ip6.ICMPv6:
	case p.Type == ilnpwire.TypeEchoRequest:
		e, err := ilnpwire.ParseEcho(p.Payload)
		if err != nil {
			return nil
		}
		c.counts.Probes++
		c.probed[p.Dst.NID] = true
		b, _ := ilnpwire.BuildEcho(p.Dst, p.Src, nonceOf(p.Dst.NID), false, e.ID, e.Seq, e.Data)
		return b
	case p.Type == ilnpwire.TypeLocatorUpdate:
		return c.handleUpdate(now, p)
	case p.Type < 128:
		c.counts.Errors++
	}
	return nil
}

func (c *Generator) handleUpdate(now time.Time, p ilnpwire.Packet) []byte {
	lu, err := ilnpwire.ParseLocatorUpdate(p.Payload)
	if err != nil {
		return nil
	}
	if lu.Operation == ilnpwire.Acknowledgement {
		c.counts.Acks++
		c.acked[p.Dst.NID] = true
		return nil
	}
	c.counts.Updates++
	if _, again := c.told[p.Dst.NID]; !again {
		c.told[p.Dst.NID] = now
	}
	b, _ := ilnpwire.BuildUpdate(p.Dst, p.Src, nonceOf(p.Dst.NID), lu.Ack())
	return b
}

// datagram makes a UDP packet with a nonce.
func datagram(src, dst roam.ILV, n ilnpwire.Nonce, port uint16, data []byte) ([]byte, error) {
	h := ip6.Header{NextHeader: ip6.DestOpts, HopLimit: 64, Src: src.Addr(), Dst: dst.Addr(),
		PayloadLen: uint16(n.HeaderLen() + 8 + len(data))}
	b, err := h.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	if b, err = n.AppendHeader(b, ip6.UDP); err != nil {
		return nil, err
	}
	b = binary.BigEndian.AppendUint16(b, port)
	b = binary.BigEndian.AppendUint16(b, port)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(data)))
	b = append(append(b, 0, 0), data...)
	return b, ip6.FinishL4(b)
}
