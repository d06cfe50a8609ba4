package ilnphost

import (
	"testing"

	"roam"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// TestObstructedAnswers: along a path that a policy obstructs, the programs answer
// nothing by themselves: no probe of a session or of a pending peer, and no packet to
// one; the stack answers pings, by the paths of the session.
func TestObstructedAnswers(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	pending := unlistedPeer(1)
	r.must(r.SetRecord(listed(pending)))
	r.ingress(knock(pending, theirNonce))
	r.events()
	ping := mustPacket(t)(ilnpwire.BuildEcho(at(there, theirs), at(here, ours), theirNonce, true, 9, 7, []byte("longer than any probe is")))
	probe := echo(t, there, theirNonce, true, 9)
	knocks := mustPacket(t)(ilnpwire.BuildEcho(pending, at(here, ours), theirNonce, true, 9, 7, []byte("sixteen bytes...")))
	toPending := packet(session(ours), session(pending.NID), ip6.TCP, tcp(flagSYN|flagACK, 0))
	all := Obstruction{From: here}
	toPeer := Obstruction{From: here, To: at(there, theirs)}
	toUnlisted := Obstruction{From: here, To: pending}
	elsewhere := Obstruction{From: else1, To: at(there, theirs)}
	for name, c := range map[string]struct {
		table          map[Obstruction]bool
		peer, unlisted bool // obstructed
	}{
		"nothing":                         {nil, false, false},
		"another locator":                 {map[Obstruction]bool{elsewhere: true}, false, false},
		"the peer":                        {map[Obstruction]bool{toPeer: true}, true, false},
		"the pending peer":                {map[Obstruction]bool{toUnlisted: true}, false, true},
		"everything":                      {map[Obstruction]bool{all: true}, true, true},
		"everything but the peer":         {map[Obstruction]bool{all: true, toPeer: false}, false, true},
		"everything but the pending peer": {map[Obstruction]bool{all: true, toUnlisted: false}, true, false},
	} {
		r.must(r.SetObstructed(c.table))
		for what, x := range map[string]struct {
			packet     []byte
			obstructed bool
			send       func([]byte) int
		}{
			"probe of a session":      {probe, c.peer, func(p []byte) int { v, _ := r.ingress(p); return v }},
			"probe of a pending peer": {knocks, c.unlisted, func(p []byte) int { v, _ := r.ingress(p); return v }},
			"packet to one":           {toPending, c.unlisted, func(p []byte) int { v, _ := r.egress(p); return v }},
		} {
			var v int
			got := r.counted(func() { v = x.send(x.packet) })
			if (v == redirect) == x.obstructed || (got["drop_obstructed"] == 1) != x.obstructed {
				t.Errorf("%s obstructed, %s: verdict %d, counted %v", name, what, v, got)
			}
		}
		var v int
		got := r.counted(func() { v, _ = r.ingress(ping) })
		if (v == redirect) == c.peer || (got["rx_packets"] == 1) != c.peer {
			t.Errorf("%s obstructed, ping: verdict %d, counted %v", name, v, got)
		}
		r.events()
	}
}

// TestNoHintWhereObstructed: a packet does not follow its correspondent to where that
// was seen, before the daemon has checked the path, on a host with obstructed paths.
func TestNoHintWhereObstructed(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	r.ingress(fromPeer(else1, theirNonce, ip6.UDP, udp(9)))
	to := func() roam.L64 {
		_, out := r.egress(toPeer(ip6.UDP, udp(9)))
		p, err := ilnpwire.ParsePacket(out)
		r.must(err)
		return p.Dst.L64
	}
	if got := to(); got != else1 {
		t.Errorf("sent to %v, want %v, where the correspondent is", got, else1)
	}
	r.must(r.SetObstructed(map[Obstruction]bool{{From: here, To: at(there, unlistedPeer(1).NID)}: true}))
	if got := to(); got != there {
		t.Errorf("sent to %v, want %v, which was checked", got, there)
	}
	r.must(r.SetObstructed(nil))
	if got := to(); got != else1 {
		t.Errorf("sent to %v, want %v again", got, else1)
	}
}

// TestObstructedOutlivesTheDaemon: another process finds what is obstructed, and the
// programs know of it meanwhile.
func TestObstructedOutlivesTheDaemon(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	to := Obstruction{From: here, To: at(there, theirs)}
	r.must(r.SetObstructed(map[Obstruction]bool{to: true, {From: else1}: true}))
	r.close()
	r.open()
	r.change(func(*HostSettings) {})
	probe := verdictCase{"probe", echo(t, there, theirNonce, true, 9), shot, counts{"drop_obstructed": 1}, nil}
	r.check([]verdictCase{probe})
	r.must(r.SetObstructed(map[Obstruction]bool{to: true}))
	r.check([]verdictCase{probe})
	var k bpfObstructionKey
	var v uint8
	n := 0
	for each := r.objs.Obstructed.Iterate(); each.Next(&k, &v); n++ {
	}
	if n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
	r.must(r.SetObstructed(nil))
	if v, _ := r.ingress(probe.packet); v != redirect {
		t.Errorf("verdict %d without a policy", v)
	}
}
