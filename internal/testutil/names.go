package testutil

import (
	"bytes"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
)

// Names is a name server that knows one name and says of all others that they
// do not exist. It is written byte by byte, so that it shares no fault with
// what it is asked by.
type Names struct {
	asked  atomic.Int64
	ignore atomic.Pointer[[]byte]
}

// Asked is how many questions came so far.
func (n *Names) Asked() int { return int(n.asked.Load()) }

// Ignore leaves questions for a name unanswered from now on.
func (n *Names) Ignore(name string) {
	wire := wireName(name)
	n.ignore.Store(&wire)
}

// wireName returns a name as it stands in a packet.
func wireName(name string) (wire []byte) {
	for label := range strings.SplitSeq(name, ".") {
		wire = append(append(wire, byte(len(label))), label...)
	}
	return append(wire, 0)
}

// A header of a question has 12 bytes, and type and class behind the name 4.
const (
	nameHeader = 12
	nameTail   = 4
)

// ServeNames answers on pc until the end of the test: name has the IPv4 address at.
func ServeNames(t testing.TB, pc net.PacketConn, name string, at netip.Addr) *Names {
	n := &Names{}
	wire := wireName(name)
	t.Cleanup(func() { _ = pc.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			size, from, err := pc.ReadFrom(b)
			if err != nil {
				return // closed at the end
			}
			n.asked.Add(1)
			if ignore := n.ignore.Load(); ignore != nil && bytes.Contains(bytes.ToLower(b[:size]), *ignore) {
				continue
			}
			if reply := reply(b[:size], wire, at); reply != nil {
				_, _ = pc.WriteTo(reply, from)
			}
		}
	}()
	return n
}

// reply answers one question; nil: it is none.
func reply(q, name []byte, at netip.Addr) []byte {
	if len(q) < nameHeader {
		return nil
	}
	end := bytes.IndexByte(q[nameHeader:], 0) + nameHeader + 1
	if end == nameHeader || end+nameTail > len(q) {
		return nil
	}
	r := bytes.Clone(q[:end+nameTail])
	r[2], r[3] = r[2]|0x80, 0x80                // a response, and recursion is available
	copy(r[4:], []byte{0, 1, 0, 0, 0, 0, 0, 0}) // one question and nothing else
	known := bytes.EqualFold(q[nameHeader:end], name)
	switch {
	case !known:
		r[3] |= 3 // no such name
	case r[end] == 0 && r[end+1] == 1: // type A
		r[7] = 1
		r = append(r, 0xc0, nameHeader, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		r = append(r, at.AsSlice()...)
	}
	return r
}
