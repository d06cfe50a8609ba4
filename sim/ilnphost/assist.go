package ilnphost

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	"roam/tcpassist"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// listTakes is the time that a kernel needs to list its connections.
const listTakes = 5 * time.Millisecond

// setTakes is the time that it needs to set congestion windows.
const setTakes = 20 * time.Millisecond

// errNoLists is the error of a kernel that cannot list connections.
var errNoLists = errors.New("no list of connections")

// assistant drives the tcpassist.Machine of a node.
type assistant struct {
	*tcpassist.Machine[ilnp.SessionKey]
	timer uint64 // the last timer event that was set; older ones are void
	wake  time.Time
}

func newAssistant() *assistant { return &assistant{Machine: tcpassist.New[ilnp.SessionKey]()} }

// pathsChanged reports a session's change of paths to the machine, as the daemon does.
func (h *Node) pathsChanged(o ilnp.PathsChanged) {
	e := h.plane.entries[o.Key]
	if e == nil || h.stack.Other {
		return
	}
	h.assist.HandlePaths(h.net.Now(), tcpassist.Change[ilnp.SessionKey]{
		Key: o.Key, Why: o.Why, RTT: o.RTT, Resync: e.State == ilnp.Established,
	})
}

// assistTCP executes the outputs of the machine, and sets its timer.
func (h *Node) assistTCP() {
	a := h.assist
	for o, ok := a.Poll(); ok; o, ok = a.Poll() {
		switch o := o.(type) {
		case tcpassist.ListConnections:
			h.net.After(listTakes, func() {
				if h.assist == a {
					h.listConnections()
					h.assistTCP()
				}
			})
		case tcpassist.SetWindows:
			h.net.After(setTakes, func() {
				if h.assist == a {
					a.HandleWindows(h.net.Now(), h.setWindows(o.All), nil)
					h.assistTCP()
				}
			})
		case tcpassist.Stretched[ilnp.SessionKey]:
			seen := ilnp.Observation{Trigger: ilnp.SeenStretched, Key: o.Key}
			for _, c := range o.Connections {
				seen.Connections = append(seen.Connections, [2]uint16{c[0].Port(), c[1].Port()})
			}
			h.observe(seen)
		case tcpassist.Inject:
			h.inject(o.Packet)
		case tcpassist.Resync[ilnp.SessionKey]:
			h.sendResync(o)
		}
	}
	at, ok := a.PollTimeout()
	if !ok || !a.wake.IsZero() && !at.Before(a.wake) {
		return
	}
	a.timer++
	a.wake = at
	set := a.timer
	h.net.After(at.Sub(h.net.Now()), func() {
		if set == a.timer && h.assist == a {
			a.wake = time.Time{}
			a.HandleTimeout(h.net.Now())
			h.assistTCP()
		}
	})
}

// listConnections gives the machine the list that it has requested.
func (h *Node) listConnections() {
	if h.noLists {
		h.assist.HandleConnections(h.net.Now(), nil, errNoLists)
		return
	}
	var all []tcpassist.Listed[ilnp.SessionKey]
	for _, c := range h.connections {
		key := c.key
		if e := h.plane.named(key); e != nil {
			key = e.Key
		}
		listed := tcpassist.Listed[ilnp.SessionKey]{Key: key, Resyncs: h.core.RunsRoam(key), Connection: tcpassist.Connection{
			Local: c.local, Remote: c.remote, Open: c.open, Unacked: c.unacked, Next: c.next, Wanted: c.wanted,
			Arrived: c.arrived, Backoff: c.backoff, Rest: h.net.Now().Sub(c.stirred),
		}}
		if e := h.plane.entries[key]; e != nil {
			listed.Bucket = uint8(multipath.Bucket(uint64(e.LocalNID), uint64(e.RemoteNID), c.local.Port(), c.remote.Port()))
		}
		if b := c.bulk; b != nil {
			c := &listed.Connection
			c.Window, c.SRTT, c.MSS, c.PeerWindow, c.Pace = int(b.cwnd), b.srtt, bulkSegment, 1<<30, b.pace
			c.Control = "cubic"
		}
		all = append(all, listed)
	}
	h.assist.HandleConnections(h.net.Now(), all, nil)
}

// setWindows sets the congestion windows of transfers, and returns those that were set.
func (h *Node) setWindows(all []tcpassist.Window) (done []tcpassist.Window) {
	for _, w := range all {
		if c := h.between(w.Local, w.Remote); c != nil && c.bulk != nil && c.bulk.setWindow(w) {
			done = append(done, w)
		}
	}
	return done
}

// between finds the node's end of a connection.
func (h *Node) between(local, remote netip.AddrPort) *tcpEnd {
	i := slices.IndexFunc(h.connections, func(c *tcpEnd) bool { return c.local == local && c.remote == remote })
	if i < 0 {
		return nil
	}
	return h.connections[i]
}

// inject delivers a packet to the node's own stack: an error about one of its segments, or an
// outdated segment, which the stack acknowledges.
func (h *Node) inject(packet []byte) {
	c, err := ip6.Walk(packet)
	if err != nil || ip6.Checksum(c.Header.Src, c.Header.Dst, c.Upper, packet[c.UpperOffset:c.End]) != 0 {
		panic(fmt.Sprintf("ilnphost: assistant of %s made a bad packet: %v", h.name, err))
	}
	ports := func(at int) (from, to uint16) {
		return binary.BigEndian.Uint16(packet[at:]), binary.BigEndian.Uint16(packet[at+2:])
	}
	if c.Upper == ip6.TCP {
		from, to := ports(c.UpperOffset)
		e := h.between(netip.AddrPortFrom(c.Header.Dst, to), netip.AddrPortFrom(c.Header.Src, from))
		if e != nil && e.open {
			e.transmit(segment{})
		}
		return
	}
	const inner = ip6.HeaderLen + 8 + ip6.HeaderLen
	from, to := ports(inner)
	if e := h.between(netip.AddrPortFrom(c.Header.Dst, from), netip.AddrPortFrom(c.Header.Src, to)); e != nil {
		h.net.Note(h.name, "has connection %d try again", from)
		e.unreachable(binary.BigEndian.Uint32(packet[inner+4:]))
	}
}

// sendResync sends a conntrack resync in place of a segment.
func (h *Node) sendResync(o tcpassist.Resync[ilnp.SessionKey]) {
	e := h.plane.entries[o.Key]
	c := h.between(o.Local, o.Remote)
	if e == nil || c == nil {
		return
	}
	h.net.Note(h.name, "resyncs connection %d, answer=%t", o.Local.Port(), o.Answer)
	c.transmit(segment{resync: &ilnpwire.Resync{
		From: o.Local.Port(), To: o.Remote.Port(), Seq: o.Seq, Ack: o.Ack, Answer: o.Answer, Nonce: e.LocalNonce,
	}})
}

// takeSegment handles a segment that the data plane has delivered.
func (h *Node) takeSegment(key ilnp.SessionKey, s *segment) {
	r, e := s.resync, h.plane.entries[key]
	switch {
	case r == nil || h.stack.Other: // another stack treats a resync as a segment, and answers it
		if c := h.between(s.from.remote, s.from.local); c != nil {
			c.receive(s)
		}
	case e != nil && e.State == ilnp.Established && r.Nonce == e.RemoteNonce:
		h.assist.HandleResync(h.net.Now(), tcpassist.Heard[ilnp.SessionKey]{
			Key: key, From: r.From, To: r.To, Seq: r.Seq, Answer: r.Answer,
		})
		h.assistTCP()
	}
}

// losesTrack reports whether a firewall at an attachment drops a packet because it does not
// track the packet's connection.
func (at *attachment) losesTrack(p Packet) bool {
	s := p.Data.segment
	if at.access.Filter&TrackConnections == 0 || s == nil {
		return false
	}
	if s.opens() {
		at.track(s.from.conn)
	}
	return !at.tracked[s.from.conn]
}

// track has a firewall track a connection.
func (at *attachment) track(c *TCP) {
	if at.tracked == nil {
		at.tracked = make(map[*TCP]bool)
	}
	at.tracked[c] = true
}

// Resynced returns the number of successful conntrack resyncs with another node.
func (h *Node) Resynced(o *Node) int {
	return h.assist.Resynced(ilnp.SessionKey{Local: h.nid, Remote: roam.NID(o.nid)})
}
