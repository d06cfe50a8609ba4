package border

import (
	"testing"

	"roam"
	"roam/sbr"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// An inside node that claims the NID of a neighbour with a live flow, from the neighbour's own locator or
// another one, with nonces of its own, with and without the nonce of the outside node, or with none, changes
// nothing of the flow, whose packets from outside go to the neighbour.
func TestInsideClaim(t *testing.T) {
	r := newRig(t)
	other := internal + 1<<16
	text := policyText(50, 50) + other.Prefix().Addr().String() + " 1 0 none 1 2\n"
	p, err := sbr.ParsePolicy([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r.table = sbr.NewTable(p, []sbr.Site{{L64: siteA, Link: loopback, Up: true}, {L64: siteB, Link: loopback, Up: true}})
	if err := r.Install(r.table, everyIndex, hops); err != nil {
		t.Fatal(err)
	}
	l := newLive(r)
	site := roam.ILV{L64: siteA, NID: insideNID}
	elsewhere := roam.ILV{L64: remote + 1<<16, NID: outsideNID} // where the claimant would have the flow go
	for i := range 64 {
		forged := ilnp.Nonce{Len: 4, Bytes: [12]byte{9, 9, 9, byte(i)}}
		for _, from := range []roam.ILV{mine, {L64: other, NID: insideNID}} {
			for _, to := range []roam.ILV{theirs, elsewhere} {
				r.run(r.objs.SbrInsideIngress, r.echo(from, to, forged, i%2 == 0, 1, 16))
				r.run(r.objs.SbrInsideIngress, r.echo(from, to, ilnp.Nonce{}, true, 1, 16))
				r.run(r.objs.SbrInsideIngress, moved(t, transport(t, ip6.UDP, 1, 2), from, to))
				r.run(r.objs.SbrInsideIngress, r.update(from, to, forged))
			}
		}
		// The outside node goes on, with its nonce.
		if verdict, out := r.run(r.objs.SbrUplinkIngress, r.echo(theirs, site, inward, true, 1, 16)); verdict != passOn ||
			destination(out) != internal {
			t.Errorf("claim %d: verdict %#x, to %v", i, verdict, destination(out))
		}
		l.pass()
	}
	l.wantUntouched("claims from inside")
	if n := r.known(); n != 1 {
		t.Errorf("%d flows, want the neighbour's", n)
	}
	// What the neighbour announces afterwards is handed over with its nonce, and leaves the claims behind.
	before := r.counter("handed_over")
	if r.run(r.objs.SbrInsideIngress, r.update(mine, theirs, outward)); r.counter("handed_over") != before+1 {
		t.Error("an update of the neighbour is not handed over")
	}
}

// The daemon can read the nonce of an inside node that has lost its state; that of an outside node is none of that.
func TestOtherNonce(t *testing.T) {
	lost := ilnp.Nonce{Len: 4, Bytes: [12]byte{9, 9, 9, 9}}
	for _, inside := range []bool{false, true} {
		r := newRig(t)
		r.confirm()
		if n := r.OtherNonce(theKey); n.Present() {
			t.Errorf("at first %v", n)
		}
		want := ilnp.Nonce{}
		if inside {
			want = lost
			r.run(r.objs.SbrInsideIngress, r.echo(mine, theirs, lost, true, 1, 16))
		} else {
			r.run(r.objs.SbrUplinkIngress, r.echo(theirs, roam.ILV{L64: siteA, NID: insideNID}, lost, true, 1, 16))
		}
		if n := r.OtherNonce(theKey); n != want {
			t.Errorf("another nonce, from inside %v: %v", inside, n)
		}
	}
}
