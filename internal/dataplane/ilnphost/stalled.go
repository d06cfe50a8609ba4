package ilnphost

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"roam"
)

// Connection is a TCP connection of a session, in this network namespace.
type Connection struct {
	Local, Remote netip.AddrPort
	Open          bool          // both ends have begun, and nobody has ended it both ways
	Unacked       uint32        // sequence number of the oldest byte that is not acknowledged
	Next          uint32        // of the byte to be sent next
	Wanted        uint32        // of the byte that shall arrive next
	Arrived       uint32        // segments so far
	Backoff       int           // how often the time-out was doubled; 0: it is not stalled
	Rest          time.Duration // since TCP last sent or received a segment
	Window        int           // the congestion window, in segments
	SRTT          time.Duration // the smoothed round-trip time
	MSS           int           // bytes
	PeerWindow    int           // bytes that the peer would take
	Pace          int           // bytes a second at most; 0: without limit
	Control       string        // the name of its congestion control
}

// Sockets are those of this network namespace.
type Sockets struct{}

// openStates are the states of TCP in which both ends have sequence numbers, as
// the kernel numbers them: established, both of FIN-WAIT, CLOSE-WAIT, LAST-ACK, CLOSING.
const openStates = 1<<1 | 1<<4 | 1<<5 | 1<<8 | 1<<9 | 1<<11

// stalledOnce loads the programs that list them, for all planes of the process.
var stalledOnce = sync.OnceValues(func() (*stalledObjects, error) {
	var o stalledObjects
	if err := loadStalledObjects(&o, nil); err != nil {
		return nil, fmt.Errorf("load the list of connections: %w", err)
	}
	return &o, nil
})

// stalledUse is held from the writing of the programs' variables to the end of
// their run.
var stalledUse sync.Mutex

// prefixOf returns the upper half of addresses as a program compares it.
func prefixOf(session roam.L64) uint64 {
	upper := roam.ILV{L64: session}.Addr().As16()
	return binary.NativeEndian.Uint64(upper[:])
}

// Connections lists the TCP connections from addresses with the session prefix.
// It looks at every TCP socket of the namespace, so it is for rare occasions. A
// kernel that cannot tell (no iterators of eBPF, Linux 5.9) returns an error each
// time.
func (Sockets) Connections(session roam.L64) (list []Connection, err error) {
	o, err := stalledOnce()
	if err != nil {
		return nil, err
	}
	stalledUse.Lock()
	defer stalledUse.Unlock()
	var b []byte
	if err = o.SessionPrefix.Set(prefixOf(session)); err == nil {
		b, err = iterate(o.ListConnections)
	}
	if err != nil {
		return nil, fmt.Errorf("list connections: %w", err)
	}
	rows := make([]stalledConnection, len(b)/binary.Size(stalledConnection{}))
	if err := binary.Read(bytes.NewReader(b), binary.NativeEndian, rows); err != nil {
		return nil, fmt.Errorf("decode connections: %w", err)
	}
	for _, c := range rows {
		list = append(list, Connection{
			Local:   netip.AddrPortFrom(netip.AddrFrom16(c.Local.In6U.U6Addr8), c.LocalPort),
			Remote:  netip.AddrPortFrom(netip.AddrFrom16(c.Remote.In6U.U6Addr8), c.RemotePort),
			Open:    openStates>>c.State&1 == 1,
			Unacked: c.Unacked, Next: c.Next, Wanted: c.Wanted, Arrived: c.Arrived, Backoff: int(c.Backoff),
			Rest:   time.Duration(c.Rest) * time.Millisecond,
			Window: int(c.Window), SRTT: time.Duration(c.SrttUs8) * time.Microsecond / 8, MSS: int(c.Mss),
			PeerWindow: int(c.PeerWindow), Pace: paceOf(c.Pace), Control: nameOf(c.Control[:]),
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

// paceOf returns a rate as a program has it: all bits stand for no limit.
func paceOf(bytes uint32) int {
	if bytes == math.MaxUint32 {
		return 0
	}
	return int(min(bytes, math.MaxInt32))
}

// nameOf returns a name that the kernel has in a field.
func nameOf(field []int8) string {
	var name []byte
	for _, c := range field {
		if c == 0 {
			break
		}
		name = append(name, byte(c))
	}
	return string(name)
}
