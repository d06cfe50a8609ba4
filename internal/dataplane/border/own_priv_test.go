package border

import (
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/wire/ilnp"
)

// Packets from inside to the border itself pass unchanged, whatever locator its address has; of
// these the answer to its own echo request goes to the daemon.
func TestOwnFromInside(t *testing.T) {
	r := newRig(t)
	events, err := r.Follow()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.ring.Close() })
	r.configure(Settings{ProbeID: 7})
	const ownNID roam.NID = 0x99
	for _, l := range []roam.L64{internal, siteA, remote} {
		own := roam.ILV{L64: l, NID: ownNID}
		if err := r.SetOwn([]roam.ILV{own}); err != nil {
			t.Fatal(err)
		}
		request := r.echo(mine, own, ilnp.Nonce{}, true, 1, 16)
		if verdict, out := r.run(r.objs.SbrInsideIngress, request); verdict != passOn || string(out) != string(request) {
			t.Errorf("%v: a request has verdict %#x", own, verdict)
		}
		foreign, err := ilnp.BuildEcho(mine, own, ilnp.Nonce{}, false, 8, 1, make([]byte, 16))
		if err != nil {
			t.Fatal(err)
		}
		if verdict, _ := r.run(r.objs.SbrInsideIngress, foreign); verdict != passOn {
			t.Errorf("%v: an answer to somebody else has verdict %#x", own, verdict)
		}
		if verdict, _ := r.run(r.objs.SbrInsideIngress, r.echo(mine, own, ilnp.Nonce{}, false, 1, 16)); verdict != shot {
			t.Errorf("%v: an answer has verdict %#x", own, verdict)
		}
		select {
		case e := <-events:
			if e.Kind != FromInside {
				t.Errorf("%v: handed over %+v", own, e)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%v: the answer was not handed over", own)
		}
	}
}

// A flow notes packets of each side apart.
func TestPassedTimes(t *testing.T) {
	r := newRig(t)
	r.confirm(siteA)
	flow := func() FlowEntry {
		f, _ := r.Flow(theKey, r.table)
		return f
	}
	was := flow()
	if d := time.Since(was.Sent); d < 0 || d > 5*time.Second || was.Seen.Before(was.Sent) {
		t.Fatalf("sent %v ago, seen %v", d, was.Seen)
	}
	testutil.Eventually(t, 5*time.Second, func() bool {
		r.run(r.objs.SbrUplinkIngress, r.echo(theirs, roam.ILV{L64: siteA, NID: insideNID}, inward, false, 2, 56))
		return flow().Seen.After(was.Seen)
	}, "a packet from outside is seen")
	if f := flow(); !f.Sent.Equal(was.Sent) {
		t.Errorf("it counts as one from inside: %v, was %v", f.Sent, was.Sent)
	}
	testutil.Eventually(t, 5*time.Second, func() bool {
		r.run(r.objs.SbrInsideIngress, r.echo(mine, theirs, outward, true, 2, 56))
		return flow().Sent.After(was.Sent)
	}, "a packet from inside is seen")
}
