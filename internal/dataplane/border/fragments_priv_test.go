package border

import (
	"bytes"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"roam"
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
