package hostnet

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// What x/sys/unix lacks of linux/fib_rules.h and linux/xfrm.h.
const (
	sizeRule        = 12
	ruleUnreachable = 7 // as the action of a rule
	ruleInverted    = 2 // flag

	xfrmGetDefault = 0x28
	xfrmBlock      = 1 // as the default of a direction
	xfrmActBlock   = 1 // as the action of a policy
	xfrmOut        = 1
)

const (
	// policySettle is how long changes of policy are gathered: programs like
	// wg-quick make several at once.
	policySettle = 20 * time.Millisecond
	// policyEvery is the least time between two looks.
	policyEvery = 250 * time.Millisecond
)

// policies is the line to the kernel about policies. It belongs to the network
// namespace of the thread that opened it.
type policies struct {
	watches []*nl.NetlinkSocket
	dumps   map[int]*nl.SocketHandle // for looks
	asks    map[int]*nl.SocketHandle // for routes
	asking  sync.Mutex               // held while asks is in use
	ipsec   bool                     // the kernel has it
	changed chan struct{}
}

func openPolicies() (p *policies, err error) {
	p = &policies{dumps: map[int]*nl.SocketHandle{}, asks: map[int]*nl.SocketHandle{}, changed: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			p.close()
			err = fmt.Errorf("open netlink for policies: %w", err)
		}
	}()
	// Subscribed before anything is dumped, so that nothing falls between.
	w, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_IPV6_ROUTE)
	if err != nil {
		return p, err
	}
	p.watches = append(p.watches, w)
	if w, err := nl.Subscribe(unix.NETLINK_XFRM, nl.XFRMNLGRP_POLICY); err == nil {
		p.watches, p.ipsec = append(p.watches, w), true
	}
	for _, x := range []struct {
		sockets  map[int]*nl.SocketHandle
		protocol int
		wanted   bool
	}{{p.dumps, unix.NETLINK_ROUTE, true}, {p.asks, unix.NETLINK_ROUTE, true}, {p.dumps, unix.NETLINK_XFRM, p.ipsec}} {
		if !x.wanted {
			continue
		}
		s, err := nl.Subscribe(x.protocol)
		if err != nil {
			return p, err
		}
		x.sockets[x.protocol] = &nl.SocketHandle{Socket: s}
		if err := s.SetReceiveTimeout(&unix.Timeval{Sec: 10}); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p *policies) close() {
	for _, w := range p.watches {
		w.Close()
	}
	for _, sockets := range []map[int]*nl.SocketHandle{p.dumps, p.asks} {
		for _, s := range sockets {
			s.Socket.Close()
		}
	}
}

// read notes changes until the socket is closed.
func (p *policies) read(s *nl.NetlinkSocket) {
	for {
		messages, _, err := s.Receive()
		switch {
		case errors.Is(err, os.ErrClosed):
			return
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil && !errors.Is(err, unix.ENOBUFS):
			return
		}
		if err != nil || mayChangePolicy(messages) {
			select {
			case p.changed <- struct{}{}:
			default:
			}
		}
	}
}

// mayChangePolicy leaves out the routes that the kernel makes for single
// destinations and for its own addresses.
func mayChangePolicy(messages []syscall.NetlinkMessage) bool {
	for _, m := range messages {
		route := m.Header.Type == unix.RTM_NEWROUTE || m.Header.Type == unix.RTM_DELROUTE
		if !route || len(m.Data) < sizeRtMsg || m.Data[7] != unix.RTN_LOCAL && u32(m.Data[8:])&unix.RTM_F_CLONED == 0 {
			return true
		}
	}
	return false
}

// watch looks anew after changes and passes on what it finds.
func (p *policies) watch(to chan<- survey, done <-chan struct{}) {
	pause := time.NewTimer(time.Hour)
	defer pause.Stop()
	var last time.Time
	for {
		select {
		case <-done:
			return
		case <-p.changed:
		}
		pause.Reset(max(policySettle, policyEvery-time.Since(last)))
		select {
		case <-done:
			return
		case <-pause.C:
		}
		select {
		case <-p.changed: // seen by this look
		default:
		}
		last = time.Now()
		s, err := p.look()
		if err != nil {
			select {
			case p.changed <- struct{}{}: // again, after policyEvery
			default:
			}
			continue
		}
		select {
		case to <- s:
		case <-done:
			return
		}
	}
}

// look dumps rules and IPsec policies.
func (p *policies) look() (s survey, err error) {
	r := nl.NewNetlinkRequest(unix.RTM_GETRULE, unix.NLM_F_DUMP)
	r.Sockets = p.dumps
	r.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_INET6}})
	list, err := r.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWRULE)
	if err != nil {
		return s, fmt.Errorf("dump rules of routing: %w", err)
	}
	for _, b := range list {
		if x, ok := parseRule(b); ok {
			s.rules = append(s.rules, x)
			s.barred = s.barred || b[7] == ruleUnreachable
		}
	}
	if !p.ipsec {
		return s, nil
	}
	r = nl.NewNetlinkRequest(nl.XFRM_MSG_GETPOLICY, unix.NLM_F_DUMP)
	r.Sockets = p.dumps
	if list, err = r.Execute(unix.NETLINK_XFRM, nl.XFRM_MSG_NEWPOLICY); err != nil {
		return s, fmt.Errorf("dump IPsec policies: %w", err)
	}
	for _, b := range list {
		if x, ok := parsePolicy(b); ok {
			s.xfrm = append(s.xfrm, x)
		}
	}
	sortPolicies(s.xfrm)
	r = nl.NewNetlinkRequest(xfrmGetDefault, 0)
	r.Sockets = p.dumps
	r.AddRawData(make([]byte, 4))
	// Kernels before Linux 5.14 have no default that could block.
	if list, err := r.Execute(unix.NETLINK_XFRM, 0); err == nil && len(list) > 0 && len(list[0]) >= 3 {
		s.closed = list[0][2] == xfrmBlock
	}
	return s, nil
}

// parseRule reads a rule; false: it is one of the kernel's own three (local, main,
// and that of VRFs, which holds for bound sockets only), or one for marked or
// forwarded packets.
func parseRule(b []byte) (rule, bool) {
	if len(b) < sizeRule || b[0] != unix.AF_INET6 {
		return rule{}, false
	}
	a := attrs(b, sizeRule)
	x := rule{priority: u32(a[unix.FRA_PRIORITY]), table: uint32(b[4])}
	if t, ok := a[unix.FRA_TABLE]; ok {
		x.table = u32(t)
	}
	inverted := u32(b[8:])&ruleInverted != 0
	if iif := unix.ByteSliceToString(a[unix.FRA_IIFNAME]); !inverted && (u32(a[unix.FRA_FWMARK]) != 0 || iif != "" && iif != "lo") {
		return x, false
	}
	own := x == rule{0, unix.RT_TABLE_LOCAL} || x == rule{32766, unix.RT_TABLE_MAIN} || len(a[unix.FRA_L3MDEV]) > 0 && a[unix.FRA_L3MDEV][0] != 0
	return x, !own
}

// parsePolicy reads an IPsec policy; false: it is none for output of IPv6, or one
// for marked packets or for an xfrm device only.
func parsePolicy(b []byte) (xfrmPolicy, bool) {
	if len(b) < nl.SizeofXfrmUserpolicyInfo {
		return xfrmPolicy{}, false
	}
	m := nl.DeserializeXfrmUserpolicyInfo(b[:nl.SizeofXfrmUserpolicyInfo])
	a := attrs(b, nl.SizeofXfrmUserpolicyInfo)
	if mark := a[nl.XFRMA_MARK]; len(mark) >= 8 && u32(mark[4:]) != 0 && u32(mark) != 0 {
		return xfrmPolicy{}, false
	}
	if m.Dir != xfrmOut || m.Sel.Family != unix.AF_INET6 || u32(a[nl.XFRMA_IF_ID]) != 0 {
		return xfrmPolicy{}, false
	}
	prefix := func(x nl.XfrmAddress, length uint8) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom16([16]byte(x[:])), int(min(length, 128))).Masked()
	}
	return xfrmPolicy{
		src: prefix(m.Sel.Saddr, m.Sel.PrefixlenS), dst: prefix(m.Sel.Daddr, m.Sel.PrefixlenD),
		partial: m.Sel.Proto != 0 || m.Sel.SportMask != 0 || m.Sel.DportMask != 0,
		link:    int(m.Sel.Ifindex), priority: m.Priority,
		block: m.Action == xfrmActBlock, transforms: len(a[nl.XFRMA_TMPL]) > 0,
	}, true
}

// route asks the kernel how a packet leaves: one of a socket that is bound to a
// link, or to none (0).
func (p *policies) route(f Flow, link int, flags uint32) ([]byte, syscall.Errno) {
	r := nl.NewNetlinkRequest(unix.RTM_GETROUTE, 0)
	r.Sockets = p.asks
	r.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_INET6, Src_len: 128, Dst_len: 128, Flags: flags}})
	src, dst := f.Src.As16(), f.Dst.As16()
	r.AddData(nl.NewRtAttr(unix.RTA_SRC, src[:]))
	r.AddData(nl.NewRtAttr(unix.RTA_DST, dst[:]))
	if link != 0 {
		r.AddData(nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(link))))
	}
	list, err := r.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE)
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		return nil, errno
	case err != nil || len(list) == 0 || len(list[0]) < sizeRtMsg:
		return nil, unix.EIO
	}
	return list[0], 0
}

// wayOut asks for all that the judgement of a flow needs.
func (p *policies) wayOut(f Flow, links map[int]policyLink) (w wayOut) {
	p.asking.Lock()
	defer p.asking.Unlock()
	b, errno := p.route(f, 0, 0)
	if errno != 0 {
		_, bound := p.route(f, int(f.Link), 0)
		return wayOut{errno: errno, bound: bound}
	}
	a := attrs(b, sizeRtMsg)
	w = wayOut{link: int(u32(a[unix.RTA_OIF])), table: u32(a[unix.RTA_TABLE]), local: b[7] == unix.RTN_LOCAL}
	if l := links[w.link]; l.tunnel && !l.uplink {
		// The answer is about a clone; the route itself says how long its prefix is.
		if b, errno := p.route(f, 0, unix.RTM_F_FIB_MATCH); errno == 0 {
			w.length = int(b[1])
		}
	}
	return w
}

// Obstruction says why packets of a flow must not leave by its uplink: which policy
// of this host would take those of an ordinary socket elsewhere. "" means that none
// would. Without a policy it asks nothing.
func (h *Host) Obstruction(f Flow) string {
	p := h.policy.Load()
	if p == nil || !p.armed() {
		return ""
	}
	if why := p.ipsec(f); why != "" || !p.routed() {
		return why
	}
	return p.byRoute(f, h.policies.wayOut(f, p.links))
}

// Everything says why nothing at all from an address of this host may leave by an
// uplink.
func (h *Host) Everything(f Flow) string {
	f.Dst = anywhere
	return h.Obstruction(f)
}

// publishPolicy makes a policy of what is known, and tells when it may obstruct
// something that the one before did not, or the other way round. routes says that
// routes or rules may have changed besides.
func (h *Host) publishPolicy(routes bool) {
	if h.policies == nil {
		return
	}
	p := &policy{survey: h.survey, links: make(map[int]policyLink, len(h.table.links))}
	for i, l := range h.table.links {
		_, uplink := h.picture.uplinks[i]
		p.links[i] = policyLink{name: l.name, uplink: uplink, tunnel: l.tunnel() && l.up()}
	}
	old := h.policy.Swap(p)
	was := old != nil && old.armed()
	if p.armed() != was || p.armed() && (routes || !reflect.DeepEqual(old, p)) {
		h.pending = append(h.pending, PolicyChanged{Armed: p.armed()})
	}
}

// startPolicies takes the first look, before the first Locator is told, and
// watches from then on.
func (h *Host) startPolicies() error {
	if h.policies == nil {
		return nil
	}
	s, err := h.policies.look()
	if err != nil {
		return err
	}
	h.survey = s
	for _, w := range h.policies.watches {
		go h.policies.read(w)
	}
	go h.policies.watch(h.surveys, h.done)
	return nil
}
