package border

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"roam"
	"roam/sbr"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

func destination(b []byte) roam.L64 { return roam.L64(binary.BigEndian.Uint64(b[24:])) }

// What must not pass is dropped for its reason, and what is not the border's passes as it is.
func TestRefused(t *testing.T) {
	r := newRig(t)
	site := roam.ILV{L64: siteA, NID: insideNID}
	spoofed := roam.ILV{L64: internal, NID: outsideNID}
	out, in, leaving := r.objs.SbrInsideIngress, r.objs.SbrUplinkIngress, r.objs.SbrUplinkEgress
	echo := func(src, dst roam.ILV) []byte { return r.echo(src, dst, ilnp.Nonce{}, true, 1, 56) }
	last := echo(mine, theirs)
	last[7] = 1
	long := r.echo(mine, theirs, ilnp.Nonce{}, true, 1, 1500)
	longer := r.echo(mine, theirs, ilnp.Nonce{}, true, 1, 2100) // than a record
	truncated := echo(mine, theirs)[:44]
	chain := append([]byte(nil), echo(mine, theirs)[:40]...)
	chain[6] = ip6.DestOpts
	for range 8 {
		chain = append(chain, ip6.DestOpts, 0, 1, 4, 0, 0, 0, 0)
	}
	binary.BigEndian.PutUint16(chain[4:], uint16(len(chain)-40))
	hairpinned, err := ilnp.BuildError(spoofed, site, ilnp.Nonce{}, ilnp.ErrorMessage{
		Type: ilnp.TypePacketTooBig, Param: 1400, Quoted: echo(site, spoofed),
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		prog    *ebpf.Program
		packet  []byte
		verdict uint32
		counter string
	}{
		"an inside source from outside":      {in, echo(spoofed, site), shot, "drop_spoofed"},
		"an inside destination from outside": {in, echo(theirs, mine), shot, "drop_internal"},
		"an inside source that leaves":       {leaving, echo(mine, theirs), shot, "drop_leak"},
		"truncated":                          {out, truncated, shot, "drop_malformed"},
		"a chain of headers":                 {out, chain, shot, "drop_malformed"},
		"the last hop":                       {out, last, passOn, "pass_stack"},
		"too long for the link":              {out, long, shot, "handed_over"},
		"too long for the ring, too":         {out, longer, shot, "handed_over"},
		"another site's packet":              {in, echo(theirs, roam.ILV{L64: remote, NID: insideNID}), passOn, ""},
		"between inside hosts":               {out, echo(mine, spoofed), passOn, ""},
		"from another network inside":        {out, echo(theirs, theirs), passOn, ""},
		"an error about a hairpinned packet": {out, hairpinned, shot, "handed_over"},
		"of the border itself":               {leaving, echo(site, theirs), passOn, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := uint64(0)
			if c.counter != "" {
				before = r.counter(c.counter)
			}
			verdict, got := r.run(c.prog, c.packet)
			if verdict != c.verdict || verdict == passOn && string(got) != string(c.packet) {
				t.Errorf("verdict %#x, want %#x; packet %x", verdict, c.verdict, got)
			}
			if c.counter != "" && r.counter(c.counter) != before+1 {
				t.Errorf("%s counts %d, want one more than %d", c.counter, r.counter(c.counter), before)
			}
		})
	}
}

// Two inside hosts that use each other's site locator meet as if their packets had left and come back (RFC 6748 §2.8).
// The answer comes from the address that was asked, by whichever provider, also while that one's link is down, and no
// checksum changes that counts locators as zero.
func TestHairpin(t *testing.T) {
	r := newRig(t)
	p, err := sbr.ParsePolicy([]byte(policyText(50, 50)))
	if err != nil {
		t.Fatal(err)
	}
	oneDown := sbr.NewTable(p, []sbr.Site{{L64: siteA, Link: loopback, Up: true}, {L64: siteB, Link: loopback}})
	for _, table := range []sbr.Table{r.table, oneDown, sbr.NewTable(p, nil)} {
		if err := r.Install(table, 0, hops); err != nil {
			t.Fatal(err)
		}
		for _, provider := range []roam.L64{siteA, siteB} {
			r.hairpins(insideNID, outsideNID, provider)
			r.hairpins(outsideNID, insideNID, provider)
		}
	}
}

// hairpins has one inside node send to another one by a site locator.
func (r *rig) hairpins(from, to roam.NID, provider roam.L64) {
	r.Helper()
	src, dst := roam.ILV{L64: internal, NID: from}, roam.ILV{L64: provider, NID: to}
	for what, packet := range map[string][]byte{
		"an echo request": r.echo(src, dst, ilnp.Nonce{}, true, 1, 56),
		"a datagram":      moved(r.T, transport(r.T, ip6.UDP, 1, 2), src, dst),
		"over NIDs":       overNIDs(r.T, src, dst, ilnp.Nonce{}, 56, false),
	} {
		verdict, got := r.run(r.objs.SbrInsideIngress, packet)
		if verdict != passOn || source(got) != provider || destination(got) != internal {
			r.Errorf("%s to %v: verdict %#x, from %v to %v", what, dst, verdict, source(got), destination(got))
		}
		if what == "over NIDs" && !bytes.Equal(got[40:], packet[40:]) {
			r.Errorf("%s to %v: %x becomes %x", what, dst, packet, got)
		}
		c, err := ip6.Walk(got)
		if err != nil {
			r.Fatal(err)
		}
		sum := ip6.Checksum(c.Header.Src, c.Header.Dst, c.Upper, got[c.UpperOffset:c.End])
		if sum != 0 && what != "over NIDs" {
			r.Errorf("%s to %v: the checksum is wrong", what, dst)
		}
	}
}

// A packet of no flow falls under the setting; one to the border's own address is its own.
func TestFallback(t *testing.T) {
	r := newRig(t)
	out, in := transport(t, ip6.UDP, 1, 2), r.echo(theirs, roam.ILV{L64: siteB, NID: insideNID}, ilnp.Nonce{}, true, 1, 56)
	want := func(what string, prog *ebpf.Program, packet []byte, verdict uint32, changed bool) {
		t.Helper()
		got, b := r.run(prog, packet)
		if got != verdict || verdict != shot && (string(b) != string(packet)) != changed {
			t.Errorf("%s: verdict %#x, want %#x; %x", what, got, verdict, b)
		}
	}
	want("translate, out", r.objs.SbrInsideIngress, out, redirect, true)
	want("translate, in", r.objs.SbrUplinkIngress, in, passOn, true)
	r.configure(Settings{Fallback: Forward})
	want("forward, out", r.objs.SbrInsideIngress, out, passOn, false)
	want("forward, in", r.objs.SbrUplinkIngress, in, passOn, false)
	want("forward, leaving", r.objs.SbrUplinkEgress, out, passOn, false)
	r.configure(Settings{Fallback: Drop})
	want("drop, out", r.objs.SbrInsideIngress, out, shot, false)
	want("drop, in", r.objs.SbrUplinkIngress, in, shot, false)
	if err := r.SetOwn([]roam.ILV{{L64: siteB, NID: insideNID}}); err != nil {
		t.Fatal(err)
	}
	want("own", r.objs.SbrUplinkIngress, in, passOn, false)
	if err := r.SetOwn(nil); err != nil {
		t.Fatal(err)
	}
	want("no longer own", r.objs.SbrUplinkIngress, in, shot, false)
}

// Where the highest bit of the flow label marks packets of sessions, those pass without a flow whatever
// happens to others; elsewhere the bit means nothing.
func TestFallbackByLabel(t *testing.T) {
	for _, first := range []byte{0x08, 0x07, 0x0f, 0x00} { // of the label; above it is the traffic class
		t.Run(fmt.Sprintf("%#x", first), func(t *testing.T) {
			r := newRig(t)
			out := transport(t, ip6.UDP, 1, 2)
			in := r.echo(theirs, roam.ILV{L64: siteB, NID: insideNID}, ilnp.Nonce{}, true, 1, 56)
			for _, packet := range [][]byte{out, in} {
				packet[1] = 0xf0 | first
			}
			for _, f := range []Fallback{Forward, Drop} {
				for _, on := range []bool{false, true} {
					r.configure(Settings{Fallback: f, FlowLabel: on})
					passes := on && first&8 != 0
					verdict, got := r.run(r.objs.SbrInsideIngress, out)
					if left := verdict == redirect && source(got) == siteA && got[1] == out[1]; left != passes {
						t.Errorf("%v, %v, first byte %#x: out, verdict %#x, from %v", f, on, out[1], verdict, source(got))
					}
					verdict, got = r.run(r.objs.SbrUplinkIngress, in)
					if came := verdict == passOn && destination(got) == internal && got[1] == in[1]; came != passes {
						t.Errorf("%v, %v, first byte %#x: in, verdict %#x, to %v", f, on, in[1], verdict, destination(got))
					}
				}
			}
		})
	}
}

// Without a link that is up nothing leaves, and a policy that is withdrawn leaves packets as
// they are.
func TestWithoutLink(t *testing.T) {
	r := newRig(t)
	datagram := transport(t, ip6.UDP, 1, 2)
	p, err := sbr.ParsePolicy([]byte(policyText(50, 50)))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Install(sbr.NewTable(p, nil), 0, hops); err != nil {
		t.Fatal(err)
	}
	if verdict, _ := r.run(r.objs.SbrInsideIngress, datagram); verdict != shot || r.counter("drop_no_link") != 1 {
		t.Errorf("without a link: verdict %#x", verdict)
	}
	// Nor by the link of another group.
	other, err := sbr.ParsePolicy(fmt.Appendf(nil, "%v 1 0 none -1 1\n%v 1 0 none 1\n%v 1 0 none -1 2\n%v 1 0 none 2\n",
		(internal + 1<<16).Prefix(), siteA.Prefix(), internal.Prefix(), siteB.Prefix()))
	if err != nil {
		t.Fatal(err)
	}
	up := []sbr.Site{{L64: siteA, Link: loopback, Up: true}}
	if err := r.Install(sbr.NewTable(other, up), everyIndex, hops); err != nil {
		t.Fatal(err)
	}
	if verdict, _ := r.run(r.objs.SbrInsideIngress, datagram); verdict != shot || r.counter("drop_no_link") != 2 {
		t.Errorf("without a link of its own: verdict %#x", verdict)
	}
	if err := r.Install(sbr.NewTable(sbr.Policy{}, nil), everyIndex, nil); err != nil {
		t.Fatal(err)
	}
	if verdict, out := r.run(r.objs.SbrInsideIngress, datagram); verdict != passOn || string(out) != string(datagram) {
		t.Errorf("without a policy: verdict %#x", verdict)
	}
}

// Everything is loaded within the verifier's bounds, and a flow is as large as stated.
func TestBounds(t *testing.T) {
	const mostVerified = 60_000
	r := newRig(t)
	for _, prog := range []*ebpf.Program{
		r.objs.SbrInsideIngress, r.objs.SbrInsideEgress, r.objs.SbrUplinkIngress, r.objs.SbrUplinkEgress,
	} {
		info, err := prog.Info()
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := info.VerifiedInstructions(); ok && n > mostVerified {
			t.Errorf("%s: the verifier looks at %d instructions, at most %d", info.Name, n, mostVerified)
		}
	}
	// An element of a hash table has 8 bytes of the allocator and 48 of the table before its key, and lies in
	// a block of 192 or 256.
	if n := 8 + 48 + r.objs.Flows.KeySize() + r.objs.Flows.ValueSize(); n > 192 {
		t.Errorf("a flow that has no place in its set takes %d bytes", n)
	}
	// 14 % of the flows have none in the end (TestPlacesLater); each has a bucket of 16 bytes, rounded up.
	places := (r.objs.FlowSets.ValueSize() + r.objs.NonceSets.ValueSize()) * r.objs.FlowSets.MaxEntries() / maxFlows
	if n := places + 16 + 192*14/100; n > 256 {
		t.Errorf("a flow takes %d bytes", n)
	}
	if one, size := unsafe.Sizeof(bpfFlow{}), r.objs.FlowSets.ValueSize(); one != 32 || size != 4*uint32(one) {
		t.Errorf("what plain packets need of a flow are %d bytes, and a set has %d", one, size)
	}
}

// skbContext is struct __sk_buff, as far as a test run takes it.
type skbContext struct {
	_       [164]byte
	GSOSegs uint32
	_       [8]byte
	GSOSize uint32
	_       [12]byte
}

// A GSO packet passes if its segments fit into the link, however long it is. Otherwise the daemon is handed as much
// of it as an ICMPv6 error quotes, also of one that is longer than a record of the ring.
func TestGSO(t *testing.T) {
	r := newRig(t)
	events, err := r.Follow()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(r.closing); r.ring.Close() })
	for _, long := range []int{1900, 2900} {
		body := make([]byte, long)
		body[12], body[13] = 0x80, 0x10 // 32 bytes of header
		h := ip6.Header{NextHeader: ip6.TCP, HopLimit: 64, PayloadLen: uint16(long), Src: mine.Addr(), Dst: theirs.Addr()}
		b, err := h.AppendTo([]byte{0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0x86, 0xdd})
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, body...)
		for size, want := range map[uint32]uint32{1500 - 72: redirect, 1500 - 71: shot, 0: shot} {
			c := skbContext{GSOSize: size}
			if size > 0 {
				c.GSOSegs = 2
			}
			verdict, err := r.objs.SbrInsideIngress.Run(&ebpf.RunOptions{
				Data: b, DataOut: make([]byte, len(b)+256), Context: c, ContextOut: &skbContext{},
			})
			if err != nil || verdict != want {
				t.Errorf("segments of %d bytes: verdict %#x, want %#x, %v", size, verdict, want, err)
			}
			if want != shot {
				continue
			}
			select {
			case e := <-events:
				if e.Kind != TooBig || e.MTU != 1500 || !bytes.Equal(e.Packet, b[14:14+quoted]) {
					t.Errorf("segments of %d bytes of %d: handed over %v of %d bytes, MTU %d", size, long, e.Kind,
						len(e.Packet), e.MTU)
				}
			case <-time.After(5 * time.Second):
				t.Errorf("segments of %d bytes of %d: nothing is handed over", size, long)
			}
		}
	}
}

// The kernel takes the jumbo payload option of BIG TCP out of the segments, so they are 8 bytes shorter. Those of SCTP
// have lengths of their own, which no program sees: they pass.
func TestGSOOtherSegments(t *testing.T) {
	r := newRig(t)
	segment := make([]byte, 1900)
	segment[12], segment[13] = 0x80, 0x10 // 32 bytes of header
	jumbo := append([]byte{ip6.TCP, 0, 0xc2, 4}, binary.BigEndian.AppendUint32(nil, uint32(8+len(segment)))...)
	jumbo = append(jumbo, segment...)
	for _, c := range []struct {
		next    uint8
		payload int // as the header says
		body    []byte
		size    uint32
		want    uint32
	}{
		{ip6.HopByHop, 0, jumbo, 1500 - 72, redirect},
		{ip6.HopByHop, 0, jumbo, 1500 - 71, shot},
		{ip6.HopByHop, len(jumbo), jumbo, 1500 - 72, shot}, // nothing is taken out
		{ip6.TCP, 0, segment, 1500 - 72, redirect},
		{ip6.TCP, 0, segment, 1500 - 71, shot},
		{132, len(segment), segment, 0xffff, redirect},
	} {
		h := ip6.Header{NextHeader: c.next, HopLimit: 64, PayloadLen: uint16(c.payload), Src: mine.Addr(), Dst: theirs.Addr()}
		b, err := h.AppendTo([]byte{0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0x86, 0xdd})
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, c.body...)
		verdict, err := r.objs.SbrInsideIngress.Run(&ebpf.RunOptions{
			Data: b, DataOut: make([]byte, len(b)+256), ContextOut: &skbContext{},
			Context: skbContext{GSOSegs: 2, GSOSize: c.size},
		})
		if err != nil || verdict != c.want {
			t.Errorf("next header %d, payload length %d, segments of %d bytes: verdict %#x, want %#x, %v", c.next, c.payload,
				c.size, verdict, c.want, err)
		}
	}
}

// quoted is how much of a packet an ICMPv6 error without nonce quotes (RFC 4443 §2.4).
const quoted = 1280 - 40 - 8
