package dnsio

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"roam"
	"roam/naming"

	"github.com/miekg/dns"
)

// Config holds the parameters of a server.
type Config struct {
	Listen   netip.AddrPort   // on loopback; port 0 selects a free one
	Prefix   roam.L64         // the session prefix
	Upstream []netip.AddrPort // queried in this order; empty: no forwarding
	// Asked is called before the server answers with a session address, whose first packet
	// probably follows; may be nil. The answer waits for its return.
	Asked func(roam.NID)
}

// Server answers on UDP and TCP. Its table and upstream servers may change
// while it runs.
type Server struct {
	listen netip.AddrPort
	prefix roam.L64
	asked  func(roam.NID)

	table    atomic.Pointer[naming.Table]
	upstream atomic.Pointer[[]netip.AddrPort]
	// flying bounds the forwarded questions in flight: if an upstream server forwards to
	// Roam in turn, the loop ends here.
	flying chan struct{}
	// stripped counts session addresses removed from upstream answers.
	stripped atomic.Uint64

	udp, tcp *dns.Server
	closing  context.Context
	stop     context.CancelFunc
}

// maxFlying is the number of forwarded questions in flight.
const maxFlying = 256

// Start answers questions until Close. Its errors say which program holds the port and what
// to do.
func Start(cfg Config) (*Server, error) {
	if !cfg.Listen.Addr().IsLoopback() {
		return nil, fmt.Errorf("listen for names on %v: not a loopback address, and others must not learn whom this "+
			"host knows", cfg.Listen)
	}
	pc, l, err := open(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for names on %v: %w", cfg.Listen, explain(cfg.Listen, err))
	}
	s := &Server{
		listen: l.Addr().(*net.TCPAddr).AddrPort(), prefix: cfg.Prefix, asked: cfg.Asked,
		flying: make(chan struct{}, maxFlying),
	}
	s.closing, s.stop = context.WithCancel(context.Background())
	empty, _ := naming.NewTable(nil)
	s.table.Store(empty)
	s.SetUpstream(cfg.Upstream)

	var ready sync.WaitGroup
	ready.Add(2)
	h := dns.HandlerFunc(s.serve)
	s.udp = &dns.Server{PacketConn: pc, Handler: h, NotifyStartedFunc: ready.Done}
	s.tcp = &dns.Server{Listener: l, Handler: h, NotifyStartedFunc: ready.Done}
	for _, srv := range []*dns.Server{s.udp, s.tcp} {
		// ActivateAndServe returns on shutdown; an earlier error can only be a closed
		// socket.
		go func() { _ = srv.ActivateAndServe() }()
	}
	ready.Wait()
	return s, nil
}

// open binds the same port for UDP and TCP.
func open(at netip.AddrPort) (net.PacketConn, net.Listener, error) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return nil, nil, err
	}
	at = l.Addr().(*net.TCPAddr).AddrPort()
	pc, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		_ = l.Close()
		return nil, nil, err
	}
	return pc, l, nil
}

// explain adds to a listen error the program that holds the port, and what to do.
func explain(at netip.AddrPort, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		who := holder("/proc", at.Port())
		if who == "" {
			who = "another program"
		}
		return fmt.Errorf("%w by %s; set dns.listen to another loopback address, such as 127.0.0.157:53, or dns.enabled = "+
			"false (systemd-resolved answers on 127.0.0.53 and 127.0.0.54)", err, who)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w; ports below 1024 are for root (or CAP_NET_BIND_SERVICE)", err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w; is the loopback interface up?", err)
	}
	return err
}

// Addr returns where the server listens.
func (s *Server) Addr() netip.AddrPort { return s.listen }

// SetTable replaces the table of local names.
func (s *Server) SetTable(t *naming.Table) { s.table.Store(t) }

// SetUpstream replaces the upstream servers. It ignores the server's own address.
func (s *Server) SetUpstream(servers []netip.AddrPort) {
	var keep []netip.AddrPort
	for _, u := range servers {
		if u != s.listen {
			keep = append(keep, u)
		}
	}
	s.upstream.Store(&keep)
}

// Upstream returns the upstream servers.
func (s *Server) Upstream() []netip.AddrPort { return *s.upstream.Load() }

// Close stops the server and releases its port.
func (s *Server) Close() error {
	s.stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// stop has cancelled the questions in flight; the time is for their replies.
	return errors.Join(s.udp.ShutdownContext(ctx), s.tcp.ShutdownContext(ctx))
}

// serve answers one question.
func (s *Server) serve(w dns.ResponseWriter, q *dns.Msg) {
	udp := w.RemoteAddr().Network() == "udp"
	reply := s.answer(q)
	if opt := q.IsEdns0(); opt != nil && reply.IsEdns0() == nil {
		reply.SetEdns0(dns.DefaultMsgSize, opt.Do())
	}
	if udp {
		size := dns.MinMsgSize
		if opt := q.IsEdns0(); opt != nil {
			size = max(size, int(opt.UDPSize()))
		}
		reply.Truncate(size)
	}
	_ = w.WriteMsg(reply) // the client may be gone
}

// answer returns the reply to q, from the table if the name is local.
func (s *Server) answer(q *dns.Msg) *dns.Msg {
	if q.Opcode != dns.OpcodeQuery || len(q.Question) != 1 {
		return refuse(q, dns.RcodeNotImplemented)
	}
	question := q.Question[0]
	if question.Qclass != dns.ClassINET && question.Qclass != dns.ClassANY {
		return s.forward(q)
	}
	table := s.table.Load()
	if alias, ok := s.sessionAlias(question.Name); ok {
		return reverse(q, table, alias)
	}
	rec, ok := table.ByName(question.Name)
	if !ok {
		return s.forward(q)
	}
	if q.CheckingDisabled {
		return s.original(q, rec)
	}
	return s.local(q, rec)
}
