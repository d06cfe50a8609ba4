package ilnp

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"roam"
	"roam/wire/ip6"
)

var (
	proofFrom = roam.ILV{L64: 0x2001_0db8_000a_0000, NID: 1 << 57}
	proofTo   = roam.ILV{L64: 0x2001_0db8_0001_0000, NID: 2 << 56}
	proofLU   = LocatorUpdate{Operation: Advertisement, Locators: []LocatorEntry{{L64: 7, Lifetime: 1}}}
)

func theProof() Proof {
	p := Proof{Step: ProofAnswer, Counter: 0x0102030405060708, Locators: [ProofLocators]roam.L64{0x2001_0db8_000a_0000, 7}}
	for i := range p.Ephemeral {
		p.Ephemeral[i] = byte(0x40 + i)
	}
	for i := range p.Token {
		p.Token[i], p.MAC[i] = byte(0x80+i), byte(0xc0+i)
	}
	return p
}

// TestProofGolden fixes the bytes of the option.
func TestProofGolden(t *testing.T) {
	want := "01020000" + "0102030405060708" + "404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f" +
		"808182838485868788898a8b8c8d8e8f" + "20010db8000a0000" + "0000000000000007" +
		strings.Repeat("00", 48) +
		"c0c1c2c3c4c5c6c7c8c9cacbcccdcecf"
	o := theProof().option()
	if got := hex.EncodeToString(o.Data); got != want || o.Type != OptionExperiment {
		t.Errorf("option %#x\n%s, want\n%s", o.Type, got, want)
	}
}

// TestProofSaysReports: that reports have MACs travels in the last place, if no locator is there. A build
// before that reads another locator, at which nobody is.
func TestProofSaysReports(t *testing.T) {
	p := theProof()
	p.Reports = true
	plain, said := theProof().option().Data, p.option().Data
	last := proofDataLen - MACLen - 8
	if !bytes.Equal(plain[:last], said[:last]) || !bytes.Equal(plain[last+8:], said[last+8:]) ||
		hex.EncodeToString(said[last:last+8]) != "ff00000000000001" {
		t.Errorf("option\n%x, want beside the last place\n%x", said, plain)
	}
	if !bytes.Equal(p.Covered(), said[:len(said)-MACLen]) {
		t.Error("the MAC does not cover it")
	}
	read := parseProof(append([]byte{OptionExperiment, proofDataLen}, said...))
	if read == nil || *read != p || read.Lists(sealsReports) {
		t.Errorf("reads as %+v", read)
	}
	p.Locators[ProofLocators-1] = 5
	full := p.option().Data
	p.Reports = false
	if read := parseProof(append([]byte{OptionExperiment, proofDataLen}, full...)); read == nil || *read != p {
		t.Errorf("with eight locators it reads as %+v", read)
	}
}

// TestProofForms builds a packet and reads it in both forms.
func TestProofForms(t *testing.T) {
	for _, n := range []Nonce{{Len: 4, Bytes: [12]byte{1, 2, 3, 4}}, {Len: 12, Bytes: [12]byte{11: 12}}} {
		b, err := BuildProof(proofFrom, proofTo, n, proofLU, theProof())
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
			if p.Proof == nil || *p.Proof != theProof() || p.Nonce != n || p.Seal != nil || p.Encapsulated != (name == "udp") {
				t.Errorf("%s reads as %+v", name, p)
			}
			if lu, err := ParseLocatorUpdate(p.Payload); err != nil || len(lu.Locators) != 1 {
				t.Errorf("%s: message %+v, %v", name, lu, err)
			}
		}
	}
}

// TestProofFaults: what no host sends is no proof.
func TestProofFaults(t *testing.T) {
	right := append([]byte{OptionExperiment, proofDataLen}, theProof().option().Data...)
	for name, change := range map[string]func(b []byte) []byte{
		"another kind": func(b []byte) []byte { b[2] = 2; return b },
		"step 0":       func(b []byte) []byte { b[3] = 0; return b },
		"step 6":       func(b []byte) []byte { b[3] = 6; return b },
		"not zero":     func(b []byte) []byte { b[4] = 1; return b },
		"nor behind":   func(b []byte) []byte { b[5] = 1; return b },
		"shorter":      func(b []byte) []byte { b[1]--; return b },
		"cut":          func(b []byte) []byte { return b[:len(b)-1] },
	} {
		if p := parseProof(change(bytes.Clone(right))); p != nil {
			t.Errorf("%s reads as %+v", name, p)
		}
	}
	if parseProof(right) == nil {
		t.Error("the right one is none")
	}
	o := theProof().option()
	two, err := ip6.AppendOptions(nil, ip6.ICMPv6, []ip6.Option{o, o})
	if err != nil {
		t.Fatal(err)
	}
	if p := findOne(two, ip6.Chain{Exts: []ip6.Ext{{Proto: ip6.DestOpts, Len: len(two)}}}, parseProof); p != nil {
		t.Error("two proofs in one packet count as one")
	}
}

// FuzzProof: what reads as a proof is written as it was read, and no packet makes a fault.
func FuzzProof(f *testing.F) {
	n := Nonce{Len: 4, Bytes: [12]byte{1, 2, 3, 4}}
	b, err := BuildProof(proofFrom, proofTo, n, proofLU, theProof())
	if err != nil {
		f.Fatal(err)
	}
	encap, err := Encapsulate(b, 6740)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(encap)
	f.Fuzz(func(t *testing.T, b []byte) {
		if p := parseProof(b); p != nil && !bytes.Equal(p.option().Data, b[2:2+proofDataLen]) {
			t.Fatalf("%x is written as %x", b, p.option().Data)
		}
		p, err := ParseControl(b, 6740)
		if err != nil || p.Proof == nil {
			return
		}
		again, err := BuildProof(p.Src, p.Dst, p.Nonce, proofLU, *p.Proof)
		if err != nil {
			return // without a nonce
		}
		if q, err := ParseControl(again, 6740); err != nil || q.Proof == nil || *q.Proof != *p.Proof {
			t.Fatalf("written again it reads as %+v, %v", q.Proof, err)
		}
	})
}

// TestProofListsNoZero: the zeros behind a list are no locator.
func TestProofListsNoZero(t *testing.T) {
	p := Proof{Locators: [ProofLocators]roam.L64{7}}
	if p.Lists(0) || !p.Lists(7) || p.Lists(8) {
		t.Errorf("lists 0: %t, 7: %t, 8: %t", p.Lists(0), p.Lists(7), p.Lists(8))
	}
}
