package dnsio

import (
	"context"
	"net/netip"
	"sync"

	"github.com/miekg/dns"
)

// Lookup returns the addresses of a name, of both families, from the first server that
// answers. It returns none both for a name without addresses and if no server answers
// before ctx is done; the caller cannot distinguish the two.
func Lookup(ctx context.Context, servers []netip.AddrPort, name string) []netip.Addr {
	var found [2][]netip.Addr
	var asked sync.WaitGroup
	for i, kind := range []uint16{dns.TypeAAAA, dns.TypeA} {
		asked.Go(func() {
			q := new(dns.Msg).SetQuestion(dns.Fqdn(name), kind)
			for _, server := range servers {
				r, err := exchange(ctx, server, q)
				if err != nil || r.Rcode == dns.RcodeServerFailure || r.Rcode == dns.RcodeRefused {
					continue
				}
				found[i] = addressesIn(r)
				return
			}
		})
	}
	asked.Wait()
	return append(found[0], found[1]...)
}

// addressesIn returns the addresses of an answer, whatever aliases it contains.
func addressesIn(r *dns.Msg) (out []netip.Addr) {
	for _, rr := range r.Answer {
		var a netip.Addr
		switch rr := rr.(type) {
		case *dns.AAAA:
			a, _ = netip.AddrFromSlice(rr.AAAA)
		case *dns.A:
			a, _ = netip.AddrFromSlice(rr.A)
		}
		if a.IsValid() {
			out = append(out, a.Unmap())
		}
	}
	return out
}
