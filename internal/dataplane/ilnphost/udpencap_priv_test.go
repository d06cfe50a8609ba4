package ilnphost

import (
	"bytes"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// encap puts a control packet into UDP.
func encap(t testing.TB, packet []byte) []byte {
	t.Helper()
	return mustPacket(t)(ilnpwire.Encapsulate(packet, encapPort))
}

// Control messages in UDP meet the rules that those with the option meet.
func TestEncapsulatedInbound(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	taken := func(more counts) counts {
		all := counts{"rx_encap": 1}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	handed := taken(counts{"control_handed_over": 1})
	other := encap(t, update(t, there, theirNonce))
	other[ip6.HeaderLen+3]++ // to another port
	_ = ip6.FinishL4(other)
	r.check([]verdictCase{
		{"update", encap(t, update(t, there, theirNonce)), shot, handed, []EventKind{Control}},
		{"update from elsewhere", encap(t, update(t, else1, theirNonce)), shot, handed, []EventKind{LocatorSeen, More, Control}},
		{"probe's reply", encap(t, echo(t, there, theirNonce, false, r.host.ProbeID)), shot, handed, []EventKind{Control}},
		{"a user's echo reply", encap(t, echo(t, there, theirNonce, false, 1)), passOn, taken(deliveredNonce), nil},
		{"to another port", other, passOn, delivered, nil},
		{"a datagram of an application", fromPeer(there, none, ip6.UDP, toPort(udp(40))), passOn, delivered, nil},
	})
	reply := encap(t, echo(t, there, theirNonce, false, 1))
	want := mustPacket(t)(ilnpwire.BuildEcho(session(theirs), session(ours), none, false, 1, 7, []byte("sixteen bytes...")))
	for _, set := range [][]func(*ebpf.RunOptions){nil, {complete}} {
		if _, out := r.ingress(reply, set...); !bytes.Equal(out, want) {
			t.Errorf("a user's echo reply: %s", difference(out, want))
		}
	}
	got := r.counted(func() { r.ingress(encap(t, update(t, there, wrongNonce))) })
	if got["control_handed_over"] != 0 || got["rx_encap"] != 1 {
		t.Errorf("an update with another nonce: %v", got)
	}
}

// toPort aims a datagram at the port of encapsulated messages.
func toPort(b []byte) []byte {
	b[2], b[3] = encapPort>>8, encapPort&0xff
	return b
}

// A probe in UDP is answered on the spot, in UDP, with a checksum that holds, also
// behind a header of padding and at any length of the nonces.
func TestEncapsulatedReflected(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	for _, n := range []ilnp.Nonce{theirNonce, {Len: 12, Bytes: [12]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}} {
		p := entryFor(there)
		p.RemoteNonce, p.LocalNonce = n, ilnp.Nonce{Len: n.Len, Bytes: [12]byte{0xff, 0xfe, 7}}
		r.upsert(p)
		for _, o := range []ilnpwire.EncapsulatedEcho{{Port: encapPort}, {Port: encapPort, Padded: true}, {Port: encapPort, Size: 1500}} {
			e := ilnpwire.Echo{Request: true, ID: 5, Seq: 6, Data: []byte("sixteen bytes...")}
			probe := mustPacket(t)(ilnpwire.BuildEncapsulatedEcho(at(there, theirs), at(here, ours), n, e, o))
			var v int
			var out []byte
			got := r.counted(func() { v, out = r.ingress(probe) })
			r.wantCounts("probe", got, counts{"rx_encap": 1, "rx_echo_reflected": 1})
			q, err := ilnpwire.ParseControl(out, encapPort)
			if err != nil || v != 7 || !q.Encapsulated || q.Type != ilnpwire.TypeEchoReply || q.Nonce != p.LocalNonce ||
				q.Src != at(here, ours) || q.Dst != at(there, theirs) {
				t.Errorf("%+v: verdict %d, answer %+v, %v", o, v, q, err)
			}
			if len(out) != len(probe) {
				t.Errorf("%+v: answer of %d bytes to %d", o, len(out), len(probe))
			}
		}
		r.must(r.Delete(p.Key))
	}
}

// Where a path drops options, data leaves without, and ICMPv6 in UDP.
func TestEncapsulatedOutbound(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	for _, length := range []uint8{4, 12} {
		p := entryFor(there)
		p.Encap, p.NonceUntil = true, time.Now().Add(time.Hour)
		p.LocalNonce = ilnp.Nonce{Len: length, Bytes: [12]byte{9, 8, 7, 6}}
		p.Seq += uint32(length)
		r.upsert(p)
		_, out := r.egress(toPeer(ip6.TCP, tcp(flagSYN, 0)))
		if want := packet(at(here, ours), at(there, theirs), ip6.TCP, tcp(flagSYN, 0)); !bytes.Equal(out, want) {
			t.Errorf("SYN: %s", difference(out, want))
		}
		for _, size := range []int{0, 1, 56, 1200} {
			request, err := ilnpwire.BuildEcho(session(ours), session(theirs), none, true, 77, 1, make([]byte, size))
			if err != nil {
				t.Fatal(err)
			}
			got := r.counted(func() { _, out = r.egress(request) })
			r.wantCounts("echo", got, counts{"tx_packets": 1, "tx_encap": 1})
			want := encap(t, mustPacket(t)(ilnpwire.BuildEcho(at(here, ours), at(there, theirs), p.LocalNonce, true, 77, 1, make([]byte, size))))
			if !bytes.Equal(out, want) {
				t.Errorf("echo of %d bytes, nonce of %d: %s", size, length, difference(out, want))
			}
		}
	}
}

// A pending peer whose nonce came in UDP is known by its place from then on, and
// answered without the option until it shows one: then that passes, but the
// pending peer may have found that ICMPv6 does not, and do without all the same.
func TestEncapsulatedPending(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.must(r.SetRecord(Record{NID: theirs, Locators: []roam.L64{there}}))
	syn := fromPeer(there, none, ip6.TCP, tcp(flagSYN, 0))
	answer := toPeer(ip6.TCP, tcp(flagSYN|flagACK, 0))
	r.check([]verdictCase{{"before its nonce", syn, passOn, counts{}, nil}})
	r.ingress(encap(t, echo(t, there, theirNonce, true, 5)))
	evs := r.events()
	if len(evs) != 1 || evs[0].Kind != PendingPeer || !evs[0].Encapsulated {
		t.Fatalf("events %+v", evs)
	}
	r.check([]verdictCase{
		{"from its place", syn, passOn, delivered, nil},
		{"from elsewhere", fromPeer(else1, none, ip6.TCP, tcp(flagSYN, 0)), passOn, counts{}, nil},
		{"a ping", fromPeer(there, none, ip6.ICMPv6, []byte{128, 0, 0, 0, 0, 0, 0, 0}), passOn, counts{}, nil},
	})
	got := r.counted(func() { r.egress(answer) })
	r.wantCounts("answer", got, counts{"tx_packets": 1, "tx_pending": 1})
	r.ingress(echo(t, there, theirNonce, true, 5)) // it gets through after all
	r.events()
	r.check([]verdictCase{
		{"without nonce", syn, passOn, delivered, nil},
		{"without nonce, in the middle of a connection", fromPeer(there, none, ip6.TCP, tcp(flagACK, 30)), passOn, delivered, nil},
		{"the same from elsewhere", fromPeer(else1, none, ip6.TCP, tcp(flagACK, 30)), passOn, counts{}, nil},
	})
	got = r.counted(func() { r.egress(answer) })
	r.wantCounts("answer with the option", got, counts{"tx_packets": 1, "tx_pending": 1, "tx_nonce": 1})
}
