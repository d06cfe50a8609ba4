package golden_test

import (
	"bytes"
	"strings"
	"testing"

	"roam/wire/golden"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// options is a Destination Options header of such parts, padded by PadN at its end.
func options(parts ...[]byte) ext {
	b := append([]byte{0, 0}, bytes.Join(parts, nil)...)
	b = ip6.AppendPadding(b, -len(b)&7)
	b[1] = uint8(len(b)/8 - 1)
	return ext{proto: ip6.DestOpts, body: b}
}

// pad is so many bytes of padding.
func pad(n int) []byte { return ip6.AppendPadding(nil, n) }

// unknown is an option that receivers skip, of n bytes in all.
func unknown(n int) []byte {
	b := []byte{0x1e, uint8(n - 2)}
	for i := range n - 2 {
		b = append(b, uint8(i+1))
	}
	return b
}

// option is the Nonce option of the cases, of n bytes.
func option(n int) []byte { return append([]byte{ilnp.OptionNonce, uint8(n)}, nonce(n).Value()...) }

// amongSpecs have the nonce among other options and headers, which correspondents with
// other stacks may put there (RFC 6744 §2, RFC 8200 §4.1).
func amongSpecs(t *testing.T) []spec {
	t.Helper()
	list := []struct {
		name, description string
		nonce             int
		exts              []ext
	}{
		{"shared-header", "another option behind it", 4, []ext{options(option(4), unknown(6))}},
		{"shared-header-12", "another option behind one of 12 bytes: 8 of 14 bytes go", 12,
			[]ext{options(option(12), unknown(8))}},
		{"option-before", "another option before it", 4, []ext{options(unknown(6), option(4))}},
		{"option-before-12", "another option before one of 12 bytes", 12, []ext{options(unknown(8), option(12))}},
		{"options-around", "options on both sides, no byte goes", 4, []ext{options(unknown(8), option(4), unknown(8))}},
		{"options-around-12", "options on both sides of one of 12 bytes", 12,
			[]ext{options(unknown(8), option(12), unknown(8))}},
		{"aligned-behind", "the option behind it stays where 4n+2 bytes are before it", 12,
			[]ext{options(unknown(2), pad(2), option(12), pad(2), unknown(8))}},
		{"padding-behind", "PadN behind it: the header goes", 4, []ext{options(option(4), pad(8))}},
		{"padding-before", "PadN before it: the header goes", 4, []ext{options(pad(8), option(4))}},
		{"padding-around", "PadN on both sides of one of 12 bytes: the header goes", 12,
			[]ext{options(pad(4), option(12), pad(12))}},
		{"pad1", "Pad1 on both sides, and an option that stays", 4,
			[]ext{options(pad(1), pad(1), pad(1), option(4), pad(1), unknown(6))}},
		{"pad1-left", "one byte of padding is left", 4,
			[]ext{options(unknown(5), pad(1), option(4), pad(1), pad(1), unknown(7))}},
		{"long-padding", "as much padding as one option has: the header goes", 4,
			[]ext{options(pad(100), option(4), pad(152))}},
		{"two-headers", "a second Destination Options header behind it", 4, []ext{options(option(4)), options(unknown(6))}},
		{"second-header", "in the second of two headers", 4, []ext{options(unknown(6)), options(option(4))}},
		{"second-header-12", "one of 12 bytes, in the second header, with an option", 12,
			[]ext{options(unknown(14)), options(unknown(3), option(12))}},
		{"behind-routing", "behind a Hop-by-Hop and a Routing header, with options", 4,
			[]ext{hopByHop(), routing(), options(unknown(6), option(4), pad(4))}},
		{"before-routing", "in the header before a Routing header, with a second one behind that", 12,
			[]ext{options(option(12)), routing(), options(unknown(6))}},
		{"before-fragment", "an option shares its header, before a Fragment header", 4,
			[]ext{options(option(4), pad(2), unknown(6)), fragment(0, true)}},
		{"behind-fragment", "behind a Fragment header, where nothing may go: becomes padding", 4,
			[]ext{fragment(0, true), options(option(4), unknown(6))}},
		{"atomic-fragment", "behind the Fragment header of a whole packet", 4, []ext{fragment(0, false), options(option(4))}},
		{"far-behind", "behind a long header, which moves up", 4, []ext{options(unknown(254)), options(option(4))}},
	}
	var specs []spec
	for _, c := range list {
		s := spec{name: "in-" + c.name, description: "nonce among options: " + c.description,
			direction: golden.Inward, foreign: true,
			exts: c.exts, proto: ip6.UDP, upper: udp(text(64))}
		if c.nonce == 12 {
			s.edit = longNonce
		}
		if strings.HasSuffix(c.name, "-fragment") && c.name != "atomic-fragment" {
			s.upper, s.raw = firstPart(t), true
		}
		specs = append(specs, s)
	}
	return specs
}

// routing is a Routing header without segments left.
func routing() ext {
	return ext{proto: ip6.Routing, body: []byte{0, 2, 253, 0, 0, 0, 0, 0, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 7,
		0, 0, 0, 0, 0, 0, 0, 9}}
}

// TestNothingOfTheNonceIsLeft checks the remains of a stack's option header: no nonce, at
// most 7 bytes of padding in a row, all other options, in their order and at their
// alignment.
func TestNothingOfTheNonceIsLeft(t *testing.T) {
	for _, s := range amongSpecs(t) {
		t.Run(s.name, func(t *testing.T) {
			c := s.build(t)
			before, after := optionsOf(t, c.Wire), optionsOf(t, c.Session)
			i := 0
			for _, o := range before {
				if o.Type == ilnp.OptionNonce {
					continue
				}
				if i == len(after) || o.Type != after[i].Type || !bytes.Equal(o.Data, after[i].Data) {
					t.Fatalf("options %v, want those of %v", after, before)
				}
				if (o.Offset-after[i].Offset)&7 != 0 {
					t.Errorf("option at offset %d moves to %d", o.Offset, after[i].Offset)
				}
				i++
			}
			if i != len(after) {
				t.Errorf("options %v, want those of %v", after, before)
			}
			if len(c.Session) > len(c.Wire) {
				t.Errorf("%d bytes become %d", len(c.Wire), len(c.Session))
			}
		})
	}
}

// optionsOf returns the options of a packet but padding, of which it holds that no run
// is longer than Linux takes.
func optionsOf(t *testing.T, b []byte) (list []ip6.Option) {
	t.Helper()
	c, err := ip6.Walk(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range c.Exts {
		if x.Proto != ip6.DestOpts {
			continue
		}
		all, err := ip6.Options(b[x.Offset:x.Offset+x.Len], x.Offset)
		if err != nil {
			t.Fatal(err)
		}
		had, end := ilnp.Found{}, x.Offset+2
		if had, err = ilnp.FindNonce(b, c); err != nil {
			t.Fatal(err)
		}
		for _, o := range append(all, ip6.Option{Type: 0xff, Offset: x.Offset + x.Len}) {
			if o.Type <= ip6.PadN {
				continue
			}
			if run := o.Offset - end; had.Ext < 0 && run > 7 {
				t.Errorf("%d bytes of padding before offset %d", run, o.Offset)
			}
			end = o.Offset + 2 + len(o.Data)
			if o.Type != 0xff {
				list = append(list, o)
			}
		}
	}
	return list
}
