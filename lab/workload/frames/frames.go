// Package frames is a packet generator for links that no socket saturates, with a sink that
// counts exactly.
//
// It implements datagrams of many flows and any size, sent by an XDP program that a test run
// with live frames calls, and a sink at the ingress of a link. It omits answers, and traffic
// but UDP over IPv6. It is driven by lab/bench.
package frames

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"roam/lab/topo"
	"roam/wire/ip6"
)

// ErrUnsupported is wrapped by errors about what this kernel lacks.
var ErrUnsupported = errors.New("the kernel lacks test runs with live frames (5.18) or tcx (6.6)")

// The layout of a frame. LeastSize is the least length from the IPv6 header on.
const (
	ethLen    = 14
	ip6Len    = 40
	udpLen    = 8
	LeastSize = ip6Len + udpLen + 16
	MostFlows = 1 << 24
)

// liveFrames is BPF_F_TEST_XDP_LIVE_FRAMES of linux/bpf.h.
const liveFrames = 1 << 1

// Stream describes what a generator sends.
type Stream struct {
	From, To       netip.Addr
	FromMAC, ToMAC net.HardwareAddr
	Port           uint16 // of both ends
	Size           int    // of a packet from the IPv6 header on
	Flows          int    // sources: From and the addresses after it
	ByTo           bool   // the flows differ by To and the addresses after it instead
	Random         bool   // each frame is of any flow; else they follow each other
	Nonce          uint32 // of ILNP in every frame; 0: none
}

// optionsLen is the length of destination options with a nonce of four bytes.
const optionsLen = 8

// frame is the first frame of a stream. The last four bytes of an address are the flow's.
func (s Stream) frame() ([]byte, error) {
	src, dst, options := s.From.As16(), s.To.As16(), s.options()
	first := src
	if s.ByTo {
		first = dst
	}
	if s.Size < LeastSize+len(options) || s.Flows < 1 || s.Flows > MostFlows || len(s.FromMAC) != 6 || len(s.ToMAC) != 6 ||
		uint64(binary.BigEndian.Uint32(first[12:]))+uint64(s.Flows) > 1<<32 {
		return nil, fmt.Errorf("no stream can be of %d bytes, %d flows from %v to %v", s.Size, s.Flows, s.From, s.To)
	}
	b := make([]byte, ethLen+s.Size)
	copy(b, s.ToMAC)
	copy(b[6:], s.FromMAC)
	b[12], b[13] = 0x86, 0xdd
	p := b[ethLen:]
	p[0] = 0x60
	binary.BigEndian.PutUint16(p[4:], uint16(s.Size-ip6Len))
	p[6], p[7] = byte(ip6.UDP), 64
	copy(p[8:], src[:])
	copy(p[24:], dst[:])
	if len(options) > 0 {
		p[6] = ip6.DestOpts
	}
	u := p[ip6Len+copy(p[ip6Len:], options):]
	binary.BigEndian.PutUint16(u, s.Port)
	binary.BigEndian.PutUint16(u[2:], s.Port)
	binary.BigEndian.PutUint16(u[4:], uint16(len(u)))
	u[8], u[9] = 0xff, 0xff // the word that makes up for the number of the flow
	binary.BigEndian.PutUint16(u[6:], ip6.Checksum(s.From, s.To, ip6.UDP, u))
	return b, nil
}

// options are the destination options with the nonce (RFC 6744 section 2).
func (s Stream) options() []byte {
	if s.Nonce == 0 {
		return nil
	}
	b := make([]byte, optionsLen)
	b[0], b[2], b[3] = ip6.UDP, 0x8b, 4 // one unit of eight bytes: the length of b[1] is 0
	binary.BigEndian.PutUint32(b[4:], s.Nonce)
	return b
}

// Generator sends frames into a link of a host.
type Generator struct {
	objs  bpfObjects
	host  *topo.Host
	frame []byte
}

// New makes a generator that sends into a link of host, which is one of a veth pair whose other
// end polls (ethtool -K ... gro on). Close removes it.
func New(host *topo.Host, ifname string, s Stream) (*Generator, error) {
	frame, err := s.frame()
	if err != nil {
		return nil, err
	}
	g := &Generator{host: host, frame: frame}
	if err := loadBpfObjects(&g.objs, nil); err != nil {
		return nil, fmt.Errorf("load generator: %w", err)
	}
	var dev *net.Interface
	err = host.Do(func() (err error) { dev, err = net.InterfaceByName(ifname); return err })
	if err == nil {
		value := bpfGenerator{Ifindex: uint32(dev.Index), Flows: uint32(s.Flows), To: word(s.ByTo), Random: word(s.Random),
			Nonce: word(s.Nonce != 0)}
		copy(value.Head[:], frame)
		err = g.objs.Generators.Put(uint32(0), value)
	}
	if err == nil {
		_, err = g.Send(1, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make generator on %s of %s: %w", ifname, host.Name(), err), g.Close())
	}
	return g, nil
}

func word(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// Sent is what sending took. The stack handles frames as far as they get in the time of the
// thread that sends them.
type Sent struct {
	Frames uint64        // more than asked for if a signal had the kernel begin again
	Wall   time.Duration // on the clock
	Thread time.Duration // processor time of the sending thread
}

// Send sends n frames on one processor.
func (g *Generator) Send(n, cpu int) (s Sent, err error) {
	before, err := g.sent()
	if err != nil {
		return s, err
	}
	err = g.host.Do(func() error {
		return onProcessor(cpu, func() error {
			wall, thread := time.Now(), threadTime()
			err := g.run(n)
			s.Wall, s.Thread = time.Since(wall), threadTime()-thread
			return err
		})
	})
	if err != nil {
		return s, err
	}
	after, err := g.sent()
	s.Frames = after - before
	return s, err
}

// onProcessor runs f with the calling thread on one processor.
func onProcessor(cpu int, f func() error) error {
	var was, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &was); err != nil {
		return fmt.Errorf("ask for processors: %w", err)
	}
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("run on processor %d: %w", cpu, err)
	}
	return errors.Join(f(), unix.SchedSetaffinity(0, &was))
}

// threadTime is the processor time of the calling thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

func (g *Generator) run(n int) error {
	_, err := g.objs.FramesGenerate.Run(&ebpf.RunOptions{Data: g.frame, Repeat: uint32(n), Flags: liveFrames})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, ebpf.ErrNotSupported) {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}

func (g *Generator) sent() (uint64, error) {
	var v bpfGenerator
	err := g.objs.Generators.Lookup(uint32(0), &v)
	return v.Sent, err
}

// Close removes the generator.
func (g *Generator) Close() error { return g.objs.Close() }

// Sink counts and drops a generator's datagrams where a link receives them.
type Sink struct {
	objs bpfObjects
	at   link.Link
}

// Receive puts a sink for datagrams to a port at the ingress of a link of host.
func Receive(host *topo.Host, ifname string, port uint16) (*Sink, error) {
	s := &Sink{}
	if err := loadBpfObjects(&s.objs, nil); err != nil {
		return nil, fmt.Errorf("load sink: %w", err)
	}
	values := make([]bpfSink, ebpf.MustPossibleCPU())
	for i := range values {
		values[i].Port = port>>8 | port<<8
	}
	err := s.objs.Sinks.Put(uint32(0), values)
	if err == nil {
		err = host.Do(func() error {
			dev, err := net.InterfaceByName(ifname)
			if err != nil {
				return err
			}
			s.at, err = link.AttachTCX(link.TCXOptions{
				Interface: dev.Index, Program: s.objs.FramesCount, Attach: ebpf.AttachTCXIngress, Anchor: link.Head(),
			})
			if errors.Is(err, ebpf.ErrNotSupported) {
				return fmt.Errorf("%w: %w", ErrUnsupported, err)
			}
			return err
		})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("put sink on %s of %s: %w", ifname, host.Name(), err), s.Close())
	}
	return s, nil
}

// Received is how many datagrams ended here.
func (s *Sink) Received() (n uint64, err error) {
	var values []bpfSink
	err = s.objs.Sinks.Lookup(uint32(0), &values)
	for _, v := range values {
		n += v.Received
	}
	return n, err
}

// Close removes the sink.
func (s *Sink) Close() error {
	var err error
	if s.at != nil {
		err = s.at.Close()
	}
	return errors.Join(err, s.objs.Close())
}
