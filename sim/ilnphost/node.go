package ilnphost

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	"roam/sim"
	"roam/tcpassist"
	ilnpwire "roam/wire/ilnp"
)

// Nonce is the core's type.
type Nonce = ilnp.Nonce

// attachment is one link of a node and the prefix of the network there.
type attachment struct {
	host    *Node
	wire    *sim.Link
	site    site        // where the link ends
	port    roam.LinkID // the router's identifier of the link
	link    roam.LinkID
	l64     roam.L64
	access  Access
	carrier bool              // packets pass; the host may not know if they do not
	halved  bool              // one direction passes nothing
	tracked map[*TCP]bool     // by a firewall there
	asked   map[*TCP]bool     // that the node has opened there
	opened  map[roam.ILV]bool // destinations of control in UDP that a firewall has let out
	told    bool              // the prefix was advertised to the host
	life    time.Duration
	epoch   int       // of the series of Router Advertisements; older series have ended
	until   time.Time // end of the lifetime that was advertised last; zero: never
	order   int       // the newest attachment has the highest
	rate    int       // bytes a second that the host can send there; 0: unlimited
	rateIn  int       // that it can receive there
	queue   int       // bytes that wait for that; 0: unlimited
}

// Node is a host: a core, a data plane and links.
type Node struct {
	sim.Outbox
	net         *Network
	name        string
	nid         roam.NID
	cfg         ilnp.Config
	core        *ilnp.Core // nil: a host without ILNP
	plane       plane
	assist      *assistant
	connections []*tcpEnd
	noLists     bool                 // the kernel cannot list its connections
	busy        func() time.Duration // how long the daemon takes to get to a packet; nil: no time
	reads       time.Time            // when it gets to the last one
	killed      bool                 // no daemon runs
	attachments []*attachment
	began       *attachment // the first one created
	connected   int         // attachments created or enabled so far
	off         map[roam.LinkID]bool
	life        int // number of reboots
	order       int // among the nodes of the network
	events      []ilnp.Event
	unknown     Unknown // reaction of a host without ILNP to the option
	stack       Stack
	// Succeeded does what a host does where the old key of a peer vouches for a new one.
	Succeeded func(ilnp.Succession)
	script    func(p Packet) // handles arriving packets in place of a host; or nil
}

// Unknown is the reaction of a host without ILNP to a packet with a Nonce option.
type Unknown uint8

// The values of Unknown.
const (
	Problem Unknown = iota // answers with Parameter Problem, code 2 (RFC 8200 §4.2)
	Discard                // drops silently, as a firewall does
)

// AddNode adds a host with a core of this configuration; its Rand derives from the network's
// seed.
func (n *Network) AddNode(name string, cfg ilnp.Config) *Node {
	cfg = asDaemon(cfg)
	node := &Node{net: n, name: name, nid: cfg.NIDs[0], cfg: cfg, off: make(map[roam.LinkID]bool)}
	node.cfg.PathCounts, node.cfg.Flows = node.pathCounts, node.flows
	n.add(node)
	node.boot()
	n.After(n.Counting, node.tick)
	return node
}

// AddPlainNode adds a host without ILNP.
func (n *Network) AddPlainNode(name string, nid roam.NID, unknown Unknown) *Node {
	node := &Node{net: n, name: name, nid: nid, unknown: unknown}
	n.add(node)
	return node
}

// AddScript adds a party that handles packets by a function of the test, under a Node
// Identifier that may be another node's.
func (n *Network) AddScript(name string, nid roam.NID, script func(p Packet)) *Node {
	node := &Node{net: n, name: name, nid: nid, script: script}
	n.add(node)
	return node
}

// reader reads bytes from a seeded generator.
type reader struct{ *rand.Rand }

func (r reader) Read(b []byte) (int, error) {
	var word [8]byte
	for i := range b {
		if i%8 == 0 {
			binary.BigEndian.PutUint64(word[:], r.Uint64())
		}
		b[i] = word[i%8]
	}
	return len(b), nil
}

// boot starts without any state: a new core, and a new data plane with a new secret.
func (h *Node) boot() {
	h.life++
	cfg := h.cfg
	cfg.Rand = reader{rand.New(rand.NewPCG(h.net.Rand().Uint64(), uint64(h.life)))}
	core, err := ilnp.New(cfg)
	if err != nil {
		panic(fmt.Sprintf("ilnphost: node %s: %v", h.name, err)) // a mistake in the test
	}
	h.core = core
	h.plane = newPlane(h)
	for _, c := range h.connections {
		c.timer++ // voids its timers
	}
	h.assist, h.connections = newAssistant(), nil
	h.plane.state.Forget = h.plane.keepPending
	h.net.Note(h.name, "boots")
}

// Name returns the node's name in traces.
func (h *Node) Name() string { return h.name }

// NID returns the node's identifier.
func (h *Node) NID() roam.NID { return h.nid }

// Core returns the core, for commands and getters; call Settle after commands.
func (h *Node) Core() *ilnp.Core { return h.core }

// Events returns the events that the core has emitted, the oldest first.
func (h *Node) Events() []ilnp.Event { return h.events }

// Count returns the number of events of a kind.
func (h *Node) Count(kind ilnp.EventKind) int {
	n := 0
	for _, e := range h.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// Know adds another node to the core's known peers, at the given locators; without any, at
// its present ones.
func (h *Node) Know(o *Node, locators ...roam.L64) { h.know(o.record(locators...)) }

// record returns what a hosts file says of a node at the given locators.
func (h *Node) record(locators ...roam.L64) ilnp.Peer {
	p := ilnp.Peer{NID: h.nid, Names: []string{h.name}, Anywhere: len(locators) == 0}
	for _, l := range locators {
		p.Locators = append(p.Locators, ilnp.RemoteLocator{L64: l, Preference: 10, Lifetime: roam.Infinite})
	}
	return p
}

func (h *Node) know(p ilnp.Peer) {
	h.core.AddPeer(h.net.Now(), p)
	h.Settle()
}

// SetMode switches the mode.
func (h *Node) SetMode(m ilnp.Mode) {
	h.core.SetMode(h.net.Now(), m)
	h.Settle()
}

// Disable disables a link, or enables it again, as a command of the user does.
func (h *Node) Disable(link roam.LinkID, disabled bool) {
	if h.off[link] == disabled {
		return
	}
	h.net.Note(h.name, "link %d disabled=%t", link, disabled)
	if h.off[link] = true; !disabled {
		delete(h.off, link)
	}
	if at := h.at(link); at != nil && !disabled {
		h.connected++
		at.order = h.connected
	}
	h.core.SetLinkDisabled(h.net.Now(), link, disabled)
	h.Settle()
}

// Up connects a link to a network, in place of its present one. With a lifetime other than
// roam.Infinite, Router Advertisements renew the prefix after every third of it.
func (h *Node) Up(link roam.LinkID, l64 roam.L64, a Access, life time.Duration) {
	if old := h.at(link); old != nil && old.l64 == l64 {
		old.life = life
		old.set(a)
		h.advertise(old)
		return
	}
	h.Down(link)
	h.connected++
	at := &attachment{host: h, link: link, l64: l64, access: a, carrier: true, life: life, order: h.connected}
	h.net.plug(at)
	h.attachments = append(h.attachments, at)
	h.began = cmp.Or(h.began, at)
	slices.SortFunc(h.attachments, func(x, y *attachment) int { return int(x.link - y.link) })
	h.net.Note(h.name, "link %d up at %v", link, l64)
	h.advertise(at)
}

// advertise sends the host a Router Advertisement, and schedules the next one.
func (h *Node) advertise(at *attachment) {
	if !at.until.IsZero() && !at.until.After(h.net.Now()) {
		// The prefix expired while no Router Advertisement arrived.
		h.connected++
		at.order = h.connected
	}
	if at.until = (time.Time{}); at.life != roam.Infinite {
		at.until = h.net.Now().Add(at.life)
	}
	at.told = true
	at.epoch++
	epoch := at.epoch
	if h.core != nil {
		h.readHeard()
		h.core.HandleLocator(h.net.Now(), roam.PrefixEvent{
			LinkLocator: roam.LinkLocator{Link: at.link, L64: at.l64}, Present: true, Preferred: at.life,
			LinkName: linkName(at.link),
		})
		h.Settle()
	}
	if at.life == roam.Infinite {
		return
	}
	h.net.After(at.life/3, func() {
		if at.told && at.carrier && at.epoch == epoch {
			h.advertise(at)
		}
	})
}

// Down takes a link down; the host is notified.
func (h *Node) Down(link roam.LinkID) {
	if !h.remove(link) {
		return
	}
	h.net.Note(h.name, "link %d down", link)
	if h.core != nil {
		h.readHeard()
		h.core.Detach(h.net.Now(), link)
		h.Settle()
	}
}

// remove removes an attachment; packets in flight to it are lost.
func (h *Node) remove(link roam.LinkID) bool {
	n := len(h.attachments)
	for _, at := range h.attachments {
		if at.link == link {
			at.carrier, at.told = false, false
			h.net.unplug(at)
		}
	}
	h.attachments = slices.DeleteFunc(h.attachments, func(at *attachment) bool { return at.link == link })
	return len(h.attachments) < n
}

// Cut drops all packets on a link, Router Advertisements included, without notifying the host.
// Mend undoes it.
func (h *Node) Cut(link roam.LinkID) { h.setCarrier(link, false) }

// Mend ends a Cut.
func (h *Node) Mend(link roam.LinkID) { h.setCarrier(link, true) }

// setCarrier cuts or mends a link without notifying the host; a mended network resumes its
// Router Advertisements.
func (h *Node) setCarrier(link roam.LinkID, carrier bool) {
	for _, at := range h.attachments {
		if at.link == link && at.carrier != carrier {
			at.carrier = carrier
			h.net.route(at, carrier)
			h.net.Note(h.name, "link %d carrier=%t, unseen", link, carrier)
			if carrier {
				h.advertise(at)
			}
		}
	}
}

// Reboot discards all state in the node's memory, known peers of Know included, and
// announces its links again.
func (h *Node) Reboot() {
	h.boot()
	for _, at := range h.attachments {
		h.connected++
		at.order = h.connected
		h.advertise(at)
	}
}

// Settle executes the core's outputs and sets its timer.
func (h *Node) Settle() {
	if h.killed {
		return
	}
	for {
		o, ok := h.core.Poll()
		if !ok {
			break
		}
		h.execute(o)
	}
	h.assistTCP()
	h.net.Settle(h)
}

// Receive handles a packet from the wire.
func (h *Node) Receive(_ time.Time, link roam.LinkID, w sim.Packet) {
	if p, ok := fromWire(w); ok {
		h.receive(h.at(link), p)
	}
}

// HandleTimeout calls the core's HandleTimeout.
func (h *Node) HandleTimeout(now time.Time) {
	h.core.HandleTimeout(now)
	h.Settle()
}

// PollTimeout returns the core's next deadline.
func (h *Node) PollTimeout() (time.Time, bool) {
	if h.core == nil {
		return time.Time{}, false
	}
	return h.core.PollTimeout()
}

// execute executes one output of the core.
func (h *Node) execute(o ilnp.Output) {
	switch o := o.(type) {
	case ilnp.Transmit:
		h.transmit(o)
	case ilnp.Upsert:
		h.plane.upsert(o.Entry)
	case ilnp.Delete:
		h.plane.remove(o.Key)
		h.assist.HandleEnd(o.Key)
	case ilnp.PathsChanged:
		h.pathsChanged(o)
	case ilnp.Stretch:
		h.assist.HandleStretch(h.net.Now(), tcpassist.Stretch[ilnp.SessionKey]{
			Key: o.Key, Phase: tcpassist.Phase(o.Phase), Buckets: o.Buckets, Most: ilnpwire.CrossMost,
			RTT: o.RTT, Gap: o.Gap, Gain: o.Gain, Rate: o.Rate, Paced: o.Paced,
		})
		h.assistTCP()
	case ilnp.Release:
		h.plane.release(o.Key)
	case ilnp.Reject:
		h.plane.reject(o.Key)
	case ilnp.Admit:
		h.plane.admit(o)
	case ilnp.Dismiss:
		h.plane.dismiss(o)
	case ilnp.Copy: // checksums are not modelled, so no packet is dropped because of its rule
	case ilnp.Succession:
		if h.Succeeded != nil {
			h.Succeeded(o)
		}
	case ilnp.Notify:
		h.told(o.Event)
	}
}

// told records an event of the core.
func (h *Node) told(e ilnp.Event) {
	if h.net.Told != nil {
		h.net.Told(h, e)
	}
	if h.net.Brief {
		return
	}
	h.events = append(h.events, e)
	h.net.Note(h.name, "%v %v %v%v%s", e.Kind, e.Key.Remote, e.To, e.Locators, e.Reason)
}

// transmit sends a control packet on a link, if the link exists.
func (h *Node) transmit(t ilnp.Transmit) {
	p, err := ilnpwire.ParseControl(t.Packet, udpPort)
	if err != nil {
		panic(fmt.Sprintf("ilnphost: core of %s made a bad packet: %v", h.name, err))
	}
	if !h.net.Brief {
		h.net.Note(h.name, "sends %s from link %d %v to %v", control(p), t.Link, p.Src.L64, p.Dst.L64)
	}
	c := Packet{
		Src: p.Src, Dst: p.Dst, Nonce: p.Nonce, Control: slices.Clone(t.Packet), Encapsulated: p.Encapsulated,
		typ: p.Type, typed: true,
	}
	h.put(t.Link, c)
	for _, b := range t.Behind {
		h.transmit(ilnp.Transmit{Link: t.Link, Packet: b})
	}
}

// put sends a packet on a link.
func (h *Node) put(link roam.LinkID, p Packet) {
	for _, at := range h.attachments {
		if at.link == link && at.carrier {
			p.typ, p.typed = messageType(p), true
			h.seen(link, true, p)
			if at.losesTrack(p) {
				return
			}
			if p.Encapsulated && at.access.Filter&OnlyAnswers != 0 {
				at.open(p.Dst)
			}
			at.asksFor(p)
			if h.net.Tap != nil {
				changed := h.net.Tap(p)
				if changed == nil {
					return
				}
				p = *changed
				p.typed = false
			}
			h.Put(link, p.onWire())
			h.net.Flush(h) // at once, since the core's next output must follow this packet
			return
		}
	}
}

// seen passes a packet to the captures.
func (h *Node) seen(link roam.LinkID, leaves bool, p Packet) {
	if h.net.Seen != nil {
		h.net.Seen(h, link, leaves, p)
	}
}

// control returns the name of a control packet in the trace.
func control(p ilnpwire.Packet) string {
	switch p.Type {
	case ilnpwire.TypeEchoRequest:
		return "probe"
	case ilnpwire.TypeEchoReply:
		return "reply"
	case ilnpwire.TypeParameterProblem:
		return "parameter problem"
	}
	lu, err := ilnpwire.ParseLocatorUpdate(p.Payload)
	if err != nil {
		return "malformed update"
	}
	name := "LU"
	if p.Encapsulated {
		name = "UDP-LU"
	}
	if lu.Operation == ilnpwire.Acknowledgement {
		name = "LU-Ack"
	}
	for _, e := range lu.Locators {
		name += fmt.Sprintf(" %v/%d", e.L64, e.Preference)
	}
	return name
}
