package border

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"roam"
	"roam/internal/dataplane"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// Of the packets that the programs drop, one of each reason is kept: addresses, link, protocol, ports or
// ICMPv6 type, and when.
func TestRefusedAreKept(t *testing.T) {
	r := newRig(t)
	r.configure(Settings{Fallback: Drop})
	if list, err := r.Refused(); len(list) != 0 || err != nil {
		t.Fatalf("before there was any: %+v, %v", list, err)
	}
	site, spoofed := roam.ILV{L64: siteA, NID: insideNID}, roam.ILV{L64: internal, NID: outsideNID}
	out, in := r.objs.SbrInsideIngress, r.objs.SbrUplinkIngress
	echo := func(src, dst roam.ILV) []byte { return r.echo(src, dst, ilnp.Nonce{}, true, 1, 56) }
	began := time.Now().Add(-time.Second)
	want := map[string]dataplane.Refusal{}
	for _, c := range []struct {
		counter   string
		prog      *ebpf.Program
		packet    []byte
		src, dst  roam.ILV
		proto, as uint8 // upper layer, ICMPv6 type
	}{
		{"drop_spoofed", in, echo(spoofed, site), spoofed, site, ip6.ICMPv6, 128},
		{"drop_internal", in, echo(theirs, mine), theirs, mine, ip6.ICMPv6, 128},
		{"drop_leak", r.objs.SbrUplinkEgress, transport(t, ip6.TCP, 1000, 2000), mine, theirs, ip6.TCP, 0},
		{"drop_malformed", out, echo(mine, theirs)[:44], mine, theirs, ip6.ICMPv6, 128},
		{"drop_fallback", out, transport(t, ip6.UDP, 1000, 2000), mine, theirs, ip6.UDP, 0},
	} {
		if verdict, _ := r.run(c.prog, c.packet); verdict != shot {
			t.Errorf("%s: verdict %#x", c.counter, verdict)
		}
		w := dataplane.Refusal{Link: loopback, Remote: c.src, Local: c.dst, Proto: c.proto, Type: c.as}
		if c.proto != ip6.ICMPv6 {
			w.SrcPort, w.DstPort = 1000, 2000
		}
		want[c.counter] = w
	}
	list, err := r.Refused()
	if err != nil || len(list) != len(want) {
		t.Errorf("%+v, %v", list, err)
	}
	for _, c := range list {
		at := c.Last.At
		if at.Before(began) || at.After(time.Now().Add(time.Second)) {
			t.Errorf("%s: at %v", c.Name, at)
		}
		if c.Last.At = (time.Time{}); c.Last != want[c.Name] || c.Value != 1 {
			t.Errorf("%s: %d, %+v, want %+v", c.Name, c.Value, c.Last, want[c.Name])
		}
	}
}
