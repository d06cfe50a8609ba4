package hostnet

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// groups are the multicast groups of rtnetlink that the watch reads.
var groups = []uint{
	unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV6_IFADDR,
	unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV6_IFINFO, unix.RTNLGRP_IPV6_PREFIX,
	unix.RTNLGRP_IPV6_NETCONF, // forwarding
}

// watchBuffer holds some ten thousand messages; a host that sends more while
// we do not run makes us read everything anew.
const watchBuffer = 4 << 20

// batch is what one read of the watch socket gave.
type batch struct {
	messages []syscall.NetlinkMessage
	lost     bool  // the kernel dropped messages
	err      error // the socket is of no use any more
}

// subscription is the socket of the watch.
type subscription struct {
	*nl.NetlinkSocket
	again *os.File // the same socket, read without waiting
}

// listen subscribes before anything is dumped, so that nothing falls between.
func listen() (*subscription, error) {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE, groups...)
	if err != nil {
		return nil, fmt.Errorf("subscribe to netlink: %w", err)
	}
	fd, err := unix.FcntlInt(uintptr(s.GetFd()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("subscribe to netlink: %w", err)
	}
	// Best effort: without CAP_NET_ADMIN the system's default holds.
	_ = s.SetReceiveBufferSize(watchBuffer, true)
	return &subscription{s, os.NewFile(uintptr(fd), "netlink")}, nil
}

// Close ends the subscription, and a read that waits.
func (s *subscription) Close() {
	s.NetlinkSocket.Close()
	s.again.Close()
}

// drain throws away what is queued behind a loss, to the last message. That is
// older than the dump that follows, and would bring back what a lost message
// removed. And the kernel drops all further messages, and tells no further loss,
// until the queue has been empty: a message left there would hide changes made
// after the dump.
func (s *subscription) drain() error {
	raw, err := s.again.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) {
		var b [1]byte
		for {
			_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_DONTWAIT)
			if err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
}

// read passes batches on until the socket is closed.
func read(s *subscription, to chan<- batch, done <-chan struct{}) {
	for {
		messages, from, err := s.Receive()
		b := batch{messages: messages}
		switch {
		case errors.Is(err, unix.ENOBUFS):
			b = batch{lost: true}
			if s.drain() != nil {
				return // closed
			}
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, os.ErrClosed):
			return
		case err != nil:
			b.err = err
		case from.Pid != nl.PidKernel:
			continue // another process may send to our port
		}
		select {
		case to <- b:
		case <-done:
			return
		}
		if b.err != nil {
			return
		}
	}
}

// resync builds a table by dumps. What routers advertised cannot be dumped; it
// is taken over from the old table, if there is one, for the links that are
// still there.
func (k *kernel) resync(old *table, now time.Time) (*table, error) {
	t := newTable()
	t.session = k.session
	if old != nil {
		t.heard, t.held, t.forwarded, t.excess = old.heard, old.held, old.forwarded, old.excess
	}
	steps := []struct {
		get  int
		give uint16
		body nl.NetlinkRequestData
	}{
		{unix.RTM_GETLINK, unix.RTM_NEWLINK, nl.NewIfInfomsg(unix.AF_UNSPEC)},
		{unix.RTM_GETADDR, unix.RTM_NEWADDR, nl.NewIfAddrmsg(unix.AF_INET6)},
		{unix.RTM_GETNEIGH, unix.RTM_NEWNEIGH, &netlink.Ndmsg{Family: unix.AF_INET6}},
	}
	for _, s := range steps {
		list, err := k.dump(s.get, s.give, s.body)
		if err != nil {
			return nil, fmt.Errorf("dump kernel state: %w", err)
		}
		for _, b := range list {
			t.apply(syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: s.give}, Data: b}, now)
		}
	}
	for index, l := range t.links {
		l.facts = k.facts(l.name)
		t.links[index] = l
	}
	if old != nil {
		maps.Copy(t.ras, old.ras)
		for l := range old.ras {
			if x, ok := t.links[int(l.Link)]; !ok || x.flags&unix.IFF_UP == 0 {
				delete(t.ras, l)
			}
		}
	}
	return t, k.readRoutes(t, true, now)
}

// readRoutes replaces the default routes of a table and those to prefixes by a
// dump, and if asked to the local ones too.
func (k *kernel) readRoutes(t *table, locals bool, now time.Time) error {
	list, err := k.dump(unix.RTM_GETROUTE, unix.RTM_NEWROUTE,
		&nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_INET6}})
	if err != nil {
		return fmt.Errorf("dump routes: %w", err)
	}
	old := t.routes
	t.routes, t.sessionRoutes = nil, nil
	clear(t.onLink)
	for _, b := range list {
		if rt, ok := t.sessionRouteOf(b); ok {
			t.sessionRoutes = append(t.sessionRoutes, rt)
		}
		for _, rt := range defaults(b, now) {
			t.routes = append(t.routes, rt.settleExpiry(old, now))
		}
		if locals || len(b) > 1 && b[1] == 64 {
			t.applyRoute(syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.RTM_NEWROUTE}, Data: b}, now)
		}
	}
	t.addHeld(now)
	return nil
}

// applyAll takes messages into the table. It reports whether default routes may have changed, and for which links the
// facts may have.
func (t *table) applyAll(messages []syscall.NetlinkMessage, now time.Time) (routes bool, links map[int]bool) {
	links = map[int]bool{}
	for _, m := range messages {
		w := t.apply(m, now)
		routes = routes || w.routes
		if w.link != 0 {
			links[w.link] = true
		}
	}
	return routes, links
}

// absorb takes a batch into the table and asks the kernel for what the
// messages only hint at.
func (h *Host) absorb(b batch, now time.Time) error {
	if b.lost {
		t, err := h.kernel.resync(h.table, now)
		if err != nil {
			return err
		}
		h.table = t
		return nil
	}
	routes, links := h.table.applyAll(b.messages, now)
	for index := range links {
		if l, ok := h.table.links[index]; ok && h.rules.accepts(l.name) {
			l.facts = h.kernel.facts(l.name)
			h.table.links[index] = l
		}
	}
	if routes || h.table.overdue(now) {
		return h.kernel.readRoutes(h.table, false, now)
	}
	return nil
}

// run is the goroutine behind Events. It owns table, picture and journal.
func (h *Host) run(batches <-chan batch) {
	defer close(h.stopped)
	defer close(h.events)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var out chan Event
		var next Event
		if len(h.pending) == 0 {
			h.fitDirect() // what was to be told first is
			h.fitFormer()
		}
		if len(h.pending) > 0 {
			out, next = h.events, h.pending[0]
		}
		var err error
		select {
		case <-h.done:
			return
		case out <- next:
			h.pending = h.pending[1:]
			if !h.noteActed(next) || h.stale {
				continue
			}
		case b := <-batches:
			if b.err != nil {
				h.lastWords(b.err)
				return
			}
			if h.stale {
				// The timer has it all read anew, except what routers advertise: no dump has that.
				h.table.applyAll(b.messages, time.Now())
				continue
			}
			err = h.absorb(b, time.Now())
		case s := <-h.surveys:
			h.survey = s
			h.publishPolicy(true)
			continue
		case <-h.redirected:
			continue
		case <-timer.C:
			// An expired route may have been prolonged, which is not announced.
			err = h.absorb(batch{lost: h.stale}, time.Now())
			if err == nil && !h.stale {
				err = h.kernel.readRoutes(h.table, false, time.Now())
			}
		}
		h.stale = err != nil
		if err != nil {
			h.pending = append(h.pending, Trouble{Reason: err.Error()})
			timer.Reset(retryDump)
			continue
		}
		timer.Stop()
		if at := h.settle(time.Now()); !at.IsZero() {
			timer.Reset(max(time.Until(at), minSleep))
		}
	}
}

const (
	// retryDump is the pause after the kernel refused a dump.
	retryDump = 250 * time.Millisecond
	// minSleep keeps a deadline that lies in the past from spinning.
	minSleep = time.Millisecond
)

// lastWords tells why the stream ends, if it does not end by Close.
func (h *Host) lastWords(err error) {
	select {
	case h.events <- Trouble{Reason: fmt.Sprintf("watch of the network ended: %v", err)}:
	case <-h.done:
	}
}
