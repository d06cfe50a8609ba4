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

// age lets time pass for all shares.
func (r *rig) age(d time.Duration) {
	r.Helper()
	full := make(map[bpfShareKey]uint32)
	var k bpfShareKey
	var at uint32
	rows := r.objs.RingShares.Iterate()
	for rows.Next(&k, &at) {
		full[k] = at - uint32(d>>16)
	}
	err := rows.Err()
	for k, at := range full {
		err = errors.Join(err, r.objs.RingShares.Put(k, at))
	}
	if err != nil {
		r.Fatal(err)
	}
}

// storm puts a packet through a program so often that its records would fill the ring. It wants least to most of
// them handed over, and the excess in a counter. A most of shareBurst grows by what time adds.
func (l *live) storm(name string, prog *ebpf.Program, packet []byte, least, most uint64, excess string) {
	l.Helper()
	before, began := l.counts(), time.Now()
	for i := range ringful {
		if l.run(prog, packet); i%64 == 0 {
			l.pass()
		}
	}
	after := l.counts()
	n := after["handed_over"] - before["handed_over"]
	if most == shareBurst {
		most += added(began)
	}
	if n < least || n > most || after[excess]-before[excess] != ringful-n {
		l.Errorf("%s: %d handed over, want %d to %d; %s counts %d", name, n, least, most, excess,
			after[excess]-before[excess])
	}
}

// added is what time has added to a share since then.
func added(began time.Time) uint64 { return uint64(time.Since(began)/(10*time.Millisecond)) + 1 }

// anew empties the ring and fills the shares.
func (r *rig) anew() {
	r.Helper()
	if err := drain(r.objs.Handovers); err != nil {
		r.Fatal(err)
	}
	r.age(time.Minute)
}

// A storm of messages for the daemon gets no more of the ring than a flow's share, with the right nonce, and
// no more than half of it without, from whichever side and of whatever kind. Behind all of them each message
// of another flow is handed over, a new flow is reported, and data of the flows in the storm pass.
func TestRingIsShared(t *testing.T) {
	r := newRig(t)
	const probeID = 8
	r.configure(Settings{ProbeID: probeID})
	border := roam.ILV{L64: internal, NID: 0x99}
	if err := r.SetOwn([]roam.ILV{border}); err != nil {
		t.Fatal(err)
	}
	answer, err := ilnp.BuildEcho(mine, border, ilnp.Nonce{}, false, probeID, 1, make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	l := newLive(r)
	other := sharers{rig: r, outside: []roam.NID{outsideNID + 1, outsideNID + 2}}
	other.nonces(0)
	site, far := roam.ILV{L64: siteA, NID: insideNID}, roam.ILV{L64: remote, NID: other.outside[0]}
	otherOut, otherIn := own(0)
	forged := ilnp.Nonce{Len: 4, Bytes: [12]byte{9, 9, 9, 9}}
	out, in := r.objs.SbrInsideIngress, r.objs.SbrUplinkIngress
	unlisted := roam.ILV{L64: remote, NID: 0x1234}
	quoted := moved(t, transport(t, 17, 1, 2), site, theirs) // as it left
	valid, wrong := r.update(mine, theirs, outward), r.update(mine, theirs, forged)

	const most = shareBurst // and what time adds
	l.storm("updates from inside", out, valid, shareBurst, most, "drop_ring_share")
	l.storm("updates from outside", in, r.update(theirs, site, inward), shareBurst, most, "drop_ring_share")
	l.storm("errors about packets that left", in, r.tooBig(site, quoted), shareBurst, most, "drop_ring_share")
	l.storm("updates with a wrong nonce from inside", out, wrong, 0, ringful/4, "drop_ring_full")
	elsewhere := roam.ILV{L64: remote + 1<<16, NID: outsideNID} // both nodes' nonces would make another session
	l.storm("updates with a wrong nonce from outside", in, r.update(elsewhere, site, forged), 0, 0, "drop_ring_full")
	l.storm("updates of no flow", in, r.update(unlisted, site, forged), 0, 0, "drop_ring_full")
	quoted = moved(t, quoted, site, unlisted)
	l.storm("errors about packets of no flow", in, r.tooBig(site, quoted), 0, 0, "drop_ring_full")
	l.storm("answers to the border", out, answer, 0, 0, "drop_ring_full")
	l.wantUntouched("storms")

	// Slow machines add to the shares during the storms, so these are short.
	r.anew()
	for range shareBurst + 1 {
		r.run(out, valid)
	}
	for range ringful / 2 {
		r.run(out, wrong)
	}
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
	r.anew()
	l.storm("a minute later", out, valid, shareBurst, most, "drop_ring_share")
}

// Two nodes whose session begins anew again and again have a share of the ring for the reports of it.
func TestReportsAreShared(t *testing.T) {
	r := newRig(t)
	begin := func(i int) {
		out, in := outward, inward
		out.Bytes[0], in.Bytes[0] = byte(i), byte(i)
		r.run(r.objs.SbrInsideIngress, r.echo(mine, theirs, out, true, 1, 56))
		r.run(r.objs.SbrUplinkIngress, r.echo(theirs, roam.ILV{L64: siteA, NID: insideNID}, in, false, 1, 56))
	}
	const sessions = 4 * shareBurst
	before, began := r.counts(), time.Now()
	for i := range sessions {
		begin(i)
	}
	after := r.counts()
	confirmed := after["flow_confirmed"] - before["flow_confirmed"]
	excess := after["drop_ring_share"] - before["drop_ring_share"]
	// The first report is of a new flow, and takes nothing of its share.
	if n := confirmed - excess; confirmed != sessions || n <= shareBurst || n > shareBurst+1+added(began) {
		t.Errorf("%d of %d sessions confirmed, %d of them reported", confirmed, sessions, n)
	}
	if n := after["drop_ring_full"] - before["drop_ring_full"]; n != 0 {
		t.Errorf("the ring had no space for %d reports", n)
	}
	r.age(-time.Minute) // the clock of the shares has gone round
	begin(sessions)
	if n := r.counts()["drop_ring_share"] - after["drop_ring_share"]; n != 0 {
		t.Error("a share that was used up days ago is still used up")
	}
}
