package ip6

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/netip"
	"testing"
)

func TestTCPSegment(t *testing.T) {
	s := TCPSegment{
		Src: netip.MustParseAddrPort("[2001:db8::1]:22"), Dst: netip.MustParseAddrPort("[2001:db8::2]:4000"),
		Seq: 0xfeed_beef, Ack: 7, Flags: TCPSyn | TCPAck, Options: []byte{2, 4, 4, 0xc4},
	}
	b, err := s.AppendTo([]byte{0xaa})
	if err != nil {
		t.Fatal(err)
	}
	want, _ := hex.DecodeString("aa" + "6000000000180640" + "20010db8000000000000000000000001" +
		"20010db8000000000000000000000002" +
		"00160fa0" + "feedbeef" + "00000007" + "6012ffff" + "0000" + "0000" + "020404c4")
	sum := bytes.Clone(b[1+HeaderLen+16:][:2])
	clear(b[1+HeaderLen+16:][:2])
	if !bytes.Equal(b, want) {
		t.Errorf("% x, want % x", b, want)
	}
	copy(b[1+HeaderLen+16:], sum)
	if Checksum(s.Src.Addr(), s.Dst.Addr(), TCP, b[1+HeaderLen:]) != 0 {
		t.Error("wrong checksum")
	}
	s.Options = s.Options[:3]
	if _, err := s.AppendTo(nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("options of three bytes: %v", err)
	}
	if _, err := (TCPSegment{}).AppendTo(nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("without addresses: %v", err)
	}
}
