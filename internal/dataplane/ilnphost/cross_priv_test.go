package ilnphost

import (
	"encoding/binary"
	"slices"
	"testing"

	"roam"
	"roam/ilnp"
	"roam/wire/ip6"
)

// crossingRig is a session with a short path and a long one, of which the peer's acknowledgements come.
func crossingRig(t *testing.T) (*rig, ilnp.Entry) {
	r := newRig(t)
	p := crossed(r, []roam.L64{here, here + 1}, []roam.L64{there})
	p.Counted = true
	choose(&p, nil, p.Paths[1])
	r.upsert(p)
	r.settle(p.Key)
	return r, p
}

// dataBy is a segment of the peer on a connection of ours, to one of our locators, from sequence number 0 on.
func dataBy(to roam.L64, own uint16, data int, nonce bool) []byte {
	s := bare(443, own, flagACK, data)
	binary.BigEndian.PutUint32(s[4:], 0)
	if nonce {
		return packet(at(there, theirs), at(to, ours), ip6.DestOpts, with(theirNonce, ip6.TCP, s))
	}
	return packet(at(there, theirs), at(to, ours), ip6.TCP, s)
}

// bare is a segment without options, and with so many bytes of data.
func bare(from, to uint16, flags uint8, data int) []byte {
	s := segmentOf(from, to, flags)[:20]
	s[ip6.TCPDataOffsetAt] = 5 << 4
	return append(s, make([]byte, data)...)
}

// leaves returns our locator from which a segment leaves.
func (r *rig) leaves(segment []byte) roam.L64 {
	r.t.Helper()
	_, out := r.egress(packet(session(ours), session(theirs), ip6.TCP, segment))
	return roam.L64(binary.BigEndian.Uint64(out[8:]))
}

// acks is a segment of ours without data, with a time stamp or without one, and these blocks of SACK.
func acks(own uint16, ack uint32, stamp bool, blocks ...uint32) []byte {
	s := bare(own, 443, flagACK, 0)
	binary.BigEndian.PutUint32(s[8:], ack)
	if stamp {
		s = append(s, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2)
	}
	if len(blocks) > 0 {
		s = append(s, 1, 1, 5, uint8(2+4*len(blocks)))
	}
	for _, b := range blocks {
		s = binary.BigEndian.AppendUint32(s, b)
	}
	s[ip6.TCPDataOffsetAt] = uint8(len(s)) << 2
	return s
}

// blocks returns the numbers in the blocks of SACK with which a segment leaves, and fails if its checksum is wrong.
func (r *rig) blocks(segment []byte) (all []uint32) {
	r.t.Helper()
	_, out := r.egress(packet(session(ours), session(theirs), ip6.TCP, segment))
	c, err := ip6.Walk(out)
	if err != nil || ip6.Checksum(c.Header.Src, c.Header.Dst, ip6.TCP, out[c.UpperOffset:c.End]) != 0 {
		r.t.Fatalf("%x: %v, or a wrong checksum", out, err)
	}
	options := out[c.UpperOffset+20 : c.End]
	for len(options) > 1 {
		n := 1
		if options[0] != 1 {
			n = int(options[1])
		}
		if options[0] == 5 {
			for b := options[2:n]; len(b) > 0; b = b[4:] {
				all = append(all, binary.BigEndian.Uint32(b))
			}
		}
		options = options[n:]
	}
	return all
}

// From the first data on that came by the long path acknowledgements leave without blocks of SACK, on the compact path
// of ingress and on the full one, while what is there grows, or for a while if it does not. Blocks of data that came
// twice leave. Other connections, and this one a second after the last data by the long path, have theirs.
func TestBlocksAreWithheld(t *testing.T) {
	const short, long, own = here, here + 1, 40000
	block := []uint32{200, 300}
	r, _ := crossingRig(t)
	age := func(ms uint32) {
		for _, k := range keysOf[bpfCrossedKey, bpfCrossedFlow](r.objs.CrossedFlows) {
			var f bpfCrossedFlow
			r.must(r.objs.CrossedFlows.Lookup(&k, &f))
			f.Moved -= ms
			if ms >= 1000 {
				f.At -= ms
			}
			r.must(r.objs.CrossedFlows.Put(&k, &f))
		}
	}
	r.ingress(dataBy(short, own, 100, false))
	r.ingress(dataBy(long, own, 0, false))
	if got := r.blocks(acks(own, 100, true, block...)); len(got) != 2 {
		t.Errorf("before data by the long path: %d", got)
	}
	for _, nonce := range []bool{false, true} {
		r.ingress(dataBy(long, own, 100, nonce))
		if got := r.blocks(acks(own, 100, true, block...)); len(got) != 2 && !nonce {
			t.Errorf("of a connection that is whole on the long path: %d", got)
		}
		r.ingress(dataBy(short, own, 100, nonce))
		for name, c := range map[string]struct {
			segment []byte
			want    []uint32
		}{
			"with a time stamp":     {acks(own, 100, true, block...), nil},
			"without one":           {acks(own, 100, false, block...), nil},
			"three blocks":          {acks(own, 100, true, 200, 300, 400, 500, 600, 700), nil},
			"four blocks":           {acks(own, 100, false, 200, 300, 400, 500, 600, 700, 800, 900), nil},
			"what came twice":       {acks(own, 100, true, 50, 60), []uint32{50, 60}},
			"and a block":           {acks(own, 100, true, 50, 60, 200, 300), []uint32{50, 60}},
			"and two":               {acks(own, 100, true, 0xfffffff0, 100, 200, 300, 400, 500), []uint32{0xfffffff0, 100}},
			"with data":             {append(acks(own, 100, true, block...), 1, 2, 3, 4), nil},
			"the last one":          {withFlags(acks(own, 100, true, block...), flagACK|flagFIN), nil},
			"a reset":               {withFlags(acks(own, 100, true, block...), flagACK|4), block},
			"none":                  {acks(own, 100, true), nil},
			"none, without a stamp": {acks(own, 100, false), nil},
			"of another connection": {acks(own+1, 100, true, block...), block},
		} {
			if got := r.blocks(c.segment); !slices.Equal(got, c.want) {
				t.Errorf("%s, nonce %t: %d, want %d", name, nonce, got, c.want)
			}
		}
	}
	for i, c := range []struct {
		ages uint32 // ms
		ack  uint32
		want int
	}{
		{70, 100, 0}, {20, 100, 2}, {0, 100, 2}, {0, 101, 0}, {75, 101, 0}, {0, 102, 0}, {75, 102, 0}, {15, 102, 2},
		{0, 103, 0}, {1000, 104, 2},
	} {
		age(c.ages)
		if got := r.blocks(acks(own, c.ack, true, block...)); len(got) != c.want {
			t.Errorf("acknowledgement %d, of %d after %d ms: %d", i, c.ack, c.ages, got)
		}
	}
}

// Blocks about what is there before the newest data that came by the long path leave at once: what is missing there was
// lost. What reaches beyond is cut off. While such data come, nothing else is told, although what is there does not
// grow.
func TestBlocksBeforeTheNewestAreTold(t *testing.T) {
	const short, long, own = here, here + 1, 40000
	for _, nonce := range []bool{false, true} {
		r, _ := crossingRig(t)
		r.ingress(dataBy(long, own, 250, nonce))
		r.ingress(dataBy(long, own, 100, nonce)) // older data
		r.ingress(dataBy(short, own, 900, nonce))
		for name, c := range map[string]struct{ blocks, want []uint32 }{
			"before":                {[]uint32{200, 240}, []uint32{200, 240}},
			"up to there":           {[]uint32{200, 250}, []uint32{200, 250}},
			"beyond":                {[]uint32{250, 300}, nil},
			"and beyond":            {[]uint32{200, 300}, []uint32{200, 250}},
			"beyond, and before":    {[]uint32{400, 500, 200, 220}, []uint32{200, 220}},
			"of both kinds":         {[]uint32{400, 500, 230, 300, 600, 700, 150, 160}, []uint32{230, 250, 150, 160}},
			"twice, and of both":    {[]uint32{50, 60, 400, 500, 200, 300}, []uint32{50, 60, 200, 250}},
			"twice, of what is not": {[]uint32{210, 220, 200, 300}, []uint32{210, 220, 200, 250}},
		} {
			for _, stamp := range []bool{false, len(c.blocks) < 8} {
				if got := r.blocks(acks(own, 100, stamp, c.blocks...)); !slices.Equal(got, c.want) {
					t.Errorf("%s, nonce %t: %d, want %d", name, nonce, got, c.want)
				}
			}
		}
		for i := range 3 {
			for _, k := range keysOf[bpfCrossedKey, bpfCrossedFlow](r.objs.CrossedFlows) {
				var f bpfCrossedFlow
				r.must(r.objs.CrossedFlows.Lookup(&k, &f))
				f.Moved -= 60
				r.must(r.objs.CrossedFlows.Put(&k, &f))
			}
			r.ingress(dataBy(long, own, 260+i, nonce))
			if got := r.blocks(acks(own, 100, true, 300, 400)); len(got) != 0 {
				t.Errorf("newer data, %d: %d", i, got)
			}
		}
	}
}

// withFlags returns a segment with other flags.
func withFlags(segment []byte, flags uint8) []byte {
	segment[tcpFlags] = flags
	return segment
}

// In a session without a long path, and where data are not counted, nothing is withheld.
func TestBlocksAreNotWithheld(t *testing.T) {
	const long, own = here + 1, 40000
	for name, change := range map[string]func(*ilnp.Entry){
		"no long path": func(p *ilnp.Entry) { choose(p, nil) },
		"not counted":  func(p *ilnp.Entry) { p.Counted = false },
	} {
		r, p := crossingRig(t)
		p.Seq++
		change(&p)
		r.upsert(p)
		r.ingress(dataBy(long, own, 100, false))
		if got := r.blocks(acks(own, 100, true, 200, 300)); len(got) != 2 {
			t.Errorf("%s: %d", name, got)
		}
	}
}
