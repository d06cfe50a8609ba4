package ilnphost

import (
	"bytes"
	"testing"
	"time"

	"roam/ilnp"
	"roam/wire/ip6"
)

// stamped is a TCP header with these options, and n bytes of data.
func stamped(flags uint8, n int, options ...byte) []byte {
	b := tcp(flags, len(options)+n)
	b[12] = byte(20+len(options)) / 4 << 4
	copy(b[20:], options)
	return b
}

// stamps are time stamps as stacks put them, the second one the echo.
var stamps = []byte{1, 1, 8, 10, 0, 0x11, 0x22, 0x33, 0xa5, 0x5a, 0xc3, 0x3c}

// Echoes of time stamps are zero for a while after a silence and right with
// their checksum, and nothing else of a segment changes.
func TestOldEchoesAreForgotten(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := entryFor(there)
	r.upsert(p)
	r.wantEcho("before any silence", true)
	r.send(ip6.UDP, udp(9))
	r.setLive(p.Key, func(l *noted) { l.UnansweredTx -= ticks(200 * time.Millisecond) })
	r.wantEcho("200 ms later", true)
	r.send(ip6.UDP, udp(9))
	r.setLive(p.Key, func(l *noted) { l.UnansweredTx -= ticks(260 * time.Millisecond) })
	if v, _ := r.ingress(fromPeer(there, none, ip6.UDP, udp(9))); v != passOn {
		t.Fatalf("verdict %d", v)
	}
	r.wantEcho("behind the first packet after 260 ms", false)
	r.setLive(p.Key, func(l *noted) { l.Returned -= ticks(4500 * time.Millisecond) })
	r.wantEcho("4.5 s after that", false)
	r.setLive(p.Key, func(l *noted) { l.Returned -= ticks(time.Second) })
	r.wantEcho("5.5 s after it", true)
}

// wantEcho lets segments of several forms in and looks at what becomes of the
// echo in those that have one in its place.
func (r *rig) wantEcho(when string, kept bool) {
	r.t.Helper()
	sack := []byte{1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 9}
	for name, c := range map[string]struct {
		segment []byte
		at      int // of the echo in it; 0: not where it is looked for
	}{
		"acknowledgement":          {stamped(flagACK, 0, stamps...), 28},
		"data":                     {stamped(flagACK, 333, stamps...), 28},
		"ranges behind it":         {stamped(flagACK, 0, append(bytes.Clone(stamps), sack...)...), 28},
		"ranges first":             {stamped(flagACK, 0, append(sack, stamps...)...), 0},
		"no options":               {tcp(flagACK, 12), 0},
		"data that look like them": {append(tcp(flagACK, 0), stamps...), 0},
		"first segment":            {stamped(flagSYN|flagACK, 0, append([]byte{2, 4, 5, 0xa0}, stamps...)...), 0},
	} {
		for _, n := range []ilnp.Nonce{none, theirNonce} {
			in := fromPeer(there, n, ip6.TCP, bytes.Clone(c.segment))
			var v int
			var out []byte
			got := r.counted(func() { v, out = r.ingress(in) })
			payload := out[ip6.HeaderLen:]
			forgotten := c.at != 0 && !kept
			want := bytes.Clone(c.segment)
			if forgotten {
				clear(want[c.at : c.at+4])
			}
			copy(want[16:18], payload[16:18])
			if s := ip6.Checksum(session(theirs).Addr(), session(ours).Addr(), ip6.TCP, payload); s != 0 {
				r.t.Errorf("%s, %s: the checksum is wrong", when, name)
			}
			if v != passOn || !bytes.Equal(payload, want) || (got["rx_echo_forgotten"] == 1) != forgotten {
				r.t.Errorf("%s, %s: verdict %d, counted %v, %s", when, name, v, got, difference(payload, want))
			}
		}
	}
}
