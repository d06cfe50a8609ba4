package border

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"roam"
	"roam/internal/testutil"
	"roam/sbr"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// Locator Updates and errors in fragments go to the daemon whole, in UDP, too, and also in one
// fragment alone (RFC 6946); fragments of other messages pass.
func TestControlInFragments(t *testing.T) {
	r := newRig(t)
	u := ilnp.LocatorUpdate{Operation: ilnp.Advertisement}
	for i := range 200 {
		u.Locators = append(u.Locators, ilnp.LocatorEntry{L64: internal + roam.L64(i), Lifetime: 1})
	}
	update := func(src, dst roam.ILV) []byte {
		b, err := ilnp.BuildUpdate(src, dst, outward, u)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	encap := func(b []byte) []byte {
		b, err := ilnp.Encapsulate(b, encapPort)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	toError := func(b []byte) []byte { // of a type that must not exist in fragments, but can be sent
		b = bytes.Clone(b)
		b[40+outward.HeaderLen()] = 1
		return b
	}
	site := roam.ILV{L64: siteA, NID: insideNID}
	out, in := r.objs.SbrInsideIngress, r.objs.SbrUplinkIngress
	for i, c := range []struct {
		name    string
		prog    *ebpf.Program
		packet  []byte
		mtu     int
		verdict uint32
	}{
		{"an update, out", out, update(mine, theirs), 1280, shot},
		{"an update in UDP, out", out, encap(update(mine, theirs)), 1280, shot},
		{"an update, in", in, update(theirs, site), 1280, shot},
		{"an error, out", out, toError(update(mine, theirs)), 1280, shot},
		{"an echo, out", out, r.echo(mine, theirs, outward, true, 1, 3000), 1280, redirect},
		{"an echo, in", in, r.echo(theirs, site, inward, true, 1, 3000), 1280, passOn},
	} {
		parts, err := ip6.Split(c.packet, c.mtu, uint32(i))
		if err != nil || len(parts) < 2 {
			t.Fatalf("%s: %d fragments, %v", c.name, len(parts), err)
		}
		if c.name == "an update, in" { // alone: the first fragment says that no more follow
			alone := slices.Concat(parts[0])
			alone[40+outward.HeaderLen()+3] &^= 1
			if got, _ := r.run(c.prog, alone); got != shot {
				t.Errorf("%s, alone: verdict %#x", c.name, got)
			}
		}
		before := r.counter("handed_over")
		for n, part := range parts {
			if got, _ := r.run(c.prog, part); got != c.verdict {
				t.Errorf("%s: fragment %d has verdict %#x, want %#x", c.name, n, got, c.verdict)
			}
		}
		want := 0
		if c.verdict == shot {
			want = len(parts)
		}
		if n := r.counter("handed_over") - before; n != uint64(want) {
			t.Errorf("%s: %d fragments handed over, want %d", c.name, n, want)
		}
	}
}

// A later fragment of an ICMPv6 message with a nonce does not pass before the first one, which says
// whether the message lists locators; those of other messages pass in any order.
func TestFragmentsOutOfOrder(t *testing.T) {
	r := newRig(t)
	u := ilnp.LocatorUpdate{Operation: ilnp.Advertisement}
	for i := range 200 {
		u.Locators = append(u.Locators, ilnp.LocatorEntry{L64: internal + roam.L64(i), Lifetime: 1})
	}
	update, err := ilnp.BuildUpdate(mine, theirs, outward, u)
	if err != nil {
		t.Fatal(err)
	}
	site := roam.ILV{L64: siteA, NID: insideNID}
	out, in := r.objs.SbrInsideIngress, r.objs.SbrUplinkIngress
	for i, c := range []struct {
		name         string
		prog         *ebpf.Program
		packet       []byte
		early, after uint32
	}{
		{"an update", out, update, shot, shot},
		{"an echo with a nonce, out", out, r.echo(mine, theirs, outward, true, 1, 3000), shot, redirect},
		{"an echo with a nonce, in", in, r.echo(theirs, site, inward, true, 1, 3000), shot, passOn},
		{"an echo without", out, r.echo(mine, theirs, ilnp.Nonce{}, true, 1, 3000), redirect, redirect},
	} {
		parts, err := ip6.Split(c.packet, 1280, uint32(100+i))
		if err != nil || len(parts) < 2 {
			t.Fatalf("%s: %d fragments, %v", c.name, len(parts), err)
		}
		last := parts[len(parts)-1]
		before, handed := r.counter("drop_fragment"), r.counter("handed_over")
		if got, _ := r.run(c.prog, last); got != c.early {
			t.Errorf("%s: a fragment before the first has verdict %#x, want %#x", c.name, got, c.early)
		}
		if n := r.counter("drop_fragment") - before; (n == 1) != (c.early == shot) || r.counter("handed_over") != handed {
			t.Errorf("%s: %d fragments are counted", c.name, n)
		}
		for _, part := range [][]byte{parts[0], last} {
			if got, _ := r.run(c.prog, part); got != c.after {
				t.Errorf("%s: then a fragment has verdict %#x, want %#x", c.name, got, c.after)
			}
		}
	}
}

// An error of an inside node comes with the site locator to which the flow's latest packet came.
func TestErrorKnowsWhereItCame(t *testing.T) {
	r := newRig(t)
	events, err := r.Follow()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.ring.Close() })
	r.confirm(siteA, siteB)
	m := ilnp.ErrorMessage{Type: ilnp.TypePacketTooBig, Quoted: r.echo(theirs, mine, ilnp.Nonce{}, true, 1, 16)}
	e, err := ilnp.BuildError(mine, theirs, outward, m)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range []roam.L64{siteA, siteB, siteA} {
		r.run(r.objs.SbrUplinkIngress, r.echo(theirs, roam.ILV{L64: l, NID: insideNID}, ilnp.Nonce{}, true, 1, 16))
		r.run(r.objs.SbrInsideIngress, e)
		var got Event
		testutil.Eventually(t, 5*time.Second, func() bool {
			select {
			case got = <-events:
			default:
			}
			return got.Kind == FromInside
		}, "the error is handed over")
		if got.Came != slices.IndexFunc(r.table.Sites, func(s sbr.Site) bool { return s.L64 == l }) {
			t.Errorf("round %d: came to %d, want %v of %v", i, got.Came, l, r.table.Sites)
		}
	}
}
