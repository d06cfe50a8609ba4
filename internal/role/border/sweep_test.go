package border

import (
	"testing"
	"time"

	plane "roam/internal/dataplane/border"
	"roam/sbr"
	"roam/wire/ilnp"
)

// A flow that was not reported is known after a sweep. So are the nonces of its nodes' next session, whose peer knows
// no site locators yet.
func TestSweepFindsFlows(t *testing.T) {
	r := newRole(t)
	r.Config.Border.IdleTimeout = time.Minute
	now := time.Unix(1_000_000, 0)
	f := plane.FlowEntry{Seen: now, FlowSeen: sbr.FlowSeen{
		FlowKey: sbr.FlowKey{Inside: 1, Outside: 2}, Internal: internal, Remote: 3,
		Inward: ilnp.Nonce{Len: 4}, Outward: ilnp.Nonce{Len: 4},
	}}
	f.Announced = append(f.Announced, providerA, providerB)
	r.handleSwept(now, f)
	wantAnnounced := func(what string, want int) {
		t.Helper()
		r.handleSwept(now, f)
		if list := r.core.Flows(); len(list) != 1 || len(list[0].Announced) != want {
			t.Errorf("%s: %+v, want a flow whose peer knows %d site locators", what, list, want)
		}
	}
	wantAnnounced("a new flow", 2)
	wantAnnounced("the same", 2)
	f.Inward.Bytes[0], f.Outward.Bytes[0], f.Announced = 1, 2, nil
	wantAnnounced("the next session", 0)
	f.Seen = now.Add(-time.Hour)
	if r.handleSwept(now, f); len(r.core.Flows()) != 0 {
		t.Error("an idle flow is still known")
	}
}
