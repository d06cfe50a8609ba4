package border

import (
	"errors"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"roam"
	"roam/wire/ilnp"
)

const (
	ringful    = 1024 // more messages than the ring has space for
	shareBurst = 32   // SHARE_BURST
)

// update is a Locator Update of a node.
func (r *rig) update(src, dst roam.ILV, n ilnp.Nonce) []byte {
	r.Helper()
	b, err := ilnp.BuildUpdate(src, dst, n, ilnp.LocatorUpdate{
		Operation: ilnp.Advertisement, Locators: []ilnp.LocatorEntry{{L64: src.L64, Preference: 10, Lifetime: 600}},
	})
	if err != nil {
		r.Fatal(err)
	}
	return b
}

// tooBig is an error of a router about a packet.
func (r *rig) tooBig(dst roam.ILV, quoted []byte) []byte {
	r.Helper()
	router := roam.ILV{L64: remote + 1<<16, NID: 0x99}
	b, err := ilnp.BuildError(router, dst, ilnp.Nonce{}, ilnp.ErrorMessage{
		Type: ilnp.TypePacketTooBig, Param: 1400, Quoted: quoted,
	})
	if err != nil {
		r.Fatal(err)
	}
	return b
}

// refill lets a minute pass for all shares.
func (r *rig) refill() {
	r.Helper()
	full := make(map[bpfShareKey]uint32)
	var k bpfShareKey
	var at uint32
	rows := r.objs.RingShares.Iterate()
	for rows.Next(&k, &at) {
		full[k] = at - uint32(time.Minute>>16)
	}
	err := rows.Err()
	for k, at := range full {
		err = errors.Join(err, r.objs.RingShares.Put(k, at))
	}
	if err != nil {
		r.Fatal(err)
	}
}

// A storm of messages for the daemon gets no more of the ring than a flow's share, with the right nonce, and
// no more than half of it without, from whichever side and of whatever kind. Behind all of them each message
// of another flow is handed over, a new flow is reported, and data of the flows in the storm pass.
func TestRingIsShared(t *testing.T) {
	r := newRig(t)
	l := newLive(r)
	other := sharers{rig: r, outside: []roam.NID{outsideNID + 1, outsideNID + 2}}
	other.nonces(0)
	site, far := roam.ILV{L64: siteA, NID: insideNID}, roam.ILV{L64: remote, NID: other.outside[0]}
	otherOut, otherIn := own(0)
	forged := ilnp.Nonce{Len: 4, Bytes: [12]byte{9, 9, 9, 9}}
	out, in := r.objs.SbrInsideIngress, r.objs.SbrUplinkIngress
	unlisted := roam.ILV{L64: remote, NID: 0x1234}
	quoted := moved(t, transport(t, 17, 1, 2), site, theirs) // as it left

	share := func(name string, prog *ebpf.Program, packet []byte, least, most uint64, excess string) {
		t.Helper()
		before, began := r.counts(), time.Now()
		for i := range ringful {
			if r.run(prog, packet); i%64 == 0 {
				l.pass()
			}
		}
		after := r.counts()
		n := after["handed_over"] - before["handed_over"]
		if most == shareBurst {
			most += uint64(time.Since(began)/(10*time.Millisecond)) + 1
		}
		if n < least || n > most || after[excess]-before[excess] != ringful-n {
			t.Errorf("%s: %d handed over, want %d to %d; %s counts %d", name, n, least, most, excess,
				after[excess]-before[excess])
		}
	}
	const most = shareBurst // and what time adds
	share("updates from inside", out, r.update(mine, theirs, outward), shareBurst, most, "drop_ring_share")
	share("updates from outside", in, r.update(theirs, site, inward), shareBurst, most, "drop_ring_share")
	share("errors about packets that left", in, r.tooBig(site, quoted), shareBurst, most, "drop_ring_share")
	share("updates with a wrong nonce from inside", out, r.update(mine, theirs, forged), 0, ringful/4, "drop_ring_full")
	elsewhere := roam.ILV{L64: remote + 1<<16, NID: outsideNID} // both nodes' nonces would make another session
	share("updates with a wrong nonce from outside", in, r.update(elsewhere, site, forged), 0, 0, "drop_ring_full")
	share("updates of no flow", in, r.update(unlisted, site, forged), 0, 0, "drop_ring_full")
	share("errors about packets of no flow", in, r.tooBig(site, moved(t, quoted, site, unlisted)), 0, 0, "drop_ring_full")
	l.wantUntouched("storms")

	before := r.counts()
	r.run(out, r.update(mine, far, otherOut))
	r.run(in, r.update(far, site, otherIn))
	r.run(in, r.tooBig(site, moved(t, quoted, site, far)))
	if n := r.counts()["handed_over"] - before["handed_over"]; n != 3 {
		t.Errorf("%d of 3 messages of another flow handed over", n)
	}
	other.nonces(1)
	if after := r.counts(); after["flow_confirmed"] != before["flow_confirmed"]+1 ||
		after["drop_ring_full"] != before["drop_ring_full"] {
		t.Errorf("a new flow is not reported: %v", after)
	}
	if list, err := r.Refused(); err != nil || len(list) != 2 || list[1].Name != "drop_ring_share" ||
		list[1].Last.Type != ilnp.TypeLocatorUpdate && list[1].Last.Type != ilnp.TypePacketTooBig {
		t.Errorf("what is kept of the excess: %+v, %v", list, err)
	}

	if err := drain(r.objs.Handovers); err != nil {
		t.Fatal(err)
	}
	r.refill()
	share("a minute later", out, r.update(mine, theirs, outward), shareBurst, most, "drop_ring_share")
}
