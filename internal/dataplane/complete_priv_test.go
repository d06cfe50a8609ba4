package dataplane

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"roam/ilnp"
	"roam/wire/ip6"
)

// complete makes the test run give the packet CHECKSUM_COMPLETE, as a network
// device does that sums whole packets, and fail if that sum is not the packet's
// any more when the program ends.
func complete(o *ebpf.RunOptions) { o.Flags |= checksumComplete }

// withChecksumFlags opens the rig's plane anew with other flags for changed
// pseudo-headers, as on a kernel with or without BPF_F_IPV6.
func (r *rig) withChecksumFlags(ipv6 bool) {
	r.t.Helper()
	p := newPlane(r.opts)
	flags := uint64(pseudoHeader)
	if ipv6 {
		flags = checksumFlags()
	}
	r.close()
	r.must(p.loadOnce(flags))
	r.must(p.adopt())
	r.Plane = p
	r.urg, r.req = r.reader(p.objs.Urgent), r.reader(p.objs.Requests)
}

// A device's sum over the whole packet stays true through every rewriting, so
// that the stack takes its word for the transport checksum and never cries out
// about the device. It holds with and without the kernel's flag for IPv6.
func TestChecksumComplete(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(pairOf(there))
	_, _, err := tryRun(r.objs.IlnpUplinkIngress, frame(fromPeer(there, none, ip6.TCP, tcp(flagACK, 9))), complete)
	if errors.Is(err, unix.EINVAL) {
		t.Log("the kernel's test run knows nothing of CHECKSUM_COMPLETE: not tested")
		return
	}
	for _, ipv6 := range []bool{true, false} {
		r.withChecksumFlags(ipv6)
		for _, rule := range []ilnp.ChecksumRule{ilnp.RuleIPv6, ilnp.RuleRFC6741} {
			r.completeOf(ipv6, rule)
		}
	}
}

func (r *rig) completeOf(ipv6 bool, rule ilnp.ChecksumRule) {
	r.t.Helper()
	p := pairOf(there)
	p.Rule = rule
	r.upsert(p)
	shared := options(r.t, ip6.TCP, tcp(flagACK, 9), ip6.Option{Type: 0x3e, Data: []byte{1, 2, 3}}, nonceOption(theirNonce.Value()...))
	later := fragment(ip6.UDP, 9, false, udp(30))
	src, dst := at(there, theirs), at(here, ours)
	for name, p := range map[string][]byte{
		"tcp":                      fromPeer(there, none, ip6.TCP, tcp(flagACK, 40)),
		"tcp with nonce":           fromPeer(there, theirNonce, ip6.TCP, tcp(flagACK, 41)),
		"udp with nonce":           fromPeer(there, theirNonce, ip6.UDP, udp(300)),
		"echo reply":               echo(r.t, there, theirNonce, false, 1),
		"nonce in a shared header": packet(src, dst, ip6.DestOpts, shared),
		"later fragment":           packet(src, dst, ip6.Fragment, later),
		"later fragment, nonce":    packet(src, dst, ip6.DestOpts, with(theirNonce, ip6.Fragment, later)),
		"other transport":          fromPeer(there, theirNonce, 253, make([]byte, 33)),
	} {
		v, out, err := tryRun(r.objs.IlnpUplinkIngress, frame(p), complete)
		if err != nil {
			r.t.Errorf("%s, rule %d, BPF_F_IPV6 %v: %v", name, rule, ipv6, err)
			continue
		}
		_, same := r.ingress(p)
		if v != passOn || !bytes.Equal(out[ethLen:], same) {
			r.t.Errorf("%s, rule %d: verdict %d, %s", name, rule, v, difference(out[ethLen:], same))
		}
	}
}
