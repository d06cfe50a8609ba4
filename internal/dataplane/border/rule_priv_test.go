package border

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"roam"
	"roam/sbr"
	"roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// overNIDs makes a TCP segment whose checksum counts locators as zero, finished or only its
// seed, with a nonce or without one.
func overNIDs(t *testing.T, src, dst roam.ILV, n ilnp.Nonce, data int, seed bool) []byte {
	t.Helper()
	body := make([]byte, 20+data)
	body[1], body[3], body[12], body[13] = 1, 2, 0x50, 2
	for i := range data {
		body[20+i] = byte(i)
	}
	a, b := roam.ILV{NID: src.NID}.Addr(), roam.ILV{NID: dst.NID}.Addr()
	check := ip6.Checksum(a, b, ip6.TCP, body)
	if seed {
		check = ^ip6.Checksum(a, b, ip6.TCP, make([]byte, len(body)))
	}
	binary.BigEndian.PutUint16(body[ip6.TCPChecksumAt:], check)
	h := ip6.Header{NextHeader: ip6.TCP, HopLimit: 64, Src: src.Addr(), Dst: dst.Addr()}
	h.PayloadLen = uint16(n.HeaderLen() + len(body))
	if n.Present() {
		h.NextHeader = ip6.DestOpts
	}
	p, err := h.AppendTo(nil)
	if err == nil && n.Present() {
		p, err = n.AppendHeader(p, ip6.TCP)
	}
	if err != nil {
		t.Fatal(err)
	}
	return append(p, body...)
}

// Segments whose checksum counts locators as zero keep it: the first ones, out of which the
// border learns the rule, and those without nonce. Flows of the other rule are adjusted, and
// ICMPv6 is in any case.
func TestChecksumRule(t *testing.T) {
	site := roam.ILV{L64: siteA, NID: insideNID}
	for _, size := range []int{0, 1, 44, 108, 900} {
		for _, seed := range []bool{false, true} {
			t.Run(fmt.Sprint(size, " bytes, seed ", seed), func(t *testing.T) {
				r := newRig(t)
				kept := func(what string, n ilnp.Nonce) {
					t.Helper()
					in := overNIDs(t, mine, theirs, n, size, seed)
					if rule, found := xlate.ShownRule(in); n.Present() && (!found || rule != xlate.RuleRFC6741) {
						t.Fatalf("the packet shows %v, %v", rule, found)
					}
					_, out := r.run(r.objs.SbrInsideIngress, in)
					if source(out) != siteA || !bytes.Equal(out[40:], in[40:]) {
						t.Errorf("%s, %d bytes, seed %v: outward\n%x becomes\n%x", what, size, seed, in, out)
					}
					in = overNIDs(t, theirs, site, n, size, seed)
					_, out = r.run(r.objs.SbrUplinkIngress, in)
					if destination(out) != internal || !bytes.Equal(out[40:], in[40:]) {
						t.Errorf("%s, %d bytes, seed %v: inward\n%x becomes\n%x", what, size, seed, in, out)
					}
				}
				kept("first segments", outward)
				kept("without nonce", ilnp.Nonce{})
				if f, ok := r.Flow(theKey, r.table); !ok || f.Rule != sbr.RuleRFC6741 {
					t.Errorf("%d bytes, seed %v: flow %+v, %v", size, seed, f, ok)
				}
				echo := r.echo(mine, theirs, outward, true, 1, 56)
				if _, out := r.run(r.objs.SbrInsideIngress, echo); bytes.Equal(out[40:], echo[40:]) {
					t.Error("the checksum of an echo request is kept")
				}
			})
		}
	}
	r := newRig(t)
	r.confirm(siteA)
	r.compare(t, r.objs.SbrInsideIngress, redirect, transport(t, ip6.TCP, 1, 2), sbr.Source, siteA)
	if f, _ := r.Flow(theKey, r.table); f.Rule != sbr.RuleIPv6 {
		t.Errorf("rule %v of a flow that showed none", f.Rule)
	}
}
