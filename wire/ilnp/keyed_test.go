package ilnp

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"roam"
	"roam/wire/ip6"
)

var (
	sealedFrom = roam.ILV{NID: 0x0200_0000_0000_0001, L64: 0x2001_0db8_000a_0000}
	sealedTo   = roam.ILV{NID: 0x0200_0000_0000_0002, L64: 0x2001_0db8_000b_0000}
	theSeal    = Seal{
		Counter: 0x0102_0304_0506_0708, Answers: 0x1112_1314_1516_1718,
		MAC: [16]byte{0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xaf},
	}
)

func sealedUpdate(t testing.TB, nonce Nonce) []byte {
	t.Helper()
	at := LocatorEntry{L64: sealedFrom.L64, Preference: 10, Lifetime: 600}
	lu := LocatorUpdate{Operation: Advertisement, Locators: []LocatorEntry{at}}
	b, err := BuildSealed(sealedFrom, sealedTo, nonce, lu, theSeal)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSealedGolden compares both forms with bytes written out by hand from the diagrams; the
// checksums are those of the sums.
func TestSealedGolden(t *testing.T) {
	const (
		option = "1e220200" + "0102030405060708" + "1112131415161718" + "a00102030405060708090a0b0c0d0eaf"
		entry  = "20010db8000a0000" + "000a0258"
		ends   = "20010db8000a00000200000000000001" + "20010db8000b00000200000000000002"
	)
	b := sealedUpdate(t, Nonce{Len: 4, Bytes: [12]byte{1, 2, 3, 4}})
	want := "6c0000000044" + "3c40" + ends + "3a05" + "8b0401020304" + option + "01020000" +
		"9c00SSSS" + "0101" + "0000" + entry
	compareGolden(t, "option", b, want)
	encap, err := Encapsulate(b, 6740)
	if err != nil {
		t.Fatal(err)
	}
	want = "6c000000004c" + "1140" + ends + "1a541a54004cSSSS" + "3a008b0401020304" +
		"9c00SSSS" + "0101" + "0000" + entry + "3b04" + option + "0100"
	compareGolden(t, "udp", encap, want)
}

func compareGolden(t *testing.T, name string, b []byte, want string) {
	t.Helper()
	got := hex.EncodeToString(b)
	if len(got) != len(want) {
		t.Fatalf("%s: %d bytes, want %d:\n%s\n%s", name, len(got)/2, len(want)/2, got, want)
	}
	for i := range want {
		if want[i] != 'S' && got[i] != want[i] {
			t.Fatalf("%s: byte %d differs:\n%s\n%s", name, i/2, got, want)
		}
	}
}

// TestSealedForms reads both forms back: the message is that without a MAC, byte for byte but
// for its checksum.
func TestSealedForms(t *testing.T) {
	for _, nonce := range []Nonce{
		{Len: 4, Bytes: [12]byte{1, 2, 3, 4}}, {Len: 12, Bytes: [12]byte{9, 8, 7, 6, 5, 4, 3, 2, 1, 2, 3, 4}},
	} {
		b := sealedUpdate(t, nonce)
		encap, err := Encapsulate(b, 6740)
		if err != nil {
			t.Fatal(err)
		}
		for name, packet := range map[string][]byte{"option": b, "udp": encap, "padded": Pad(encap)} {
			p, err := ParseControl(packet, 6740)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if p.Seal == nil || *p.Seal != theSeal || p.Nonce != nonce || p.Encapsulated != (name != "option") {
				t.Errorf("%s: read %+v", name, p)
			}
			if lu, err := ParseLocatorUpdate(p.Payload); err != nil || len(lu.Locators) != 1 {
				t.Errorf("%s: update %+v, %v", name, lu, err)
			}
		}
		if inner, err := Decapsulate(encap, 6740); err != nil || !bytes.Equal(inner, b) {
			t.Errorf("out of UDP comes\n%x, want\n%x (%v)", inner, b, err)
		}
	}
}

// TestSealedRefusals: what is no MAC of this form is none, and no error either: others
// experiment with the same option.
func TestSealedRefusals(t *testing.T) {
	at := ip6.HeaderLen + 8 // the option behind a nonce of 4 bytes
	for name, change := range map[string]func(b []byte){
		"another kind":   func(b []byte) { b[at+2] = 1 },
		"another option": func(b []byte) { b[at] = 0x3e },
		"reserved not 0": func(b []byte) { b[at+3] = 1 },
		"another length": func(b []byte) { b[at+1]--; b[at+35], b[at+36] = 1, 1 },
	} {
		b := sealedUpdate(t, Nonce{Len: 4, Bytes: [12]byte{1, 2, 3, 4}})
		change(b)
		if p, err := ParsePacket(b); err != nil || p.Seal != nil {
			t.Errorf("%s: seal %v, error %v; want neither", name, p.Seal, err)
		}
	}
	two, err := ip6.AppendOptions(nil, ip6.ICMPv6, []ip6.Option{theSeal.option(), theSeal.option()})
	if err != nil {
		t.Fatal(err)
	}
	if s := findOne(two, ip6.Chain{Exts: []ip6.Ext{{Proto: ip6.DestOpts, Len: len(two)}}}, parseSeal); s != nil {
		t.Error("two MACs in one packet count as one")
	}
	one, err := ip6.AppendOptions(nil, ip6.ICMPv6, []ip6.Option{theSeal.option()})
	if err != nil {
		t.Fatal(err)
	}
	for proto, want := range map[uint8]bool{ip6.DestOpts: true, ip6.HopByHop: false} {
		s := findOne(one, ip6.Chain{Exts: []ip6.Ext{{Proto: proto, Len: len(one)}}}, parseSeal)
		if (s != nil) != want {
			t.Errorf("a MAC in a header of type %d: found %t, want %t", proto, s != nil, want)
		}
	}
	both, err := ip6.AppendOptions(nil, ip6.ICMPv6, []ip6.Option{theSeal.option(), Proof{Step: ProofOffer}.option()})
	if err != nil {
		t.Fatal(err)
	}
	if o, only := experiment(both, ip6.Chain{Exts: []ip6.Ext{{Proto: ip6.DestOpts, Len: len(both)}}}); only {
		t.Errorf("of a MAC and a proof in one packet one counts: %v", o)
	}
}

// TestSealedNonces: a nonce has 4 or 12 bytes, and an update at most 255 locators.
func TestSealedNonces(t *testing.T) {
	lu := LocatorUpdate{Operation: Advertisement, Locators: []LocatorEntry{{L64: 1, Lifetime: 1}}}
	for _, n := range []uint8{0, 3, 5, 8, 11} {
		if b, err := BuildSealed(sealedFrom, sealedTo, Nonce{Len: n}, lu, theSeal); !errors.Is(err, ErrNonceLength) {
			t.Errorf("with a nonce of %d bytes: %x, %v", n, b, err)
		}
	}
	lu.Locators = make([]LocatorEntry, 256)
	_, want := lu.AppendTo(nil)
	b, err := BuildSealed(sealedFrom, sealedTo, Nonce{Len: 4}, lu, theSeal)
	if want == nil || err == nil || !strings.HasSuffix(err.Error(), want.Error()) {
		t.Errorf("with 256 locators: %x, %v, want %v", b, err, want)
	}
	header := sealedUpdate(t, Nonce{Len: 4})[:ip6.HeaderLen]
	without, err := ip6.AppendOptions(header, ip6.ICMPv6, []ip6.Option{theSeal.option()})
	if err != nil {
		t.Fatal(err)
	}
	lu.Locators = lu.Locators[:1]
	if without, err = lu.AppendTo(without); err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint16(without[ip6.PayloadLenAt:], uint16(len(without)-ip6.HeaderLen))
	if b, err := Encapsulate(without, 6740); !errors.Is(err, ErrNonceLength) {
		t.Errorf("a MAC without a nonce goes into UDP: %x, %v", b, err)
	}
}

// TestSealedHeaderInUDP: a header in UDP that is longer than the datagram is an error.
func TestSealedHeaderInUDP(t *testing.T) {
	encap, err := Encapsulate(sealedUpdate(t, Nonce{Len: 4, Bytes: [12]byte{1, 2, 3, 4}}), 6740)
	if err != nil {
		t.Fatal(err)
	}
	encap[ip6.HeaderLen+ip6.UDPHeaderLen+1] = 99
	if err := ip6.FinishL4(encap); err != nil {
		t.Fatal(err)
	}
	if inner, err := Decapsulate(encap, 6740); err == nil {
		t.Errorf("out of UDP comes %x", inner)
	}
}

// TestSealedBehindRefused: what stands behind a message in UDP, and is not as this package puts it there, is no MAC.
func TestSealedBehindRefused(t *testing.T) {
	b := sealedUpdate(t, Nonce{Len: 4, Bytes: [12]byte{1, 2, 3, 4}})
	encap, err := Encapsulate(b, 6740)
	if err != nil {
		t.Fatal(err)
	}
	icmp, behind := ip6.HeaderLen+ip6.UDPHeaderLen+8, len(encap)-macBehind
	for name, change := range map[string]func(b []byte){
		"as it is":        func([]byte) {},
		"another header":  func(b []byte) { b[behind] = ip6.ICMPv6 },
		"another length":  func(b []byte) { b[behind+1]++ },
		"another message": func(b []byte) { b[icmp] = TypeEchoReply },
		"another kind":    func(b []byte) { b[behind+ip6.OptionsAt+2] = 7 },
	} {
		c := append([]byte(nil), encap...)
		change(c)
		inner := c[icmp:]
		binary.BigEndian.PutUint16(inner[ip6.ICMPChecksumAt:], 0)
		sum := ip6.Checksum(sealedFrom.Addr(), sealedTo.Addr(), ip6.ICMPv6, inner)
		binary.BigEndian.PutUint16(inner[ip6.ICMPChecksumAt:], sum)
		if err := ip6.FinishL4(c); err != nil { // that of UDP
			t.Fatal(err)
		}
		if p, err := ParseControl(c, 6740); (err == nil && p.Seal != nil) != (name == "as it is") {
			t.Errorf("%s: read as %+v, %v", name, p, err)
		}
	}
}

// TestSealedCut cuts both forms at each byte: what is left is an error, or has no MAC.
func TestSealedCut(t *testing.T) {
	b := sealedUpdate(t, Nonce{Len: 4, Bytes: [12]byte{1, 2, 3, 4}})
	encap, err := Encapsulate(b, 6740)
	if err != nil {
		t.Fatal(err)
	}
	for _, whole := range [][]byte{b, encap} {
		for n := range whole {
			cut := append([]byte(nil), whole[:n]...)
			if p, err := ParseControl(cut, 6740); err == nil && p.Seal != nil {
				t.Errorf("cut to %d of %d bytes: has a MAC", n, len(whole))
			}
			if n < ip6.HeaderLen {
				continue
			}
			cut[4], cut[5] = byte((n-ip6.HeaderLen)>>8), byte(n-ip6.HeaderLen) // as whole as its header says
			if p, err := ParseControl(cut, 6740); err == nil && p.Seal != nil {
				t.Errorf("shortened to %d of %d bytes: has a MAC", n, len(whole))
			}
		}
	}
}

// TestSealedElsewhere: an option of a MAC moves only between the two places of this format. Other packets pass
// both ways as they are.
func TestSealedElsewhere(t *testing.T) {
	n := Nonce{Len: 4, Bytes: [12]byte{1, 2, 3, 4}}
	nonce, seal := ip6.Option{Type: OptionNonce, Data: n.Value()}, theSeal.option()
	other := ip6.Option{Type: 0x1f, Data: []byte{1, 2, 3, 4}}
	unknown := ip6.Option{Type: OptionExperiment, Data: make([]byte, len(seal.Data))}
	message := sealedUpdate(t, n)
	message = message[ip6.HeaderLen+8+macBehind:]
	build := func(upper uint8, payload []byte, headers ...[]ip6.Option) []byte {
		h := ip6.Header{NextHeader: ip6.DestOpts, HopLimit: 1, Src: sealedFrom.Addr(), Dst: sealedTo.Addr()}
		b, err := h.AppendTo(nil)
		for i, list := range headers {
			next := ip6.DestOpts
			if i == len(headers)-1 {
				next = upper
			}
			if err == nil {
				b, err = ip6.AppendOptions(b, next, list)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, payload...)
		binary.BigEndian.PutUint16(b[ip6.PayloadLenAt:], uint16(len(b)-ip6.HeaderLen))
		if err := ip6.FinishL4(b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	behind := func(o ip6.Option) []byte {
		b, err := ip6.AppendOptions(bytes.Clone(message), noNextHeader, []ip6.Option{o})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	datagram := behind(seal) // whose first byte, that of a port, is the type of an update
	copy(datagram[4:], []byte{0, byte(len(datagram)), 0, 0})
	whole := build(ip6.ICMPv6, behind(seal), []ip6.Option{nonce})
	whole[ip6.HeaderLen] = ip6.Fragment
	fragment := slices.Insert(whole, ip6.HeaderLen+8, ip6.ICMPv6, 0, 0, 1, 0, 0, 0, 1)
	binary.BigEndian.PutUint16(fragment[ip6.PayloadLenAt:], uint16(len(fragment)-ip6.HeaderLen))
	for name, b := range map[string][]byte{
		"a fragment":               fragment,
		"a datagram, a MAC beside": build(ip6.UDP, datagram, []ip6.Option{nonce, seal}),
		"two headers":              build(ip6.ICMPv6, message, []ip6.Option{nonce, seal}, []ip6.Option{other}),
		"two MACs":                 build(ip6.ICMPv6, message, []ip6.Option{nonce, seal, seal}),
		"no MAC":                   build(ip6.ICMPv6, message, []ip6.Option{nonce}),
		"a datagram, a MAC behind": build(ip6.UDP, datagram, []ip6.Option{nonce}),
		"an option besides":        build(ip6.ICMPv6, behind(seal), []ip6.Option{nonce, other}),
		"no known option":          build(ip6.ICMPv6, behind(unknown), []ip6.Option{nonce}),
	} {
		c, err := ip6.Walk(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f, err := FindNonce(b, c)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := putBehind(bytes.Clone(b), c, f); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%s becomes, on its way into UDP,\n%x, was\n%x (%v)", name, got, b, err)
		}
		if got, err := putBeside(bytes.Clone(b), ip6.HeaderLen); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%s becomes, on its way out of UDP,\n%x, was\n%x (%v)", name, got, b, err)
		}
	}
	short := append([]byte{OptionExperiment, macDataLen}, seal.Data...)
	if s := parseSeal(short[:len(short)-1]); s != nil {
		t.Errorf("a MAC that is cut reads as %+v", s)
	}
}

// TestSealedChecksum: a message whose own checksum is wrong does not become right as its MAC
// moves.
func TestSealedChecksum(t *testing.T) {
	encap, err := Encapsulate(sealedUpdate(t, Nonce{Len: 4, Bytes: [12]byte{1, 2, 3, 4}}), 6740)
	if err != nil {
		t.Fatal(err)
	}
	encap[ip6.HeaderLen+ip6.UDPHeaderLen+8+ip6.ICMPChecksumAt] ^= 1
	if err := ip6.FinishL4(encap); err != nil { // that of UDP
		t.Fatal(err)
	}
	if p, err := ParseControl(encap, 6740); err == nil {
		t.Errorf("read as %+v", p)
	}
}

func FuzzSealed(f *testing.F) {
	b := sealedUpdate(f, Nonce{Len: 4, Bytes: [12]byte{1, 2, 3, 4}})
	f.Add(b)
	if encap, err := Encapsulate(b, 6740); err == nil {
		f.Add(encap)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParseControl(b, 6740)
		if err != nil || p.Seal == nil || p.Type != TypeLocatorUpdate || !p.Nonce.Present() {
			return
		}
		lu, err := ParseLocatorUpdate(p.Payload)
		if err != nil {
			return
		}
		again, err := BuildSealed(p.Src, p.Dst, p.Nonce, lu, *p.Seal)
		if err != nil {
			t.Fatal(err)
		}
		if q, err := ParsePacket(again); err != nil || *q.Seal != *p.Seal {
			t.Fatalf("built again: %+v, %v", q.Seal, err)
		}
	})
}
