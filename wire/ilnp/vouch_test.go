package ilnp

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"

	"roam/wire/ip6"
)

func theVouch() Vouch {
	v := Vouch{Until: time.Unix(0x0102030405, 0).UTC(), NID: 0x0011_22ff_0000_0001}
	for i := range v.Public {
		v.Public[i] = byte(0x40 + i)
	}
	for i := range v.Modifier {
		v.Modifier[i], v.ByOld[i], v.ByNew[i] = byte(0x80+i), byte(0xc0+i), byte(0xd0+i)
	}
	return v
}

// TestVouchGolden fixes the bytes of the option.
func TestVouchGolden(t *testing.T) {
	want := "04000000" + "0000000102030405" + "404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f" +
		"808182838485868788898a8b8c8d8e8f" + "001122ff00000001" +
		"c0c1c2c3c4c5c6c7c8c9cacbcccdcecf" + "d0d1d2d3d4d5d6d7d8d9dadbdcdddedf"
	o := theVouch().option()
	if got := hex.EncodeToString(o.Data); got != want || o.Type != OptionExperiment {
		t.Errorf("option %#x\n%s, want\n%s", o.Type, got, want)
	}
	if covered := hex.EncodeToString(theVouch().Covered()); covered != want[:2*68] {
		t.Errorf("covered is %s", covered)
	}
}

// TestVouchForms builds a packet and reads it in both forms.
func TestVouchForms(t *testing.T) {
	n := Nonce{Len: 4, Bytes: [12]byte{1, 2, 3, 4}}
	b, err := BuildVouch(proofFrom, proofTo, n, proofLU, theVouch())
	if err != nil {
		t.Fatal(err)
	}
	encap, err := Encapsulate(b, 6740)
	if err != nil {
		t.Fatal(err)
	}
	for name, form := range map[string][]byte{"options": b, "udp": encap} {
		p, err := ParseControl(form, 6740)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if p.Vouch == nil || *p.Vouch != theVouch() || p.Nonce != n || p.Proof != nil || p.Encapsulated != (name == "udp") {
			t.Errorf("%s reads as %+v", name, p)
		}
	}
}

// TestVouchFaults: what no host sends is no vouch.
func TestVouchFaults(t *testing.T) {
	right := append([]byte{OptionExperiment, vouchDataLen}, theVouch().option().Data...)
	for name, change := range map[string]func(b []byte) []byte{
		"another kind": func(b []byte) []byte { b[2] = 1; return b },
		"not zero":     func(b []byte) []byte { b[5] = 1; return b },
		"shorter":      func(b []byte) []byte { b[1]--; return b },
	} {
		if v := parseVouch(change(bytes.Clone(right))); v != nil {
			t.Errorf("%s reads as %+v", name, v)
		}
	}
	for n := range right {
		if v := parseVouch(right[:n]); v != nil {
			t.Errorf("cut to %d bytes it reads as %+v", n, v)
		}
	}
	o := theVouch().option()
	two, err := ip6.AppendOptions(nil, ip6.ICMPv6, []ip6.Option{o, o})
	if err != nil {
		t.Fatal(err)
	}
	if v := findOne(two, ip6.Chain{Exts: []ip6.Ext{{Proto: ip6.DestOpts, Len: len(two)}}}, parseVouch); v != nil {
		t.Error("two vouches in one packet count as one")
	}
}

// FuzzVouch: what reads as a vouch is written as it was read, and no packet makes a fault.
func FuzzVouch(f *testing.F) {
	b, err := BuildVouch(proofFrom, proofTo, Nonce{Len: 4, Bytes: [12]byte{1, 2, 3, 4}}, proofLU, theVouch())
	if err != nil {
		f.Fatal(err)
	}
	encap, err := Encapsulate(b, 6740)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(encap)
	f.Add(append([]byte{OptionExperiment, vouchDataLen}, theVouch().option().Data...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v := parseVouch(b); v != nil && !bytes.Equal(v.option().Data, b[2:2+vouchDataLen]) {
			t.Fatalf("%x is written as %x", b, v.option().Data)
		}
		p, err := ParseControl(b, 6740)
		if err != nil || p.Vouch == nil {
			return
		}
		again, err := BuildVouch(p.Src, p.Dst, p.Nonce, proofLU, *p.Vouch)
		if err != nil {
			return // without a nonce
		}
		if q, err := ParseControl(again, 6740); err != nil || q.Vouch == nil || *q.Vouch != *p.Vouch {
			t.Fatalf("written again it reads as %+v, %v", q.Vouch, err)
		}
	})
}
