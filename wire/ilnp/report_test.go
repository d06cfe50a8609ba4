package ilnp_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"roam/wire/ilnp"
	"roam/wire/ip6"
)

var (
	reportToken = [16]byte{0xa1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0xa2}

	reportRequest = ilnp.Report{Counted: true, PerFlow: true, Cost: 5}

	otherRequest = ilnp.Report{Counted: true, Other: true, Near: 0x2001_0db8_0001_0002, Far: 0x2001_0db8_00ff_0003}

	reportReply = ilnp.Report{
		Counted: true, Epoch: 0x01020304, Clock: 0xfffffffe,
		Received: ilnp.Counts{Packets: 0x1122334455667788, Bytes: 1 << 63}, Sent: ilnp.Counts{Packets: 1, Bytes: 2},
	}
)

func fromHex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReport(t *testing.T) {
	request := fromHex(t, `a102030405060708 090a0b0c0d0e0fa2 524f5250 00060500
		00000000 00000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000`)
	if got := reportRequest.AppendRequest(dirty(), reportToken); !bytes.Equal(got, request) {
		t.Errorf("request is %x, want %x", got, request)
	}
	if got, err := ilnp.ParseReport(request); !errors.Is(err, ilnp.ErrNotFilled) || got != reportRequest {
		t.Errorf("request is read as %+v, %v", got, err)
	}
	other := fromHex(t, `a102030405060708 090a0b0c0d0e0fa2 524f5250 000a0000
		00000000 00000000 20010db800010002 20010db800ff0003 0000000000000000 0000000000000000`)
	if got := otherRequest.AppendRequest(dirty(), reportToken); !bytes.Equal(got, other) {
		t.Errorf("request about another path is %x, want %x", got, other)
	}
	if got, err := ilnp.ParseReport(other); !errors.Is(err, ilnp.ErrNotFilled) || got != otherRequest {
		t.Errorf("request about another path is read as %+v, %v", got, err)
	}
	reply := fromHex(t, `a102030405060708 090a0b0c0d0e0fa2 524f5250 00030000
		01020304 fffffffe 1122334455667788 8000000000000000 0000000000000001 0000000000000002`)
	if got := reportReply.AppendReply(dirty(), reportToken); !bytes.Equal(got, reply) {
		t.Errorf("reply is %x, want %x", got, reply)
	}
	if got, err := ilnp.ParseReport(reply); err != nil || got != reportReply {
		t.Errorf("reply is read as %+v, %v", got, err)
	}
}

func TestReportRefuses(t *testing.T) {
	reply := reportReply.AppendReply(nil, reportToken)
	for n := range reply {
		if _, err := ilnp.ParseReport(reply[:n]); !errors.Is(err, ip6.ErrTruncated) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, err := ilnp.ParseReport(append(bytes.Clone(reply), 0)); !errors.Is(err, ip6.ErrMalformed) {
		t.Errorf("a byte too many: %v", err)
	}
	for _, at := range []int{16, 17, 18, 19, 20, 23} {
		other := bytes.Clone(reply)
		other[at] ^= 0x20
		if _, err := ilnp.ParseReport(other); !errors.Is(err, ip6.ErrMalformed) {
			t.Errorf("another byte at offset %d: %v", at, err)
		}
	}
}

func FuzzReport(f *testing.F) {
	f.Add(reportRequest.AppendRequest(nil, reportToken))
	f.Add(otherRequest.AppendRequest(nil, reportToken))
	f.Add(reportReply.AppendReply(nil, reportToken))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ilnp.ParseReport(b)
		if err != nil && !errors.Is(err, ilnp.ErrNotFilled) {
			return
		}
		out := r.AppendReply(dirty(), [16]byte(b))
		if err != nil {
			out = r.AppendRequest(dirty(), [16]byte(b))
		}
		again, back := ilnp.ParseReport(out)
		if again != r || (err == nil) != (back == nil) {
			t.Errorf("round trip gives %+v (%v), want %+v (%v)", again, back, r, err)
		}
	})
}
