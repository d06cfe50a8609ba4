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
	crosses := reportReply
	crosses.Crosses, reply[21] = true, 0x23
	if got := crosses.AppendReply(dirty(), reportToken); !bytes.Equal(got, reply) {
		t.Errorf("reply of an end that crosses is %x, want %x", got, reply)
	}
	if got, err := ilnp.ParseReport(reply); err != nil || got != crosses {
		t.Errorf("reply of an end that crosses is read as %+v, %v", got, err)
	}
}

// A request names connections whose acknowledgements are to be crossed, where the answer has its counts.
func TestReportThatCrosses(t *testing.T) {
	r := ilnp.Report{Cross: true, Connections: ilnp.Connections{{0x1234, 0x01bb}, {}, {0x5678, 0x9abc}, 7: {1, 2}}}
	request := fromHex(t, `a102030405060708 090a0b0c0d0e0fa2 524f5250 00400000
		00000000 00000000 123401bb 00000000 56789abc 00000000 0000000000000000 00000000 00010002`)
	if got := r.AppendRequest(dirty(), reportToken); !bytes.Equal(got, request) {
		t.Errorf("request is %x, want %x", got, request)
	}
	if got, err := ilnp.ParseReport(request); !errors.Is(err, ilnp.ErrNotFilled) || got != r {
		t.Errorf("request is read as %+v, %v", got, err)
	}
	answer := reportReply
	answer.Cross = true
	reply := answer.AppendReply(nil, reportToken)
	if got, err := ilnp.ParseReport(reply); err != nil || got != answer || reply[21] != 0x43 {
		t.Errorf("reply %x is read as %+v, %v", reply, got, err)
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
	for _, r := range []ilnp.Report{reportRequest, otherRequest, reportReply} {
		r.Sealed, r.MAC = true, [16]byte{7, 15: 8}
		f.Add(r.AppendRequest(nil, reportToken))
		f.Add(r.AppendReply(nil, reportToken))
	}
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

// TestSealedReport: space for the MAC, which a request leaves empty, makes a report longer.
func TestSealedReport(t *testing.T) {
	request := reportRequest
	request.Sealed, request.MAC = true, [16]byte{1, 2} // a request has none
	want := append(reportRequest.AppendRequest(nil, reportToken), make([]byte, 16)...)
	if got := request.AppendRequest(dirty(), reportToken); !bytes.Equal(got, want) {
		t.Errorf("request is %x, want %x", got, want)
	}
	request.MAC = [16]byte{}
	if got, err := ilnp.ParseReport(want); !errors.Is(err, ilnp.ErrNotFilled) || got != request {
		t.Errorf("request is read as %+v, %v", got, err)
	}
	reply := reportReply
	reply.Sealed, reply.MAC = true, [16]byte{0xc0, 15: 0xcf}
	want = append(reportReply.AppendReply(nil, reportToken), fromHex(t, "c0000000000000000000 0000000000cf")...)
	got := reply.AppendReply(dirty(), reportToken)
	if !bytes.Equal(got, want) {
		t.Errorf("reply is %x, want %x", got, want)
	}
	if got, err := ilnp.ParseReport(want); err != nil || got != reply {
		t.Errorf("reply is read as %+v, %v", got, err)
	}
	if got, err := ilnp.ParseReport(want[:ilnp.ReportLen]); err != nil || got.Sealed {
		t.Errorf("cut before the MAC it is read as %+v, %v", got, err)
	}
	for n := ilnp.ReportLen + 1; n <= len(want)+1; n++ {
		if _, err := ilnp.ParseReport(append(want, 0)[:n]); (err == nil) != (n == len(want)) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// TestReportMAC: every bit of the token, the report, the path and the key counts, and the MAC itself does not. No
// update has the MAC of a report.
func TestReportMAC(t *testing.T) {
	var key [ilnp.MACKeyLen]byte
	for i := range key {
		key[i] = byte(0x10 + i)
	}
	near, far := otherRequest.Near, otherRequest.Far
	data := append(reportReply.AppendReply(nil, reportToken), make([]byte, 16)...)
	want := ilnp.ReportMAC(key, data, near, far)
	if got := hex.EncodeToString(want[:]); got != "b91c830942c2232371561cdbfb59cceb" {
		t.Errorf("the MAC is %s", got)
	}
	for i := range 8 * len(data) {
		data[i/8] ^= 1 << (i % 8)
		if is := ilnp.ReportMAC(key, data, near, far) != want; is != (i < 8*ilnp.ReportLen) {
			t.Errorf("bit %d of byte %d counts: %t", i%8, i/8, is)
		}
		data[i/8] ^= 1 << (i % 8)
	}
	for i := range 64 {
		if ilnp.ReportMAC(key, data, near^1<<i, far) == want || ilnp.ReportMAC(key, data, near, far^1<<i) == want {
			t.Errorf("bit %d of a locator does not count", i)
		}
	}
	for i := range 8 * len(key) {
		other := key
		other[i/8] ^= 1 << (i % 8)
		if ilnp.ReportMAC(other, data, near, far) == want {
			t.Errorf("bit %d of the key does not count", i)
		}
	}
	if data[16] == ilnp.TypeLocatorUpdate {
		t.Error("a report could have the MAC of an update")
	}
}
