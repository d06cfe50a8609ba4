package border

import (
	"fmt"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"roam"
	"roam/sbr"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// aside is another internal locator than that of the flow.
const aside roam.L64 = internal + 1<<16

// installAside adds that locator to the policy, with the same providers.
func (r *rig) installAside() {
	r.Helper()
	p, err := sbr.ParsePolicy([]byte(policyText(50, 50) + aside.Prefix().Addr().String() + " 60 0 vlb 1 2\n"))
	if err != nil {
		r.Fatal(err)
	}
	r.table = sbr.NewTable(p, []sbr.Site{{L64: siteA, Link: loopback, Up: true}, {L64: siteB, Link: loopback, Up: true}})
	if err := r.Install(r.table, everyIndex, map[roam.LinkID]Hop{
		loopback: {MTU: 1500, MACs: [12]byte{2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 8}},
	}); err != nil {
		r.Fatal(err)
	}
}

// quiet lets the inside node of the flow have sent nothing for long.
func (r *rig) quiet() { r.change(theKey, func(f *bpfFlow) { f.Sent = 1 }) }

// hasSent reports whether a packet has counted as one of the inside node since quiet.
func (r *rig) hasSent() bool {
	f, ok := r.Flow(theKey, r.table)
	if !ok {
		r.Fatal("the flow is gone")
	}
	return time.Since(f.Sent) < time.Minute
}

// from is a datagram in the name of the inside node of the flow, from that locator.
func (r *rig) from(l roam.L64) []byte {
	return moved(r.T, transport(r.T, ip6.UDP, 1, 2), roam.ILV{L64: l, NID: insideNID}, theirs)
}

// A packet shows that the inside node of a flow is there only if it comes from its locator and by its link, or has its
// nonce: on all paths, also where internals had no space for the locator.
func TestWhatShowsPresence(t *testing.T) {
	r := newPlainRig(t, siteA)
	r.installAside()
	tc, xdp := r.objs.SbrInsideIngress, r.objs.SbrInsideXdp
	echo := func(l roam.L64, n ilnp.Nonce) []byte {
		return r.echo(roam.ILV{L64: l, NID: insideNID}, theirs, n, true, 1, 56)
	}
	for _, c := range []struct {
		what     string
		prog     *ebpf.Program
		packet   []byte
		otherDev bool // the flow's packets came by another link so far
		shows    bool
	}{
		{"a datagram", tc, r.from(internal), false, true},
		{"a datagram at XDP", xdp, r.from(internal), false, true},
		{"an echo request", tc, echo(internal, ilnp.Nonce{}), false, true},
		{"from another locator", tc, r.from(aside), false, false},
		{"from another locator at XDP", xdp, r.from(aside), false, false},
		{"an echo request from another locator", tc, echo(aside, ilnp.Nonce{}), false, false},
		{"a wrong nonce from another locator", tc, echo(aside, inward), false, false},
		{"by another link", tc, r.from(internal), true, false},
		{"by another link at XDP", xdp, r.from(internal), true, false},
		{"an echo request by another link", tc, echo(internal, ilnp.Nonce{}), true, false},
	} {
		for _, placed := range []bool{true, false} {
			t.Run(fmt.Sprint(c.what, " placed ", placed), func(t *testing.T) {
				r.renew()
				r.quiet()
				var was bpfFlow
				r.change(theKey, func(f *bpfFlow) {
					if was = *f; c.otherDev {
						f.Link = loopback + 1
					}
					if !placed {
						f.InternalAt = 0
					}
				})
				r.frame(c.prog, c.packet)
				if r.hasSent() != c.shows {
					t.Errorf("shows that the host is there: %v, want %v", r.hasSent(), c.shows)
				}
				r.change(theKey, func(f *bpfFlow) { f.Link, f.InternalAt = was.Link, was.InternalAt })
			})
		}
	}
}

// While another inside node sends in the name of one that has left, the border sends nothing in its name: neither
// updates nor probes. It does again once that host has sent.
func TestSilentForLeftHostBesideLiar(t *testing.T) {
	r := newRig(t)
	r.installAside()
	r.confirm()
	r.quiet()
	now, sent := time.Now(), 0
	core := sbr.New(0, 0, maxFlows, sbr.Probe{ID: 7})
	p, err := sbr.ParsePolicy([]byte(policyText(50, 50)))
	if err != nil {
		t.Fatal(err)
	}
	settle := func() {
		for o, ok := core.Poll(); ok; o, ok = core.Poll() {
			switch o := o.(type) {
			case sbr.Transmit:
				sent++
			case sbr.Look:
				f, _ := r.Flow(o.FlowKey, r.table)
				core.HandleSeen(now, o.FlowKey, now.Add(-time.Since(f.Sent)))
			}
		}
	}
	pass := func(what string, packets ...[]byte) {
		for end := now.Add(30 * time.Second); now.Before(end); now = now.Add(250 * time.Millisecond) {
			for _, packet := range packets {
				r.run(r.objs.SbrInsideIngress, packet)
			}
			core.HandleTimeout(now)
			settle()
		}
		t.Logf("%s: %d packets in its name", what, sent)
	}
	core.HandlePolicy(now, p)
	core.HandleSites(now, r.table.Sites)
	f, _ := r.Flow(theKey, r.table)
	core.HandleFlow(now, f.FlowSeen, nil)
	core.Watch(now)
	wrong := r.echo(roam.ILV{L64: aside, NID: insideNID}, theirs, inward, true, 1, 16)
	pass("beside a liar", r.from(aside), r.from(aside), wrong)
	if sent > 0 {
		t.Error("the border sends in the name of a host that has left")
	}
	pass("once it is back", r.from(internal))
	if sent == 0 {
		t.Error("the border sends nothing in the name of a host that is there")
	}
}
