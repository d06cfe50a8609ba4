package dataplane

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"roam"
)

// Stall is a TCP connection of this network namespace that waits for a
// retransmission time-out which has been doubled at least once.
type Stall struct {
	Local, Remote netip.AddrPort
	Seq           uint32 // of the oldest octet that is not acknowledged
	Backoff       int    // how often it was doubled
}

// stalledOnce loads the program that lists them, for all planes of the process.
var stalledOnce = sync.OnceValues(func() (*stalledObjects, error) {
	var o stalledObjects
	if err := loadStalledObjects(&o, nil); err != nil {
		return nil, fmt.Errorf("load the list of stalled connections: %w", err)
	}
	return &o, nil
})

// Stalled lists the stalled connections. It looks at every TCP socket of the
// namespace, so it is for rare occasions. A kernel that cannot tell (no
// iterators of eBPF, Linux 5.9) returns an error each time.
func (p *Plane) Stalled() (list []Stall, err error) {
	o, err := stalledOnce()
	if err != nil {
		return nil, err
	}
	b, err := iterate(o.ListStalled)
	if err != nil {
		return nil, fmt.Errorf("list stalled connections: %w", err)
	}
	rows := make([]stalledStall, len(b)/binary.Size(stalledStall{}))
	if err := binary.Read(bytes.NewReader(b), binary.NativeEndian, rows); err != nil {
		return nil, fmt.Errorf("decode stalled connections: %w", err)
	}
	for _, s := range rows {
		list = append(list, Stall{
			Local:  netip.AddrPortFrom(netip.AddrFrom16(s.Local.In6U.U6Addr8), s.LocalPort),
			Remote: netip.AddrPortFrom(netip.AddrFrom16(s.Remote.In6U.U6Addr8), s.RemotePort),
			Seq:    s.Seq, Backoff: int(s.Backoff),
		})
	}
	return list, nil
}

// iterate runs a program over all TCP sockets and returns what it wrote.
func iterate(p *ebpf.Program) (b []byte, err error) {
	it, err := link.AttachIter(link.IterOptions{Program: p})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	r, err := it.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// hastyTimeout is the greatest retransmission time-out, in milliseconds, of
// connections in haste: the least that Linux takes.
const hastyTimeout = 1000

// rtoMax holds the greatest time-out of connections that were told no other, in
// milliseconds; absent before Linux 6.15.
const rtoMax = "/proc/sys/net/ipv4/tcp_rto_max_ms"

// Hasten bounds the retransmission time-outs of all TCP connections from
// addresses with the session prefix at a second, or gives them back what they
// had. It changes nothing on kernels that know no such bound, and not the
// connections whose application has set one.
func (p *Plane) Hasten(session roam.L64, haste bool) error {
	usual, err := usualTimeout()
	if err != nil || usual <= hastyTimeout {
		return err
	}
	o, err := stalledOnce()
	if err != nil {
		return err
	}
	from, to := usual, uint32(hastyTimeout)
	if !haste {
		from, to = to, from
	}
	upper := roam.ILV{L64: session}.Addr().As16()
	err = errors.Join(o.BoundPrefix.Set(binary.NativeEndian.Uint64(upper[:])), o.BoundFrom.Set(from), o.BoundTo.Set(to))
	if err == nil {
		_, err = iterate(o.BoundTimeouts)
	}
	if err != nil {
		return fmt.Errorf("bound time-outs of TCP: %w", err)
	}
	return nil
}

// usualTimeout reads rtoMax for the namespace of this thread; 0 where there is
// none.
func usualTimeout() (uint32, error) {
	b, err := os.ReadFile(rtoMax)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read greatest time-out of TCP: %w", err)
	}
	ms, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("read greatest time-out of TCP: %w", err)
	}
	return uint32(ms), nil
}
