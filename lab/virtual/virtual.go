// Package virtual executes the schedules of lab/scene in virtual time: the engine sim of
// the lab.
//
// Implements the network of a scene on package ilnphost of sim, with the cores that the
// daemon runs, flows of numbered datagrams, and what captures at both ends would
// show. Omits TCP, rates and queues, and correspondents
// that move. Driven by experiments; a seed gives one course to the last packet.
package virtual

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"roam"
	"roam/ilnp"
	"roam/lab/arm"
	"roam/lab/linkem"
	"roam/lab/node"
	"roam/lab/packets"
	"roam/lab/scene"
	"roam/sim/ilnphost"
)

// Flow is a stream of datagrams between the mobile host and its correspondent.
type Flow struct {
	In   bool    // to the mobile host
	Port uint16  // at the correspondent
	Rate float64 // datagrams per second
	Size int     // bytes of payload
}

// Pass is the record of a schedule.
type Pass struct {
	Trace *scene.Trace
	// Mobile and Peer are the captures at the two hosts, in order of time. The data of a
	// datagram is its number, at NumberAt.
	Mobile, Peer []packets.Packet
	Prefix       map[string]string // network to link of the mobile host
}

// NumberAt is the offset of a datagram's number, of four bytes, in its UDP datagram, as in
// iperf3.
const NumberAt = 8

const (
	ownPort = 40000           // of UDP at the mobile host
	udpHead = 8               // bytes of a UDP header
	settle  = 2 * time.Second // before the schedule, to establish sessions
	drain   = 3 * time.Second // after it, for packets in flight
	wired   = "eth0"          // the interface of the correspondent
)

// world is a pass at work.
type world struct {
	net    *ilnphost.Network
	mn, cn *ilnphost.Node
	cfg    scene.Config
	arm    arm.Simulated
	flows  map[*ilnphost.Flow]Flow
	pass   *Pass
}

// Run executes a schedule. Its error names an operation that sim does not support.
func Run(cfg scene.Config, plan scene.Schedule, flows []Flow) (*Pass, error) {
	w := &world{net: ilnphost.New(cfg.Seed), cfg: cfg, flows: map[*ilnphost.Flow]Flow{}}
	if err := w.hosts(); err != nil {
		return nil, err
	}
	w.pass = &Pass{Prefix: map[string]string{}, Trace: &scene.Trace{Arm: cfg.Arm, Events: map[string][]node.Event{}}}
	for i := range cfg.Mobile {
		w.pass.Prefix[prefix(i).Addr().String()] = name(linkID(i))
	}
	for _, f := range flows {
		from, to := w.mn, w.cn
		if f.In {
			from, to = w.cn, w.mn
		}
		w.flows[from.Stream(to, time.Duration(float64(time.Second)/f.Rate), f.Size)] = f
	}
	w.net.Seen = w.capture
	w.net.Run(settle)
	return w.pass, w.follow(plan)
}

// modes are Roam's modes by name; soft is the default.
var modes = map[string]ilnp.Mode{"": ilnp.Soft, "soft": ilnp.Soft, "hard": ilnp.Hard, "duality": ilnp.Duality}

// hosts makes the two hosts with the networks that they have from the start.
func (w *world) hosts() error {
	mode, ok := modes[w.cfg.Mode]
	if !ok || len(w.cfg.Correspondents) > 1 || len(w.cfg.Correspondents) == 1 && len(w.cfg.Correspondents[0].Access) > 0 {
		return fmt.Errorf("engine sim: mode %q, or more than one correspondent that stays", w.cfg.Mode)
	}
	if w.cfg.Arm == nil {
		return errors.New("engine sim: no arm is named")
	}
	if w.arm, ok = w.cfg.Arm.(arm.Simulated); !ok {
		return fmt.Errorf("engine sim: there is no arm %s without a kernel", w.cfg.Arm.Name())
	}
	w.mn, w.cn = w.arm.Nodes(w.net, scene.NID("mn"), scene.NID("cn1"), mode)
	w.cn.Up(1, home.L64, ilnphost.Access{}, roam.Infinite)
	for i, a := range w.cfg.Mobile {
		if i > 0 && !a.Up {
			continue
		}
		if err := w.up(linkID(i)); err != nil {
			return err
		}
	}
	w.arm.Meet(w.mn, w.cn, home.L64)
	return nil
}

// home is the network of the correspondent.
var home = roam.ILVFromAddr(netip.MustParseAddr("2001:db8:c1::"))

func linkID(i int) roam.LinkID { return roam.LinkID(i + 1) }

func name(link roam.LinkID) string { return fmt.Sprintf("net%d", link) }

func prefix(i int) netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf("2001:db8:%d::/64", i+1))
}

// link finds a link by its name.
func (w *world) link(ifname string) (roam.LinkID, error) {
	var id int
	if _, err := fmt.Sscanf(ifname, "net%d", &id); err != nil || id < 1 || id > len(w.cfg.Mobile) {
		return 0, fmt.Errorf("engine sim: no link is called %q", ifname)
	}
	return roam.LinkID(id), nil
}

// up gives a link of the mobile host its network.
func (w *world) up(id roam.LinkID) error {
	a := w.cfg.Mobile[id-1]
	if !same(a.Out, a.In) {
		return fmt.Errorf("engine sim: link %s is not the same in both directions", name(id))
	}
	life := w.cfg.Advert.Preferred
	if life == 0 {
		life = roam.Infinite
	}
	w.mn.Up(id, roam.ILVFromAddr(prefix(int(id)-1).Addr()).L64,
		ilnphost.Access{Delay: a.Out.Delay, Jitter: a.Out.Jitter, Loss: a.Out.Loss, Duplicate: a.Out.Duplicate}, life)
	return nil
}

// same reports whether two directions of a link differ in their random numbers only.
func same(a, b linkem.Params) bool {
	a.Seed, b.Seed = 0, 0
	return a == b
}

// follow carries out the steps.
func (w *world) follow(plan scene.Schedule) error {
	t := w.pass.Trace
	t.Start = w.net.Now()
	for _, s := range plan.Steps {
		w.net.Run(t.Start.Add(s.At).Sub(w.net.Now()))
		if w.arm.Traits().Moves {
			if err := w.do(s); err != nil {
				return fmt.Errorf("step at %v: %w", s.At, err)
			}
		}
		t.Steps = append(t.Steps, scene.Done{Step: s, At: w.net.Now()})
	}
	w.net.Run(t.Start.Add(plan.Length).Sub(w.net.Now()))
	t.End = w.net.Now()
	w.net.Run(drain)
	t.Samples = w.samples()
	for _, h := range []*ilnphost.Node{w.mn, w.cn} {
		t.Events[h.Name()] = events(h.Events())
	}
	return nil
}

// sampleEvery is the time between two readings of the links' counts, and frameHead the
// length of a frame beyond the IPv6 payload.
const (
	sampleEvery = 100 * time.Millisecond
	frameHead   = 14 + 40
)

// samples are the readings that package scene takes of its links.
func (w *world) samples() (list []scene.Sample) {
	now := scene.Sample{Out: map[string]uint64{}, In: map[string]uint64{}}
	for i := range w.cfg.Mobile {
		now.Out[name(linkID(i))], now.In[name(linkID(i))] = 0, 0
	}
	next := 0
	for at := w.pass.Trace.Start; !at.After(w.pass.Trace.End); at = at.Add(sampleEvery) {
		for ; next < len(w.pass.Mobile) && !w.pass.Mobile[next].At.After(at); next++ {
			p := w.pass.Mobile[next]
			way := now.In
			if p.SourceNID() == w.mn.NID() {
				way = now.Out
			}
			way[p.Where] += uint64(p.Length + frameHead)
		}
		list = append(list, scene.Sample{At: at, Out: maps.Clone(now.Out), In: maps.Clone(now.In)})
	}
	return list
}

func (w *world) do(s scene.Step) error {
	if s.Op == scene.Mark {
		return nil
	}
	if s.Host != "" && s.Host != "mn" {
		return fmt.Errorf("engine sim: %s does not move", s.Host)
	}
	if s.Op == scene.Mode {
		w.arm.SetMode(w.mn, modes[s.Link])
		return nil
	}
	id, err := w.link(s.Link)
	if err != nil {
		return err
	}
	switch s.Op {
	case scene.Attach:
		return w.up(id)
	case scene.Detach, scene.Cut:
		w.mn.Down(id)
	case scene.Swap:
		old, err := w.link(s.From)
		if err != nil {
			return err
		}
		if err := w.up(id); err != nil {
			return err
		}
		w.mn.Down(old)
	case scene.Disable, scene.Enable:
		w.arm.SetUse(w.mn, id, s.Op == scene.Enable)
	default:
		return fmt.Errorf("engine sim: there is no such step as %d", s.Op)
	}
	return nil
}

// events converts the core's events to those of the daemon.
func events(list []ilnp.Event) (out []node.Event) {
	for _, e := range list {
		out = append(out, node.Event{
			Time: e.Time, Kind: strings.ReplaceAll(e.Kind.String(), " ", "-"), Reason: e.Reason,
			From: set(e.From), To: set(e.To),
			RTTMs: e.RTT.Seconds() * 1e3, DurationMs: e.Duration.Seconds() * 1e3,
		})
	}
	return out
}

func set(list []roam.LinkLocator) (out []node.LinkLocator) {
	for _, l := range list {
		out = append(out, node.LinkLocator{Link: name(l.Link), L64: l.L64})
	}
	return out
}

// capture writes a packet down as a capture at the host shows it.
func (w *world) capture(h *ilnphost.Node, link roam.LinkID, _ bool, in ilnphost.Packet) {
	p := packets.Packet{Src: in.Src.Addr(), Dst: in.Dst.Addr(), Nonce: in.Nonce.Present()}
	if in.Control != nil {
		var ok bool
		if p, ok = packets.Parse(slices.Clone(in.Control)); !ok {
			return
		}
	} else {
		f := w.flows[in.Data.Flow()]
		p.Proto, p.SrcPort, p.DstPort = packets.UDP, ownPort, f.Port
		if f.In {
			p.SrcPort, p.DstPort = f.Port, ownPort
		}
		p.Data = binary.BigEndian.AppendUint32(make([]byte, NumberAt), uint32(in.Data.Number))
		p.Payload, p.Length = in.Data.Size, in.Data.Size+udpHead
	}
	p.At, p.Where = w.net.Now(), wired
	if h == w.mn {
		p.Where = name(link)
		w.pass.Mobile = append(w.pass.Mobile, p)
		return
	}
	w.pass.Peer = append(w.pass.Peer, p)
}
