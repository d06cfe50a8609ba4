package acceptance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/testutil"
	"roam/lab/node"
	"roam/lab/packets"
	"roam/lab/site"
	"roam/lab/topo"
)

const (
	hostsEvery   = 40 * time.Millisecond           // between datagrams of a direction, and requests
	hostsRequest = 512                             // bytes of a request and of its answer
	hostsRounds  = 30                              // requests of each connection after the change
	hostsNID     = roam.NID(0x1000_0000_0001_0000) // of the first
	hostsUDP     = 7000
	hostsTCP     = 7001
)

// siteHost is a host inside, with a flow of numbered datagrams both ways and a connection.
type siteHost struct {
	nid      roam.NID
	host     *topo.Host
	udp, tcp net.Conn
	sent     [2][]time.Time // of datagrams by number: up, down
	got      [2]map[uint32]bool
	answered int // requests
	failed   error
}

// siteHosts is the traffic of all hosts of a site with one outside. Its sockets are the kernel's; this
// process has both ends.
type siteHosts struct {
	mu    sync.Mutex
	all   []*siteHost
	far   net.PacketConn
	peers map[int]net.Addr // of the far socket, by host
	conns []net.Conn       // of the far end of connections
	stop  chan struct{}
	ended sync.WaitGroup
}

// newSiteOfHosts builds a site with n hosts on one link, each with a daemon of its own. The
// site's own inside host is the switch between them and the border.
func newSiteOfHosts(t *testing.T, n int) (*site.Site, *siteHosts) {
	t.Helper()
	needs(t, "ip")
	ctx, stop := context.WithCancel(context.Background()) // the daemons run until what they say is logged
	s, err := site.New("hosts", false)
	t.Cleanup(func() {
		defer stop()
		if t.Failed() {
			explain(t, s)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err == nil {
		err = s.Roam(binaries, "", site.Section(0, site.Policy(0, "vlb", 50, 50), ""))
	}
	if err == nil {
		err = errors.Join(s.Border.Start(ctx), s.Outside.Start(ctx), s.Outside.WaitActive(ctx, "net1"))
	}
	if err != nil {
		t.Fatal(err)
	}
	ip := func(args ...string) error { return s.InsideHost.Command(ctx, append([]string{"ip"}, args...)...).Run() }
	testutil.NeedKernel(t, "bridge", ip("link", "add", "br0", "type", "bridge", "forward_delay", "0") == nil)
	if err := errors.Join(ip("link", "set", "net1", "master", "br0"), ip("link", "set", "br0", "up")); err != nil {
		t.Fatal(err)
	}
	h := &siteHosts{peers: map[int]net.Addr{}, stop: make(chan struct{})}
	free := make(chan struct{}, runtime.NumCPU())
	errs := make(chan error, n)
	for i := range n {
		h.all = append(h.all, &siteHost{nid: hostsNID + roam.NID(i), got: [2]map[uint32]bool{{}, {}}})
	}
	for i, one := range h.all {
		go func() {
			free <- struct{}{}
			defer func() { <-free }()
			errs <- one.join(ctx, s, i)
		}()
	}
	for range n {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, h
}

// join makes a host, connects it to the switch, and starts its daemon.
func (one *siteHost) join(ctx context.Context, s *site.Site, i int) (err error) {
	if one.host, err = s.Lab.Host(fmt.Sprintf("h%d", i)); err != nil {
		return err
	}
	port := fmt.Sprintf("p%d", i)
	if err := s.Lab.Veth(one.host, "net1", s.InsideHost, port); err != nil {
		return err
	}
	if err := s.InsideHost.Command(ctx, "ip", "link", "set", port, "master", "br0").Run(); err != nil {
		return fmt.Errorf("connect %s to the switch: %w", one.host.Name(), err)
	}
	d, err := node.New(one.host, binaries, node.Options{
		NID: one.nid, Mode: "duality", More: "[ilnp]\nmax_sessions = 256\n",
		Hosts: fmt.Sprintf("nid=%s l64=%s,10 outside\n", site.OutsideNID, site.External),
	})
	if err == nil {
		err = d.Start(ctx)
	}
	if err == nil {
		err = d.WaitActive(ctx, "net1")
	}
	if err != nil {
		return err
	}
	return one.host.Do(func() (err error) {
		one.udp, err = net.Dial("udp6", netip.AddrPortFrom(site.Session(site.OutsideNID), hostsUDP).String())
		return err
	})
}

// start begins all traffic. The connections are opened by the hosts.
func (h *siteHosts) start(t *testing.T, s *site.Site) {
	t.Helper()
	own := site.Session(site.OutsideNID)
	var listener net.Listener
	err := s.Far.Do(func() (err error) {
		if h.far, err = net.ListenPacket("udp6", netip.AddrPortFrom(own, hostsUDP).String()); err == nil {
			listener, err = net.Listen("tcp6", netip.AddrPortFrom(own, hostsTCP).String())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	h.ended.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			h.mu.Lock()
			h.conns = append(h.conns, c)
			h.mu.Unlock()
			h.ended.Go(func() { _, _ = io.Copy(c, c) }) // a connection that breaks is seen at its other end
		}
	})
	h.ended.Go(h.receiveFar)
	t.Cleanup(func() {
		h.halt()
		closing := []io.Closer{listener, h.far}
		for _, one := range h.all {
			if one.udp != nil {
				closing = append(closing, one.udp)
			}
			if one.tcp != nil {
				closing = append(closing, one.tcp)
			}
		}
		h.mu.Lock()
		for _, c := range h.conns {
			closing = append(closing, c)
		}
		h.mu.Unlock()
		for _, c := range closing {
			_ = c.Close() // ends whoever reads from it
		}
		h.ended.Wait()
	})
	for _, one := range h.all {
		err := one.host.Do(func() (err error) {
			one.tcp, err = net.DialTimeout("tcp6", netip.AddrPortFrom(own, hostsTCP).String(), patience)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		h.ended.Go(func() { h.receive(one) })
		h.ended.Go(func() { h.ask(one) })
	}
	h.ended.Go(h.send)
}

// halt ends the sending.
func (h *siteHosts) halt() {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.stop:
	default:
		close(h.stop)
	}
}

// send sends datagrams of all hosts, and to all that the far end knows.
func (h *siteHosts) send() {
	tick := time.NewTicker(hostsEvery)
	defer tick.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-tick.C:
		}
		for i, one := range h.all {
			h.mu.Lock()
			peer := h.peers[i]
			h.mu.Unlock()
			h.write(one, 0, i, func(b []byte) error { _, err := one.udp.Write(b); return err })
			if peer != nil {
				h.write(one, 1, i, func(b []byte) error { _, err := h.far.WriteTo(b, peer); return err })
			}
		}
	}
}

// write sends a datagram of a host in one direction.
func (h *siteHosts) write(one *siteHost, direction, i int, write func([]byte) error) {
	var b [8]byte
	binary.BigEndian.PutUint32(b[:], uint32(i))
	binary.BigEndian.PutUint32(b[4:], uint32(len(one.sent[direction])))
	now := time.Now()
	h.mu.Lock()
	one.sent[direction] = append(one.sent[direction], now)
	h.mu.Unlock()
	_ = write(b[:]) // one that is refused counts as lost
}

// receiveFar receives what comes from the hosts.
func (h *siteHosts) receiveFar() {
	b := make([]byte, 64)
	for {
		n, from, err := h.far.ReadFrom(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if i := int(binary.BigEndian.Uint32(b)); err == nil && n == 8 && i < len(h.all) {
			h.mu.Lock()
			h.peers[i] = from
			h.all[i].got[0][binary.BigEndian.Uint32(b[4:])] = true
			h.mu.Unlock()
		}
	}
}

// receive receives what comes to a host.
func (h *siteHosts) receive(one *siteHost) {
	b := make([]byte, 64)
	for {
		n, err := one.udp.Read(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && n == 8 {
			h.mu.Lock()
			one.got[1][binary.BigEndian.Uint32(b[4:])] = true
			h.mu.Unlock()
		}
	}
}

// ask sends requests over a host's connection, and waits for each answer.
func (h *siteHosts) ask(one *siteHost) {
	tick := time.NewTicker(hostsEvery)
	defer tick.Stop()
	b := make([]byte, hostsRequest)
	for {
		select {
		case <-h.stop:
			return
		case <-tick.C:
		}
		_, err := one.tcp.Write(b)
		if err == nil {
			_, err = io.ReadFull(one.tcp, b)
		}
		h.mu.Lock()
		one.answered++
		one.failed = err
		h.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// each returns a figure of every host.
func (h *siteHosts) each(figure func(*siteHost) int) (list []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.all {
		list = append(list, figure(one))
	}
	return list
}

// answered is how many requests of each host have been answered.
func (h *siteHosts) answered() []int { return h.each(func(one *siteHost) int { return one.answered }) }

// more waits until so many requests more of each host have been answered.
func (h *siteHosts) more(t *testing.T, n int, what string) {
	t.Helper()
	before := h.answered()
	testutil.Eventually(t, patience, func() bool {
		for i, now := range h.answered() {
			if now < before[i]+n {
				return false
			}
		}
		return true
	}, what)
}

// retransmitted is how many segments both ends of all connections have retransmitted.
func (h *siteHosts) retransmitted(t *testing.T) (n int) {
	t.Helper()
	h.mu.Lock()
	list := slices.Clone(h.conns)
	h.mu.Unlock()
	for _, one := range h.all {
		list = append(list, one.tcp)
	}
	for _, c := range list {
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var info *unix.TCPInfo
		var failure error
		err = raw.Control(func(fd uintptr) {
			info, failure = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		})
		if err := errors.Join(err, failure); err != nil {
			t.Fatal(err)
		}
		n += int(info.Total_retrans)
	}
	return n
}

// lost returns how many of a host's datagrams are missing in a direction, of those sent since a time and
// of those before it, and when the last one of them all was sent.
func (one *siteHost) lost(direction int, since time.Time) (after, before int, last time.Time) {
	for number, at := range one.sent[direction] {
		if one.got[direction][uint32(number)] {
			continue
		}
		if last = at; at.Before(since) {
			before++
		} else {
			after++
		}
	}
	return after, before, last
}

// allKnow waits until the outside node has acknowledged so many locators of each of n flows.
func allKnow(t *testing.T, s *site.Site, n, locators int) {
	t.Helper()
	testutil.Eventually(t, patience, func() bool {
		r, err := site.Report(t.Context(), s.Border)
		return err == nil && len(r.Flows) == n && !slices.ContainsFunc(r.Flows, func(f site.BorderFlow) bool {
			return len(f.Announced) != locators
		})
	}, fmt.Sprintf("the outside node has acknowledged %d locators of %d flows", locators, n))
}

// exchanges returns for each inside host when the border's update that lists one locator alone left, and
// when its acknowledgement came back, since a time.
func exchanges(t *testing.T, file string, alone roam.L64, since time.Time) (out, back map[roam.NID]time.Time) {
	t.Helper()
	list, err := packets.Read(file, "wan1")
	if err != nil {
		t.Fatal(err)
	}
	out, back = map[roam.NID]time.Time{}, map[roam.NID]time.Time{}
	for _, p := range list {
		c, _, ok := p.Control()
		if !ok || p.At.Before(since) {
			continue
		}
		u, ok := c.Update()
		if !ok || len(u.Locators) != 1 || u.Locators[0].L64 != alone {
			continue
		}
		at, nid := out, c.SourceNID()
		if u.Ack {
			at, nid = back, roam.ILVFromAddr(c.Dst).NID
		}
		if at[nid].IsZero() {
			at[nid] = p.At
		}
	}
	return out, back
}

// TestBorderHosts has the hosts of a site exchange datagrams and TCP with a host outside while the link to
// one of two providers goes down: none of what is sent once a host's Locator Update has been acknowledged is lost,
// and all connections go on.
// ROAM_HOSTS is the number of hosts.
func TestBorderHosts(t *testing.T) {
	n := askedFor(t, "ROAM_HOSTS", 8)
	s, h := newSiteOfHosts(t, n)
	h.start(t, s)
	allKnow(t, s, n, 2)
	h.more(t, hostsRounds, "all connections carry requests")
	file := filepath.Join(t.TempDir(), "updates.pcap")
	w, err := s.Router.Capture(t.Context(), "wan1", file, 300, "ip6[48]==156 or udp port 6740")
	if err != nil {
		t.Fatal(err)
	}
	gone := time.Now()
	if err := s.Router.SetDown("wan0"); err != nil {
		t.Fatal(err)
	}
	allKnow(t, s, n, 1)
	h.more(t, 1, "all connections carry requests after the link went")
	again := h.retransmitted(t)
	h.more(t, hostsRounds, "all connections go on")
	again = h.retransmitted(t) - again
	h.halt()
	if _, err := w.Stop(); err != nil {
		t.Error(err)
	}
	out, back := exchanges(t, file, roam.ILVFromAddr(site.Providers[0][1].Addr()).L64, gone)
	if len(back) != n || len(out) != n {
		t.Fatalf("updates of %d hosts left, and those of %d were acknowledged, of %d", len(out), len(back), n)
	}
	var last time.Time
	var lostAfter, lostBefore, sentAfter int
	count := func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		lostAfter, lostBefore, sentAfter, last = 0, 0, 0, time.Time{}
		for _, one := range h.all {
			for direction := range one.sent {
				after, before, at := one.lost(direction, back[one.nid])
				lostAfter, lostBefore = lostAfter+after, lostBefore+before
				if at.After(last) {
					last = at
				}
				for _, at := range one.sent[direction] {
					if !at.Before(back[one.nid]) {
						sentAfter++
					}
				}
			}
		}
		return lostAfter
	}
	testutil.Wait(time.Second, func() bool { return count() == 0 }) // the last ones may be on their way
	since := func(at time.Time) time.Duration { return at.Sub(gone).Round(100 * time.Microsecond) }
	latest := func(all map[roam.NID]time.Time) time.Time {
		return slices.MaxFunc(slices.Collect(maps.Values(all)), time.Time.Compare)
	}
	t.Logf("%d hosts: the last update left %v after the link went, the last acknowledgement came after %v; %d "+
		"datagrams were lost before, the last one sent after %v; %d of %d after; %d segments were retransmitted after",
		n,
		since(latest(out)), since(latest(back)), lostBefore, since(last), lostAfter, sentAfter, again)
	if lostAfter > 0 || sentAfter < n*hostsRounds {
		t.Errorf("%d of %d datagrams that were sent after the acknowledgement are lost", lostAfter, sentAfter)
	}
	if again > 0 {
		t.Errorf("%d segments were retransmitted after all connections had gone on", again)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, one := range h.all {
		if one.failed != nil {
			t.Errorf("the connection of host %d: %v", i, one.failed)
		}
	}
}
