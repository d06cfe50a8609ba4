package ilnphost

import (
	"testing"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// asks sends a probe of the peer to one of our locators, and returns the flags of the report in the answer.
func (r *rig) asks(to roam.L64, about ilnpwire.Report) uint8 {
	r.t.Helper()
	probe := mustPacket(r.t)(ilnpwire.BuildEcho(at(there, theirs), at(to, ours), theirNonce, true, 9, 7,
		about.AppendRequest(nil, [16]byte{1, 2})))
	_, out := r.ingress(probe)
	return replyData(r.t, out)[21]
}

// The peer asks that blocks be withheld before it sends any data by the long path. Then those of the connections that
// it names are, and of no others; and not where the probe came by the short path, or asks about another one.
func TestCrossingIsAskedFor(t *testing.T) {
	const short, long, own, done = here, here + 1, 40000, 0x40
	const filled = 0x01 | 0x02 | 0x20 // with counts, and it crosses
	ask := ilnpwire.Report{Counted: true, Cross: true, Connections: ilnpwire.Connections{2: {443, own}, 7: {443, own + 1}}}
	other := ask
	other.Other, other.Near, other.Far = true, long, there
	r, p := crossingRig(t)
	for _, c := range []struct {
		name string
		to   roam.L64
		ask  ilnpwire.Report
		want uint8
	}{
		{"along the short path", short, ask, filled},
		{"about another path", long, other, 0x01 | 0x08 | 0x20},
		{"not asked", long, ilnpwire.Report{Counted: true, Connections: ask.Connections}, filled},
	} {
		if got := r.asks(c.to, c.ask); got != c.want {
			t.Errorf("%s: flags %#x, want %#x", c.name, got, c.want)
		}
		if n := len(keysOf[bpfCrossedKey, bpfCrossedFlow](r.objs.CrossedFlows)); n != 0 {
			t.Errorf("%s: %d connections are crossed", c.name, n)
		}
	}
	if got := r.asks(long, ask); got != filled|done {
		t.Errorf("flags %#x", got)
	}
	if n := len(keysOf[bpfCrossedKey, bpfCrossedFlow](r.objs.CrossedFlows)); n != 2 {
		t.Errorf("%d connections are crossed, want 2", n)
	}
	for port, want := range map[uint16]int{own: 0, own + 1: 0, own + 2: 2} {
		if got := r.blocks(acks(port, 100, true, 200, 300)); len(got) != want {
			t.Errorf("port %d: blocks %d, want %d", port, got, want)
		}
	}
	p.Seq++
	choose(&p, nil)
	r.upsert(p)
	if got := r.asks(long, ask); got&done != 0 {
		t.Errorf("without a long path: flags %#x", got)
	}
}

// A host that does not count data withholds none, and says so.
func TestCrossingIsAskedInVain(t *testing.T) {
	r := newRig(t)
	p := crossed(r, []roam.L64{here, here + 1}, []roam.L64{there})
	choose(&p, nil, p.Paths[1])
	r.upsert(p)
	r.settle(p.Key)
	ask := ilnpwire.Report{Cross: true, Connections: ilnpwire.Connections{{443, 40000}}}
	if got := r.asks(here+1, ask); got != 1 {
		t.Errorf("flags %#x", got)
	}
}
