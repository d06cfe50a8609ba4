package hostile

import (
	"context"
	"path/filepath"
	"time"

	"roam/lab/exp"
	"roam/lab/packets"
	"roam/lab/scene"
)

// snaplen is how much of each packet captures keep: headers and whole control messages.
const snaplen = 256

// echoReply is the ICMPv6 type (RFC 4443 §4.2).
const echoReply = 129

// wire is what captures on the mobile host's links show of a cell.
type wire struct {
	list    []packets.Packet // in order of time; Where is the link
	dropped int              // packets that the captures lost
	// What the correspondent sent, of a network that loses a direction; Where is the mobile host's link whose
	// locator a packet went to.
	sent []packets.Packet
}

// capture starts the captures of a cell.
func capture(ctx context.Context, env *exp.Env, s *scene.Scene, n network) (*scene.Captures, error) {
	dir := filepath.Join(env.Dir, n.name+"-pcap")
	if env.Pcap != "" {
		dir = filepath.Join(env.Pcap, n.name)
	}
	return s.Capture(ctx, dir, snaplen, "ip6")
}

// readWire ends the captures and reads those of the mobile host. What a network drops on its way to the host is
// in the correspondent's alone.
func readWire(caps *scene.Captures, s *scene.Scene, n network) (w wire, err error) {
	if w.dropped, err = caps.Stop(); err != nil {
		return w, err
	}
	var lists [][]packets.Packet
	for _, l := range s.Mobile().Access {
		list, err := packets.Read(caps.File("mn", l), l)
		if err != nil {
			return w, err
		}
		lists = append(lists, list)
	}
	w.list = packets.Merge(lists...)
	if !n.late {
		return w, nil
	}
	for _, l := range s.Peer(0).Access {
		list, err := packets.Read(caps.File("cn1", l), l)
		if err != nil {
			return w, err
		}
		w.sent = append(w.sent, packets.Select(list, theirs)...)
	}
	for i := range w.sent {
		for l, prefix := range s.Mobile().Prefix {
			if prefix.Contains(w.sent[i].Dst) {
				w.sent[i].Where = l
			}
		}
	}
	w.sent = packets.Merge(w.sent)
	return w, nil
}

// ours reports whether the mobile host sent a packet to its correspondent, and theirs whether
// it got one from there.
func ours(p packets.Packet) bool   { return p.SourceNID() == scene.NID("mn") }
func theirs(p packets.Packet) bool { return p.SourceNID() == scene.NID("cn1") }

// ilnp reports whether both ends proved on the first link, before a moment, that they speak
// ILNP: each sent the other a nonce.
func (w wire) ilnp(before time.Time) bool {
	var sent, got bool
	for _, p := range w.list {
		if _, _, control := p.Control(); (control || p.Nonce) && p.Where == "net1" && p.At.Before(before) {
			sent, got = sent || ours(p), got || theirs(p)
		}
	}
	return sent && got
}

// reaction is how Roam adapted to a network: as the wire shows, or as the daemon says.
type reaction struct {
	ILNP    bool   // both ends speak it there
	UsedUDP bool   // control goes in UDP: answers in the form of the RFCs do not come
	Acked   string // how the last Locator Update was acknowledged: options, udp, or not
	InUse   string // link, at the end
	// Of a network that loses what comes in.
	To     string    // link to whose locator all that the correspondent sent at the end went; "": to several
	Turned time.Time // when the last of it went to the network; zero: none did
	// Of a network in duality.
	Spread  [2]string // of TCP, by the mobile host and by the correspondent
	Changed time.Time // when that came to be; zero: never
}

// reacted takes the reaction from the captures. The mobile host came into the network at
// entered, which was its only one from alone on; now is the end.
func (w wire) reacted(entered, alone, now time.Time) (r reaction) {
	r.Acked = "not"
	var update packets.Update
	var answers [2]bool // came by the first link, in the form of the RFCs and in UDP
	for _, p := range w.list {
		c, udp, ok := p.Control()
		if !ok || p.At.Before(entered) || p.At.After(now) || !ours(p) && !theirs(p) {
			continue
		}
		r.ILNP = r.ILNP || theirs(p)
		u, isUpdate := c.Update()
		if theirs(p) && p.Where == "net1" && (c.Data[0] == echoReply || isUpdate && u.Ack) {
			answers[map[bool]int{true: 1}[udp]] = true
		}
		switch {
		case !isUpdate || p.At.Before(alone):
		case ours(p) && !u.Ack:
			if r.Acked != "not" || !update.SameSet(u) { // otherwise it is retransmitted
				update, r.Acked = u, "not"
			}
		case theirs(p) && u.Ack && r.Acked == "not" && update.SameSet(u):
			r.Acked = map[bool]string{false: "options", true: "udp"}[udp]
		}
	}
	r.UsedUDP = answers[1] && !answers[0]
	r.InUse = w.carrier(now.Add(-lively), now)
	return r
}

// turned sets which link the mobile host sends all of its data by, in the last part of the time, and which one the
// correspondent sends its own to: a packet that the network drops reaches no link of the mobile host.
func (r *reaction) turned(w wire, entered, end time.Time) {
	from := end.Add(-lively)
	only := func(list []packets.Packet, whose func(packets.Packet) bool) (link string) {
		links := map[string]bool{}
		for _, p := range list {
			if _, ok := data(p); ok && whose(p) && !p.At.Before(from) && !p.At.After(end) {
				links[p.Where], link = true, p.Where
			}
		}
		if len(links) != 1 {
			return ""
		}
		return link
	}
	r.InUse, r.To = only(w.list, ours), only(w.sent, theirs)
	for _, p := range w.sent {
		if _, ok := data(p); ok && p.Where == "net1" && !p.At.Before(entered) && !p.At.After(end) {
			r.Turned = p.At
		}
	}
}

// carrier is the link that carried at least nine tenths of the mobile host's data packets
// within a span, in each direction; "" if none did.
func (w wire) carrier(from, to time.Time) string {
	var n [2]map[string]int
	var all [2]int
	for way := range n {
		n[way] = map[string]int{}
	}
	for _, p := range w.list {
		if way, ok := data(p); ok && !p.At.Before(from) && !p.At.After(to) {
			n[way][p.Where]++
			all[way]++
		}
	}
	for l := range n[0] {
		if 10*n[0][l] >= 9*all[0] && all[1] > 0 && 10*n[1][l] >= 9*all[1] {
			return l
		}
	}
	return ""
}

// data reports whether a packet carries payload of an application, from the mobile host (0) or
// to it (1).
func data(p packets.Packet) (way int, ok bool) {
	if _, _, control := p.Control(); control || p.Payload == 0 || p.Proto != packets.TCP && p.Proto != packets.UDP {
		return 0, false
	}
	if theirs(p) {
		return 1, true
	}
	return 0, ours(p)
}

// pinned sets how each end spreads the segments of TCP connections over two paths: from Changed
// on, no connection goes over to another path. It is never if that goes on to the end, but for
// the time that a change may take.
func (r *reaction) pinned(w wire, entered, end time.Time) {
	type flow struct {
		way         int
		there, here uint16 // ports
	}
	last := map[flow]string{}
	changed := [2]time.Time{entered, entered}
	for _, p := range w.list {
		way, ok := data(p)
		if !ok || p.Proto != packets.TCP || p.At.Before(entered) || p.At.After(end) {
			continue
		}
		f := flow{way, p.DstPort, p.SrcPort}
		if l, known := last[f]; known && l != p.Where {
			changed[way] = p.At
		}
		last[f] = p.Where
	}
	r.Spread, r.Changed = [2]string{"flow", "flow"}, time.Time{}
	for way, at := range changed {
		if at.Add(change).After(end) {
			r.Spread[way] = "packet"
		}
	}
	if r.Spread == [2]string{"flow", "flow"} {
		r.Changed = changed[0]
		if changed[1].After(r.Changed) {
			r.Changed = changed[1]
		}
	}
}
