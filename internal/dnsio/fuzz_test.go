package dnsio

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"roam"
	"roam/naming"

	"github.com/miekg/dns"
)

// FuzzMessage answers any message that can be read: the reply can be written,
// is the reply to that question, and fits where it is said to.
func FuzzMessage(f *testing.F) {
	table, errs := naming.NewTable([]naming.Record{{NID: 0x0200_0000_0000_0001, Names: []string{"host.example"}}})
	if len(errs) > 0 {
		f.Fatal(errs)
	}
	s := &Server{prefix: roam.DefaultSessionPrefix, flying: make(chan struct{}, 1), closing: context.Background()}
	s.table.Store(table)
	s.SetUpstream(nil)
	reverse, err := dns.ReverseAddr(roam.ILV{L64: roam.DefaultSessionPrefix, NID: 0x0200_0000_0000_0001}.Addr().String())
	if err != nil {
		f.Fatal(err)
	}
	for _, q := range []*dns.Msg{
		new(dns.Msg).SetQuestion("host.example.", dns.TypeAAAA), new(dns.Msg).SetQuestion("HOST.example.", dns.TypeANY),
		new(dns.Msg).SetQuestion(reverse, dns.TypePTR), new(dns.Msg).SetQuestion("other.example.",
			dns.TypeMX).SetEdns0(dns.MinMsgSize, true),
	} {
		b, err := q.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var q dns.Msg
		if q.Unpack(b) != nil {
			return
		}
		reply := s.answer(&q)
		reply.Truncate(dns.MinMsgSize)
		out, err := reply.Pack()
		if err != nil {
			t.Fatalf("reply cannot be written: %v", err)
		}
		if !reply.Response || reply.Id != q.Id {
			t.Errorf("not a reply to the question: %v", reply)
		}
		if len(reply.Question) == len(q.Question) && len(q.Question) == 1 &&
			len(out) > dns.MinMsgSize && len(reply.Answer) > 0 {
			t.Errorf("%d bytes after truncation to %d", len(out), dns.MinMsgSize)
		}
	})
}

// FuzzResolvConf reads any resolv.conf: what is written in its place names this
// server only, and keeps every other setting.
func FuzzResolvConf(f *testing.F) {
	own := netip.MustParseAddrPort("127.0.0.54:53")
	f.Add("nameserver 192.0.2.1\nsearch example\n")
	f.Add("# a\n;b\nnameserver fe80::1%eth0\nnameserver 0.0.0.0\noptions edns0")
	f.Add("nameserver")
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range servers(text, own) {
			if !s.IsValid() || s == own {
				t.Errorf("server %v", s)
			}
		}
		written := ours(text, own)
		got, want := servers(written, netip.AddrPort{}), servers(text, own)
		if len(got) != 1+min(len(want), behind) || got[0] != own || !slices.Equal(got[1:], want[:len(got)-1]) {
			t.Errorf("servers %v in %q", got, written)
		}
		if a, b := others(text), others(written); !strings.Contains(text, "rotate") &&
			strings.Join(a, "\n") != strings.Join(b, "\n") {
			t.Errorf("settings %q became %q", a, b)
		}
	})
}

// FuzzListeners reads any table of sockets.
func FuzzListeners(f *testing.F) {
	f.Add("  0: 3600007F:0035 00000000:0000 0A 0:0 0:0 0 0 0 1234 1\n")
	f.Add("sl local_address\n")
	f.Fuzz(func(t *testing.T, table string) {
		inodes := make(map[string]bool)
		listeners(table, 53, inodes)
		if len(inodes) > strings.Count(table, "\n")+1 {
			t.Errorf("%d sockets in %q", len(inodes), table)
		}
	})
}
