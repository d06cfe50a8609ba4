package engine

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	ilnpwire "roam/wire/ilnp"
)

// TestProbeIsDatedWhenItLeaves: an engine that reads a packet late sends what answers it as late. The round
// trip of a probe counts from then.
func TestProbeIsDatedWhenItLeaves(t *testing.T) {
	const late, trip = 50 * time.Millisecond, 10 * time.Millisecond
	e, o, first := attached(t, &table{entries: make(map[ilnp.SessionKey]ilnp.Entry)}, nil)
	began := time.Now()
	e.clock = func() time.Time { return began.Add(late) }
	e.handlePlane(began, dataplane.Event{Kind: dataplane.Miss, Key: sessionKey, Packet: first})
	e.drain(began)
	for _, b := range o.sent {
		p, err := ilnpwire.ParsePacket(b)
		if err != nil || p.Type != ilnpwire.TypeEchoRequest {
			continue
		}
		echo, err := ilnpwire.ParseEcho(p.Payload)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := ilnpwire.BuildEcho(p.Dst, p.Src, theirNonce, false, echo.ID, echo.Seq, echo.Data)
		if err != nil {
			t.Fatal(err)
		}
		e.core.HandlePacket(began.Add(late+trip), roam.LinkID(7), reply)
	}
	if list := e.core.Peers(began); len(list) != 1 || list[0].RTT != trip {
		t.Errorf("round trip %+v, want %v", list, trip)
	}
}
