package dnsio

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"roam"
	"roam/naming"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// upstream is a server that answers every name under "example." with one
// address, "big.example." with more than fits a datagram, and nothing else.
type upstream struct {
	addr  netip.AddrPort
	asked atomic.Int32
	tcp   atomic.Int32
}

func startUpstream(t *testing.T) *upstream {
	t.Helper()
	pc, l, err := open(loopback)
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{addr: l.Addr().(*net.TCPAddr).AddrPort()}
	h := dns.HandlerFunc(u.serve)
	for _, s := range []*dns.Server{{PacketConn: pc, Handler: h}, {Listener: l, Handler: h}} {
		ready := make(chan struct{})
		s.NotifyStartedFunc = func() { close(ready) }
		go func() { _ = s.ActivateAndServe() }()
		<-ready
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return u
}

func (u *upstream) serve(w dns.ResponseWriter, q *dns.Msg) {
	u.asked.Add(1)
	udp := w.RemoteAddr().Network() == "udp"
	if !udp {
		u.tcp.Add(1)
	}
	m := new(dns.Msg).SetReply(q)
	name := q.Question[0].Name
	n := 1
	if name == "big.example." {
		n = 100
	}
	switch {
	case !strings.HasSuffix(strings.ToLower(name), "example."):
		m.Rcode = dns.RcodeNameError
	case strings.HasPrefix(strings.ToLower(name), "rebind."):
		rebind(m)
	case q.Question[0].Qtype == dns.TypeAAAA:
		for i := range n {
			a := netip.MustParseAddr("2001:db8::").As16()
			a[15] = byte(i)
			m.Answer = append(m.Answer, aaaa(name, netip.AddrFrom16(a)))
		}
	case q.Question[0].Qtype == dns.TypeTXT:
		m.Answer = append(m.Answer, &dns.TXT{Hdr: header(name, dns.TypeTXT), Txt: []string{"upstream"}})
	}
	if udp {
		m.Truncate(dns.MinMsgSize)
	}
	_ = w.WriteMsg(m)
}

// rebind answers with session addresses wherever an address can stand.
func rebind(m *dns.Msg) {
	name := m.Question[0].Name
	session := roam.ILV{L64: roam.DefaultSessionPrefix, NID: 0x0011_22ff_0000_0002}.Addr()
	real := netip.MustParseAddr("2001:db8::5")
	m.AuthenticatedData = true
	binding := dns.SVCB{
		Hdr: header(name, dns.TypeHTTPS), Priority: 1, Target: ".",
		Value: []dns.SVCBKeyValue{&dns.SVCBPort{Port: 8443},
			&dns.SVCBIPv6Hint{Hint: []net.IP{session.AsSlice(), real.AsSlice()}}},
	}
	only := dns.SVCB{
		Hdr: header(name, dns.TypeHTTPS), Priority: 2, Target: ".",
		Value: []dns.SVCBKeyValue{&dns.SVCBIPv6Hint{Hint: []net.IP{session.AsSlice()}}},
	}
	switch m.Question[0].Qtype {
	case dns.TypeAAAA:
		m.Answer = append(m.Answer, aaaa(name, session), aaaa(name, real))
	case dns.TypeHTTPS:
		m.Answer = append(m.Answer, &dns.HTTPS{SVCB: binding}, &dns.HTTPS{SVCB: only})
	case dns.TypeMX:
		m.Answer = append(m.Answer, &dns.MX{Hdr: header(name, dns.TypeMX), Mx: name})
		m.Extra = append(m.Extra, aaaa(name, session))
	}
}

// TestSessionAddressesOfOthers: only this host says what a session address stands
// for, whatever a question asks for.
func TestSessionAddressesOfOthers(t *testing.T) {
	s := start(t, startUpstream(t).addr)
	count := uint64(0)
	for _, c := range []struct {
		q    query
		n    uint64 // session addresses taken out
		left int    // records of the answer
	}{
		{query{name: "rebind.example", kind: dns.TypeAAAA}, 1, 1},
		{query{name: "rebind.example", kind: dns.TypeAAAA, cd: true}, 1, 1},
		{query{name: "rebind.example", kind: dns.TypeAAAA, net: "tcp"}, 1, 1},
		{query{name: "rebind.example", kind: dns.TypeHTTPS}, 2, 2},
		{query{name: "rebind.example", kind: dns.TypeMX}, 1, 1},
		{query{name: "other.example", kind: dns.TypeAAAA}, 0, 1},
	} {
		r := s.ask(t, c.q)
		count += c.n
		if text := r.String(); strings.Contains(text, "fd69:6c6e:7000:2627") || len(r.Answer) != c.left ||
			c.n > 0 && r.AuthenticatedData {
			t.Errorf("%+v: %s", c.q, text)
		}
		if got := s.Stripped(); got != count {
			t.Errorf("%+v: %d counted in all, want %d", c.q, got, count)
		}
	}
}

func start(t *testing.T, up ...netip.AddrPort) *Server {
	t.Helper()
	return startWith(t, Config{Listen: loopback, Prefix: roam.DefaultSessionPrefix, Upstream: up})
}

func startWith(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	table, errs := naming.NewTable([]naming.Record{
		{
			NID: 0x0011_22ff_0000_0001, Names: []string{"server", "known.example"},
			Locators: []naming.Locator{{L64: 0x2001_0db8_0001_0001, Preference: 10},
				{L64: 0x2001_0db8_0002_0001, Preference: 20}},
		},
	})
	if errs != nil {
		t.Fatal(errs)
	}
	s.SetTable(table)
	return s
}

// TestAsked: a program that gets a session address is about to send there; other questions
// about a name do not imply that.
func TestAsked(t *testing.T) {
	asked := make(chan roam.NID, 8)
	s := startWith(t, Config{Listen: loopback, Prefix: roam.DefaultSessionPrefix, Asked: func(n roam.NID) { asked <- n }})
	for _, q := range []query{{name: "server", kind: dns.TypeA}, {name: "server", kind: dns.TypeL64},
		{name: "other", kind: dns.TypeAAAA}, {name: "server", kind: dns.TypeAAAA, cd: true}} {
		s.ask(t, q)
	}
	if len(asked) != 0 {
		t.Errorf("%v asked for by other questions", <-asked)
	}
	s.ask(t, query{name: "server", kind: dns.TypeAAAA})
	if len(asked) != 1 || <-asked != 0x0011_22ff_0000_0001 {
		t.Error("nobody hears that the session address was given out, or often")
	}
}

type query struct {
	name string
	kind uint16
	cd   bool
	net  string
	size uint16
}

func (s *Server) ask(t *testing.T, q query) *dns.Msg {
	t.Helper()
	m := new(dns.Msg).SetQuestion(dns.Fqdn(q.name), q.kind)
	m.CheckingDisabled = q.cd
	if q.size > 0 {
		m.SetEdns0(q.size, false)
	}
	c := dns.Client{Net: q.net, Timeout: 5 * time.Second}
	r, _, err := c.Exchange(m, s.Addr().String())
	if err != nil {
		t.Fatalf("ask %+v: %v", q, err)
	}
	return r
}

// text returns the data of the answers, without names and times.
func text(r *dns.Msg) []string {
	out := []string{dns.RcodeToString[r.Rcode]}
	for _, rr := range r.Answer {
		out = append(out, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	return out
}

const sessionText = "fd69:6c6e:7000:2627:11:22ff:0:1"

func TestAnswers(t *testing.T) {
	u := startUpstream(t)
	alone, connected := start(t), start(t, u.addr)
	rev, err := dns.ReverseAddr(sessionText)
	if err != nil {
		t.Fatal(err)
	}
	unknown, _ := dns.ReverseAddr("fd69:6c6e:7000:2627::9")
	elsewhere, _ := dns.ReverseAddr("2001:db8::1")
	real := []string{"NOERROR", "2001:db8:1:1:11:22ff:0:1", "2001:db8:2:1:11:22ff:0:1"}
	for _, tc := range []struct {
		name string
		s    *Server
		q    query
		want []string
	}{
		{"one session address", alone, query{name: "server", kind: dns.TypeAAAA}, []string{"NOERROR", sessionText}},
		{"any case", alone, query{name: "SERVER", kind: dns.TypeAAAA}, []string{"NOERROR", sessionText}},
		{"over TCP", alone, query{name: "server", kind: dns.TypeAAAA, net: "tcp"}, []string{"NOERROR", sessionText}},
		{"also where upstream knows the name", connected, query{name: "known.example", kind: dns.TypeAAAA},
			[]string{"NOERROR", sessionText}},
		{"no IPv4", connected, query{name: "known.example", kind: dns.TypeA}, []string{"NOERROR"}},
		{"no address hints", connected, query{name: "known.example", kind: dns.TypeHTTPS}, []string{"NOERROR"}},
		{"NID", alone, query{name: "server", kind: dns.TypeNID}, []string{"NOERROR", "10 0011:22ff:0000:0001"}},
		{"L64", alone, query{name: "server", kind: dns.TypeL64}, []string{"NOERROR", "10 2001:0DB8:0001:0001",
			"20 2001:0DB8:0002:0001"}},
		{"other types from upstream", connected, query{name: "known.example", kind: dns.TypeTXT},
			[]string{"NOERROR", `"upstream"`}},
		{"other types that nobody has", connected, query{name: "server", kind: dns.TypeTXT}, []string{"NOERROR"}},
		{"CD without upstream", alone, query{name: "server", kind: dns.TypeAAAA, cd: true}, real},
		{"CD, unknown upstream", connected, query{name: "server", kind: dns.TypeAAAA, cd: true}, real},
		{"CD, known upstream", connected, query{name: "known.example", kind: dns.TypeAAAA, cd: true},
			[]string{"NOERROR", "2001:db8::"}},
		{"CD, NID", alone, query{name: "server", kind: dns.TypeNID, cd: true}, []string{"NOERROR", "10 0011:22ff:0000:0001"}},
		{"reverse", alone, query{name: rev, kind: dns.TypePTR}, []string{"NOERROR", "server."}},
		{"reverse, other type", alone, query{name: rev, kind: dns.TypeTXT}, []string{"NOERROR"}},
		{"reverse of a newcomer", connected, query{name: unknown, kind: dns.TypePTR}, []string{"NXDOMAIN"}},
		{"reverse elsewhere", alone, query{name: elsewhere, kind: dns.TypePTR}, []string{"SERVFAIL"}},
		{"forwarded", connected, query{name: "other.example", kind: dns.TypeAAAA}, []string{"NOERROR", "2001:db8::"}},
		{"unknown", connected, query{name: "nobody.test", kind: dns.TypeAAAA}, []string{"NXDOMAIN"}},
		{"nothing upstream", alone, query{name: "other.example", kind: dns.TypeAAAA}, []string{"SERVFAIL"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, text(tc.s.ask(t, tc.q))); d != "" {
				t.Errorf("%+v (-want +got):\n%s", tc.q, d)
			}
		})
	}
}

func TestBigAnswers(t *testing.T) {
	u := startUpstream(t)
	s := start(t, u.addr)
	if r := s.ask(t, query{name: "big.example", kind: dns.TypeAAAA}); !r.Truncated {
		t.Errorf("%d answers in a datagram of 512 bytes, not truncated", len(r.Answer))
	}
	if u.tcp.Load() == 0 {
		t.Error("a truncated answer did not make us ask over TCP")
	}
	if r := s.ask(t, query{name: "big.example", kind: dns.TypeAAAA, net: "tcp"}); len(r.Answer) != 100 || r.Truncated {
		t.Errorf("over TCP: %d answers, truncated %v", len(r.Answer), r.Truncated)
	}
	if r := s.ask(t, query{name: "big.example", kind: dns.TypeAAAA, size: 4096}); len(r.Answer) != 100 ||
		r.IsEdns0() == nil {
		t.Errorf("with EDNS: %d answers, option %v", len(r.Answer), r.IsEdns0())
	}
}

func TestUpstreamFailover(t *testing.T) {
	// A port without listener refuses at once.
	pc, l, err := open(loopback)
	if err != nil {
		t.Fatal(err)
	}
	dead := l.Addr().(*net.TCPAddr).AddrPort()
	_, _ = pc.Close(), l.Close()
	u := startUpstream(t)
	s := start(t, dead, u.addr)
	if r := s.ask(t, query{name: "a.example", kind: dns.TypeAAAA}); len(r.Answer) != 1 {
		t.Errorf("with the first server dead: %v", text(r))
	}
	s.SetUpstream([]netip.AddrPort{s.Addr()})
	if got := s.Upstream(); len(got) != 0 {
		t.Errorf("upstream %v holds the server itself", got)
	}
}

func TestCircleEnds(t *testing.T) {
	// Two servers that forward to each other: the circle must come to an end.
	a := start(t)
	b := start(t, a.Addr())
	a.SetUpstream([]netip.AddrPort{b.Addr()})
	m := new(dns.Msg).SetQuestion("round.example.", dns.TypeAAAA)
	c := dns.Client{Timeout: perName + 2*time.Second}
	r, _, err := c.Exchange(m, a.Addr().String())
	if err != nil || r.Rcode != dns.RcodeServerFailure {
		t.Errorf("got %v, %v", r, err)
	}
}

func TestNotQueries(t *testing.T) {
	s := start(t)
	m := new(dns.Msg).SetUpdate("example.")
	if r := s.answer(m); r.Rcode != dns.RcodeNotImplemented {
		t.Errorf("an update got %v", text(r))
	}
	if r := s.answer(new(dns.Msg)); r.Rcode != dns.RcodeNotImplemented {
		t.Errorf("no question got %v", text(r))
	}
	m = new(dns.Msg).SetQuestion("server.", dns.TypeAAAA)
	m.Question[0].Qclass = dns.ClassCHAOS
	if r := s.answer(m); r.Rcode != dns.RcodeServerFailure {
		t.Errorf("another class got %v", text(r))
	}
}

func TestStartRefuses(t *testing.T) {
	s := start(t)
	_, err := Start(Config{Listen: s.Addr()})
	if err == nil {
		t.Fatal("two servers on one port")
	}
	for _, want := range []string{s.Addr().String(), "in use", "pid", "dns.listen"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
	if _, err := Start(Config{Listen: netip.MustParseAddrPort("0.0.0.0:0")}); err == nil {
		t.Error("listens for everybody")
	}
}

func TestSessionHandle(t *testing.T) {
	s := &Server{prefix: roam.DefaultSessionPrefix}
	name, _ := dns.ReverseAddr("fd69:6c6e:7000:2627:123:4567:89ab:cdef")
	if got, ok := s.sessionAlias(name); !ok || got != 0x0123_4567_89ab_cdef {
		t.Errorf("sessionAlias(%q) = %v, %v", name, got, ok)
	}
	for _, bad := range []string{"", "ip6.arpa.", "x." + name, name[2:], strings.Replace(name, "f", "g", 1),
		strings.Replace(name, ".", "0", 1)} {
		if _, ok := s.sessionAlias(bad); ok {
			t.Errorf("sessionAlias(%q) accepted", bad)
		}
	}
}

func TestListeners(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 3600007F:0035 00000000:0000 0A 00000000:00000000 00:00000000 00000000   101        0 21043 1
   1: 0100007F:0035 0100007F:9C40 01 00000000:00000000 00:00000000 00000000   101        0 21044 1
   2: 0100007F:0036 00000000:0000 0A 00000000:00000000 00:00000000 00000000   101        0 21045 1
`
	got := make(map[string]bool)
	listeners(table, 53, got)
	var names []string
	for n := range got {
		names = append(names, n)
	}
	if !slices.Equal(names, []string{"socket:[21043]"}) {
		t.Errorf("listeners of port 53: %q", names)
	}
}

// TestLookup asks servers directly: what does not answer, or has no answer, says nothing.
func TestLookup(t *testing.T) {
	u := startUpstream(t)
	dead := netip.MustParseAddrPort("127.0.0.1:9")
	got := Lookup(t.Context(), []netip.AddrPort{dead, u.addr}, "www.example")
	if len(got) != 1 || got[0] != netip.MustParseAddr("2001:db8::") {
		t.Errorf("www.example is %v", got)
	}
	if got := Lookup(t.Context(), []netip.AddrPort{u.addr}, "www.test"); got != nil {
		t.Errorf("www.test is %v", got)
	}
	if got := Lookup(t.Context(), nil, "www.example"); got != nil {
		t.Errorf("without a server www.example is %v", got)
	}
}
