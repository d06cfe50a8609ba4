package golden_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"

	"roam/wire/golden"
)

// sample is a case with two packets that need not make sense.
func sample() golden.Case {
	return golden.Case{Description: "two packets: a sample", Direction: golden.Inward, Entry: entry(),
		Session: []byte{1, 2, 3}, Wire: []byte{4, 5, 6, 7}}
}

func TestFilesRoundTrip(t *testing.T) {
	c := sample()
	got, err := golden.Parse(c.AppendPcap(nil), c.AppendText(nil))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, c) {
		t.Errorf("read %+v, wrote %+v", got, c)
	}
	noNonce(&c.Entry)
	oldRule(&c.Entry)
	c.Direction = golden.ErrorOutward
	if got, err = golden.Parse(c.AppendPcap(nil), c.AppendText(nil)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, c) {
		t.Errorf("read %+v, wrote %+v", got, c)
	}
}

func TestInAndOut(t *testing.T) {
	for d, out := range map[golden.Direction]bool{
		golden.Outward: true, golden.ErrorOutward: true, golden.Inward: false, golden.ErrorInward: false,
	} {
		c := sample()
		c.Direction = d
		in, want := c.Wire, c.Session
		if out {
			in, want = want, in
		}
		if !bytes.Equal(c.In(), in) || !bytes.Equal(c.Out(), want) {
			t.Errorf("%s: in %x, out %x", d, c.In(), c.Out())
		}
	}
	c := sample()
	c.Direction = "sideways"
	if _, err := c.Translate(); !errors.Is(err, golden.ErrFormat) {
		t.Errorf("direction sideways: %v", err)
	}
}

// A capture of the other byte order is read as well.
func TestBigEndianPcap(t *testing.T) {
	b := sample().AppendPcap(nil)
	swapWords := func(b []byte, from, to int) {
		for at := from; at < to; at += 4 {
			binary.BigEndian.PutUint32(b[at:], binary.LittleEndian.Uint32(b[at:]))
		}
	}
	swapWords(b, 0, 24)
	swapWords(b, 24, 40)
	swapWords(b, 43, 59)
	got, err := golden.Parse(b, sample().AppendText(nil))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Session, []byte{1, 2, 3}) || !bytes.Equal(got.Wire, []byte{4, 5, 6, 7}) {
		t.Errorf("packets %x and %x", got.Session, got.Wire)
	}
}

func TestPcapTruncation(t *testing.T) {
	b := sample().AppendPcap(nil)
	for n := range b {
		if _, err := golden.Parse(b[:n], sample().AppendText(nil)); !errors.Is(err, golden.ErrFormat) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestPcapRefusals(t *testing.T) {
	edit := func(at int, v uint32) []byte {
		b := sample().AppendPcap(nil)
		binary.LittleEndian.PutUint32(b[at:], v)
		return b
	}
	for name, b := range map[string][]byte{
		"another magic number": edit(0, 0xa1b23c4d),
		"ethernet":             edit(20, 1),
		"a part of a packet":   edit(36, 1500),
		"length without end":   edit(32, 0xffffffff),
		"a third packet":       append(sample().AppendPcap(nil), make([]byte, 16)...),
	} {
		if _, err := golden.Parse(b, sample().AppendText(nil)); !errors.Is(err, golden.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTextRefusals(t *testing.T) {
	text := string(sample().AppendText(nil))
	replace := func(old, new string) string { return strings.Replace(text, old, new, 1) }
	for name, txt := range map[string]string{
		"no colon":          text + "something\n",
		"unknown key":       text + "colour: green\n",
		"key twice":         text + "rule: ipv6\n",
		"missing key":       replace("rule: ipv6\n", ""),
		"another direction": replace("inward", "upward"),
		"another rule":      replace("ipv6", "ipv4"),
		"nonce of 3":        replace("nonce: 5ac30f96", "nonce: 5ac30f"),
		"nonce not hex":     replace("nonce: 5ac30f96", "nonce: zz"),
		"locator of 3":      replace("local-l64: 2001:0db8:0001:000a", "local-l64: 2001:db8:1"),
		"nid of 5":          replace("local-nid: 1c4f:52a9", "local-nid: 0:1c4f:52a9"),
	} {
		if txt == text {
			t.Fatalf("%s: the text was not changed", name)
		}
		_, err := golden.Parse(sample().AppendPcap(nil), []byte(txt))
		if !errors.Is(err, golden.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTextComments(t *testing.T) {
	txt := append([]byte("# a comment\n\n"), sample().AppendText(nil)...)
	if _, err := golden.Parse(sample().AppendPcap(nil), txt); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample().AppendPcap(nil), sample().AppendText(nil))
	f.Fuzz(func(t *testing.T, pcap, txt []byte) {
		c, err := golden.Parse(pcap, txt)
		if err != nil {
			return
		}
		again, err := golden.Parse(c.AppendPcap(nil), c.AppendText(nil))
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
		if !reflect.DeepEqual(again, c) {
			t.Errorf("read %+v, then %+v", c, again)
		}
	})
}
