package dataplane

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
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
