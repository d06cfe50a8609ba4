package ilnphost

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// retryRig has a first segment of a preinstalled entry on its way.
type retryRig struct {
	*rig
	entry   ilnp.Entry
	session []byte // the segment, between session addresses
	wire    []byte // as it left
}

// newRetryRig takes the segment of the golden case.
func newRetryRig(t *testing.T, n ilnp.Nonce) retryRig {
	r := retryRig{rig: newRig(t), session: goldenCases(t)["tcp-syn"].Session}
	ip(t, "link set lo up")
	r.uplink(here)
	r.entry = preinstalled(ilnp.Initiated)
	r.entry.LocalNonce = n
	r.upsert(r.entry)
	_, r.wire = r.egress(r.session)
	r.wantKinds("first segment", First)
	return r
}

// plain is how the model has the segment leave without a nonce.
func (r retryRig) plain() []byte {
	r.t.Helper()
	b, err := xlate.Outward(r.session, xlate.Entry{
		SessionPrefix: roam.DefaultSessionPrefix, LocalAlias: ours, LocalNID: ours, LocalL64: here,
		RemoteAlias: theirs, RemoteNID: theirs, RemoteL64: there,
	})
	r.must(err)
	return b
}

// refused is what a stock host answers to a packet with a nonce.
func refused(t *testing.T, quoted []byte) []byte {
	t.Helper()
	return mustPacket(t)(ilnpwire.BuildError(at(there, theirs), at(here, ours), ilnp.Nonce{},
		ilnpwire.ErrorMessage{Type: ilnpwire.TypeParameterProblem, Code: ilnpwire.CodeUnknownOption, Param: ip6.HeaderLen + 2, Quoted: quoted}))
}

// leaving returns what leaves by the loopback link, with Ethernet header.
func leaving(t *testing.T) (read func() [][]byte) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, int(hostToNet16(unix.ETH_P_ALL)))
	if err != nil {
		t.Fatalf("listen on link: %v", err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return func() (all [][]byte) {
		for b := make([]byte, 2048); ; {
			n, from, err := unix.Recvfrom(fd, b, 0)
			if err != nil {
				return all
			}
			if sa, ok := from.(*unix.SockaddrLinklayer); ok && sa.Pkttype == unix.PACKET_OUTGOING {
				all = append(all, bytes.Clone(b[:n]))
			}
		}
	}
}

// A first segment whose nonce is refused leaves at once as the model has it, also
// where its checksum was still to be computed when it was quoted; and only once. A
// device has summed the error whole, and that sum is kept.
func TestRetry(t *testing.T) {
	for name, c := range map[string]struct {
		nonce ilnp.Nonce
		seed  bool
	}{"short nonce": {ourNonce, false}, "long nonce": {longNonce, false}, "only a seed is there": {ourNonce, true}} {
		t.Run(name, func(t *testing.T) {
			r := newRetryRig(t, c.nonce)
			want := r.plain()
			if c.seed {
				_, r.wire, _ = seeded(r.wire, xlate.Entry{})
			}
			left, e := leaving(t), refused(t, r.wire)
			var v int
			got := r.counted(func() { v, _ = r.ingress(e, on(loopback), complete) })
			r.wantCounts(name, got, counts{"tx_retried": 1, "error_handed_over": 1})
			evs := r.events()
			if v != shot || len(evs) != 1 || evs[0].Kind != Retried || evs[0].Key != r.entry.Key || !bytes.Equal(evs[0].Packet, want) {
				t.Fatalf("verdict %d, events %+v", v, evs)
			}
			back := append(append(bytes.Clone(theirMAC), ourMAC...), 0x86, 0xdd)
			if all := left(); len(all) != 1 || !bytes.Equal(all[0], append(back, want...)) {
				t.Errorf("on the link are %x", all)
			}
			r.ingress(e, on(loopback))
			r.wantKinds("refused once more", ErrorIn)
			if all := left(); len(all) != 0 {
				t.Errorf("sent once more: %x", all)
			}
		})
	}
}

// The answer to such a segment is taken although the daemon has not changed the entry
// yet; without one no packet without nonce is.
func TestRetryIsAnswered(t *testing.T) {
	r := newRetryRig(t, ourNonce)
	answer := fromPeer(there, ilnp.Nonce{}, ip6.TCP, tcp(flagSYN|flagACK, 0))
	if v, _ := r.ingress(answer); v != shot {
		t.Errorf("before: verdict %d", v)
	}
	r.ingress(refused(t, r.wire), on(loopback))
	r.wantKinds("refused", Retried)
	begun := r.entry
	begun.Preinstalled, begun.RuleSought, begun.Seq = false, true, begun.Seq+1
	r.upsert(begun) // it has heard of the first packet
	v, out := r.ingress(answer)
	if p, err := ilnpwire.ParsePacket(out); v != passOn || err != nil || p.Src != session(theirs) || p.Dst != session(ours) {
		t.Errorf("verdict %d, %+v, %v", v, p, err)
	}
	if p := r.send(ip6.TCP, tcp(flagACK, 0)); p.Nonce.Present() {
		t.Error("what follows goes with the nonce that was refused")
	}
	// The peer has turned to ILNP meanwhile, with checksums over NIDs. A packet without nonce is plain
	// IPv6 to it.
	r.setLive(r.entry.Key, func(l *noted) { l.Learned, l.Rule = nonce(theirNonce), uint8(bpfRuleFoundRULE_RFC6741) })
	if p := r.send(ip6.UDP, udp(9)); p.Nonce.Present() {
		t.Error("a datagram goes with the nonce that was refused")
	}
	elsewhere := fromPeer(else1, ilnp.Nonce{}, ip6.TCP, tcp(flagSYN|flagACK, 0))
	if v, _ := r.ingress(elsewhere); v != shot {
		t.Errorf("from elsewhere: verdict %d", v)
	}
}

// What follows such a segment leaves from where it did: to a correspondent without
// ILNP it would be a segment of no connection from anywhere else.
func TestRetryKeepsToItsPath(t *testing.T) {
	r := newRetryRig(t, ourNonce)
	r.uplink(here, here+1)
	r.entry.Preinstalled, r.entry.Seq = false, r.entry.Seq+1
	r.entry.Paths = append(r.entry.Paths, ilnp.Path{Local: roam.LinkLocator{Link: loopback, L64: here + 1}, Remote: there})
	r.upsert(r.entry)
	r.ingress(refused(t, r.wire), on(loopback))
	r.wantKinds("refused", Retried)
	for range 4 {
		for _, flags := range []uint8{flagACK, flagSYN} {
			if p := r.send(ip6.TCP, tcp(flags, 0)); p.Src.L64 != here || p.Nonce.Present() {
				t.Errorf("flags %x: from %v, nonce %v", flags, p.Src, p.Nonce)
			}
		}
	}
}

// Where the link does not take the segment, the daemon is told of the refusal alone,
// and sends what it keeps.
func TestRetryFails(t *testing.T) {
	r := newRetryRig(t, ourNonce)
	ip(t, "link set lo down")
	got := r.counted(func() { r.ingress(refused(t, r.wire), on(loopback)) })
	if evs := r.events(); len(evs) != 1 || evs[0].Kind != Retried || evs[0].Key != r.entry.Key || len(evs[0].Packet) != 0 {
		t.Errorf("events %+v", evs)
	}
	r.wantCounts("link is down", got, counts{"drop_kernel_helper": 1, "error_handed_over": 1})
}

// All else is left to the daemon.
func TestRetryIsLeft(t *testing.T) {
	const option = ip6.HeaderLen + 2
	segment := ip6.HeaderLen + 8 // in wire
	for name, change := range map[string]func(r retryRig) []byte{
		"another nonce": func(r retryRig) []byte { r.wire[option+3]++; return refused(t, r.wire) },
		"another option": func(r retryRig) []byte {
			r.wire[option]++
			return refused(t, r.wire)
		},
		"wrong checksum": func(r retryRig) []byte { r.wire[segment+4]++; return refused(t, r.wire) },
		"no first segment": func(r retryRig) []byte {
			_, b := r.egress(toPeer(ip6.TCP, tcp(flagSYN|flagACK, 0)))
			return refused(t, b)
		},
		"data": func(r retryRig) []byte {
			_, b := r.egress(toPeer(ip6.TCP, tcp(flagSYN, 30)))
			return refused(t, b)
		},
		"no segment": func(r retryRig) []byte {
			_, b := r.egress(toPeer(ip6.UDP, udp(12)))
			return refused(t, b)
		},
		"cut off":          func(r retryRig) []byte { return refused(t, r.wire[:len(r.wire)-4]) },
		"something behind": func(r retryRig) []byte { return refused(t, append(r.wire, 0, 0, 0, 0)) },
		"not its sender's": func(r retryRig) []byte {
			e := refused(t, r.wire)
			e[8]++ // a locator of the correspondent's that was not sent to
			return e
		},
		"another code": func(r retryRig) []byte { e := refused(t, r.wire); e[ip6.HeaderLen+1] = 1; return e },
		"another byte": func(r retryRig) []byte { e := refused(t, r.wire); e[ip6.HeaderLen+7]++; return e },
		"established": func(r retryRig) []byte {
			r.entry.State, r.entry.RemoteNonce, r.entry.Seq = ilnp.Established, theirNonce, r.entry.Seq+1
			r.upsert(r.entry)
			return refused(t, r.wire)
		},
		"its nonce is known": func(r retryRig) []byte {
			r.ingress(fromPeer(there, theirNonce, ip6.TCP, tcp(flagSYN|flagACK, 0)))
			return refused(t, r.wire)
		},
		"other rule": func(r retryRig) []byte {
			r.entry.Rule, r.entry.Seq = ilnp.RuleRFC6741, r.entry.Seq+1
			r.upsert(r.entry)
			return refused(t, r.wire)
		},
		"plain IPv6 is not allowed": func(r retryRig) []byte {
			r.entry.Unconfirmed, r.entry.Seq = true, r.entry.Seq+1
			r.upsert(r.entry)
			return refused(t, r.wire)
		},
		"moved": func(r retryRig) []byte { r.uplink(else2); return refused(t, r.wire) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRetryRig(t, ourNonce)
			left, e := leaving(t), change(r)
			r.events()
			got := r.counted(func() { r.ingress(e, on(loopback)) })
			if got["tx_retried"] != 0 || len(left()) != 0 {
				t.Errorf("retransmitted: %v", got)
			}
			for _, k := range r.kinds() {
				if k != ErrorIn {
					t.Errorf("event %v", k)
				}
			}
		})
	}
}
