package ip6_test

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"roam/wire/ip6"
)

func header() ip6.Header {
	return ip6.Header{
		TrafficClass: 0xc1, FlowLabel: 0xabcde, PayloadLen: 0x0102, NextHeader: ip6.TCP, HopLimit: 63,
		Src: netip.MustParseAddr("2001:db8:1:2:3:4:5:6"), Dst: netip.MustParseAddr("2001:db8:a:b:c:d:e:f"),
	}
}

var headerBytes = []byte{
	0x6c, 0x1a, 0xbc, 0xde, 0x01, 0x02, 6, 63,
	0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6,
	0x20, 0x01, 0x0d, 0xb8, 0, 0xa, 0, 0xb, 0, 0xc, 0, 0xd, 0, 0xe, 0, 0xf,
}

// dirty returns an empty slice over a buffer of ones, so that a byte which
// an emitter forgets to write does not happen to be zero.
func dirty() []byte { return bytes.Repeat([]byte{0xff}, 4096)[:0] }

func TestHeaderRoundTrip(t *testing.T) {
	b, err := header().AppendTo(dirty())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, headerBytes) {
		t.Errorf("emitted\n%x, want\n%x", b, headerBytes)
	}
	h, err := ip6.Parse(headerBytes)
	if err != nil {
		t.Fatal(err)
	}
	if h != header() {
		t.Errorf("parsed %+v, want %+v", h, header())
	}
}

func TestHeaderAppendsBehindWhatIsThere(t *testing.T) {
	b, err := header().AppendTo([]byte{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, append([]byte{1, 2, 3}, headerBytes...)) {
		t.Errorf("emitted %x", b)
	}
}

func TestHeaderTruncation(t *testing.T) {
	fields := map[int]string{0: "version", 1: "flow label", 3: "flow label", 4: "payload length", 6: "next header",
		7: "hop limit", 8: "source", 23: "source", 24: "destination", 39: "destination"}
	for n := range headerBytes {
		_, err := ip6.Parse(headerBytes[:n])
		if !errors.Is(err, ip6.ErrTruncated) {
			t.Fatalf("%d bytes: %v, want truncation", n, err)
		}
		wantText(t, err, "offset")
		if f, ok := fields[n]; ok {
			wantText(t, err, f)
		}
	}
}

func TestHeaderRefusals(t *testing.T) {
	wrong := bytes.Clone(headerBytes)
	wrong[0] = 0x45
	if _, err := ip6.Parse(wrong); !errors.Is(err, ip6.ErrMalformed) {
		t.Errorf("version 4: %v", err)
	}
	for name, edit := range map[string]func(*ip6.Header){
		"flow label":       func(h *ip6.Header) { h.FlowLabel = 1 << 20 },
		"no source":        func(h *ip6.Header) { h.Src = netip.Addr{} },
		"ipv4 destination": func(h *ip6.Header) { h.Dst = netip.MustParseAddr("192.0.2.1") },
	} {
		h := header()
		edit(&h)
		if _, err := h.AppendTo(nil); !errors.Is(err, ip6.ErrMalformed) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
}

func TestOptionsRoundTrip(t *testing.T) {
	for name, ext := range map[string][]byte{
		"one unknown option":        {6, 0, 0x1e, 4, 1, 2, 3, 4},
		"pads in between":           {6, 1, 0, 0x1e, 1, 9, 1, 0, 0, 0, 0xc2, 3, 1, 2, 3, 0},
		"an empty option":           {6, 0, 0x3e, 0, 1, 2, 0, 0},
		"padding with odd contents": {6, 0, 1, 4, 7, 7, 7, 7},
	} {
		list, err := ip6.Options(ext, 40)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b, err := ip6.AppendOptions(dirty(), 6, list)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(b, ext) {
			t.Errorf("%s: emitted %x, want %x", name, b, ext)
		}
	}
}

func TestOptionsOffsets(t *testing.T) {
	list, err := ip6.Options([]byte{6, 1, 0, 0x1e, 1, 9, 1, 0, 0, 0, 0xc2, 3, 1, 2, 3, 0}, 48)
	if err != nil {
		t.Fatal(err)
	}
	var offsets []int
	for _, o := range list {
		offsets = append(offsets, o.Offset)
	}
	want := []int{50, 51, 54, 56, 57, 58, 63}
	if len(offsets) != len(want) {
		t.Fatalf("options at %v, want %v", offsets, want)
	}
	for i := range want {
		if offsets[i] != want[i] {
			t.Errorf("options at %v, want %v", offsets, want)
			break
		}
	}
}

func TestOptionsPad(t *testing.T) {
	for n := range 20 {
		b, err := ip6.AppendOptions(dirty(), 58, []ip6.Option{{Type: 0x1e, Data: make([]byte, n)}})
		if err != nil {
			t.Fatal(err)
		}
		if len(b)%8 != 0 || len(b) != 8*(1+int(b[1])) || b[0] != 58 {
			t.Errorf("%d bytes of data: header %x", n, b)
		}
		list, err := ip6.Options(b, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list[1:] {
			if o.Type != ip6.Pad1 && o.Type != ip6.PadN {
				t.Errorf("%d bytes of data: option %#02x behind it", n, o.Type)
			}
		}
	}
}

func TestOptionsTruncation(t *testing.T) {
	ext := []byte{6, 1, 0x1e, 4, 1, 2, 3, 4, 0x3e, 6, 1, 2, 3, 4, 5, 6}
	for n := range ext {
		_, err := ip6.Options(ext[:n], 40)
		if n == 2 || n == 8 {
			continue // ends between two options
		}
		if !errors.Is(err, ip6.ErrTruncated) {
			t.Errorf("%d bytes: %v, want truncation", n, err)
			continue
		}
		wantText(t, err, "offset")
	}
	_, err := ip6.Options(ext[:11], 40)
	wantText(t, err, "option 0x3e")
	wantText(t, err, "offset 51")
}

func TestOptionsRefusals(t *testing.T) {
	for name, list := range map[string][]ip6.Option{
		"too much data":  {{Type: 0x1e, Data: make([]byte, 256)}},
		"pad1 with data": {{Type: ip6.Pad1, Data: []byte{1}}},
		"too many": {{Type: 2, Data: make([]byte, 255)}, {Type: 2, Data: make([]byte, 255)},
			{Type: 2, Data: make([]byte, 255)},
			{Type: 2, Data: make([]byte, 255)}, {Type: 2, Data: make([]byte, 255)}, {Type: 2, Data: make([]byte, 255)},
			{Type: 2, Data: make([]byte, 255)}, {Type: 2, Data: make([]byte, 255)}},
	} {
		if _, err := ip6.AppendOptions(nil, 6, list); !errors.Is(err, ip6.ErrMalformed) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
}

func wantText(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %q does not say %q", err, text)
	}
}
