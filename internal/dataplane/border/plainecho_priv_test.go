package border

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"roam"
	"roam/wire/ilnp"
)

// drawnEcho makes an echo request or reply with a nonce, with one thing out of the ordinary in most. Only on one side
// nonces are wrong: wrong ones on both begin a new session.
func drawnEcho(t *testing.T, random *rand.Rand, src, dst roam.ILV, n ilnp.Nonce, mayBeWrong bool) []byte {
	t.Helper()
	data := make([]byte, []int{8, 12, 16, 20, 24, 40, 56, 64, 72, 80}[random.IntN(10)])
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	if len(data) >= ilnp.ReportLen && random.IntN(2) == 0 {
		copy(data[16:], "RORP")
	}
	switch random.IntN(8) {
	case 0, 3, 4:
		if mayBeWrong {
			n.Bytes[random.IntN(int(n.Len))]++
		}
	case 1:
		if mayBeWrong {
			n.Len = 16 - n.Len
		}
	case 2:
		dst.L64 = siteB
	}
	b, err := ilnp.BuildEcho(src, dst, n, random.IntN(2) == 0, uint16(random.IntN(4)), uint16(random.IntN(4)), data)
	if err != nil {
		t.Fatal(err)
	}
	switch random.IntN(16) {
	case 0:
		b[7] = byte(random.IntN(3)) // hop limit
	case 1:
		b[40+random.IntN(4)] ^= 1 << random.IntN(4) // next header, length, option, its length
	case 2:
		b[5] ^= 8 // payload length
	case 3:
		b = append(b, make([]byte, 1+random.IntN(20))...)
	case 4:
		b[40+n.HeaderLen()] = byte(random.Uint32()) // type
	}
	return b
}

// unhinted has no packet take the straight way, which begins with hints.
func (r plainRig) unhinted() {
	r.Helper()
	var b bpfBorder
	err := r.objs.Borders.Lookup(uint32(0), &b)
	clear(b.SiteHint[:])
	clear(b.GroupHint[:])
	if err = errors.Join(err, r.objs.Borders.Put(uint32(0), &b)); err != nil {
		r.Fatal(err)
	}
}

// TestPlainEchoes: an echo of a known flow with the Nonce option becomes on the straight way what it becomes on the
// full path, and leaves the same flow behind; the answers to probes leave from where these came to. XDP lets all pass.
func TestPlainEchoes(t *testing.T) {
	long := ilnp.Nonce{Len: 12, Bytes: [12]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}
	for name, c := range map[string]struct {
		inward, outward ilnp.Nonce
		wrongInward     bool
	}{
		"wrong nonces from inside":  {inward, outward, false},
		"wrong nonces from outside": {inward, outward, true},
		"long ones from inside":     {inward, long, false},
		"long ones from outside":    {long, outward, true},
	} {
		t.Run(name, func(t *testing.T) { plainEchoes(t, c.inward, c.outward, c.wrongInward) })
	}
}

func plainEchoes(t *testing.T, inward, outward ilnp.Nonce, wrongInward bool) {
	straight, full := newPlainRig(t, siteA, siteB), newPlainRig(t, siteA, siteB)
	for _, r := range []plainRig{straight, full} {
		err := r.Renew(theKey, inward, outward)
		if err = errors.Join(err, r.Announce(theKey, r.table, []roam.L64{siteA, siteB})); err != nil {
			t.Fatal(err)
		}
	}
	if err := full.Configure(Settings{}, time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	full.unhinted()
	random := rand.New(rand.NewPCG(7, 8))
	sent := 0
	const packets = 4000
	for i := range packets {
		if i%20 == 0 {
			straight.renew()
			full.renew()
		}
		from, to := mine, theirs
		if random.IntN(4) == 0 {
			to.L64++
		}
		packet, early := drawnEcho(t, random, from, to, outward, !wrongInward), straight.objs.SbrInsideXdp
		tc, all := straight.objs.SbrInsideIngress, full.objs.SbrInsideIngress
		if i%2 == 1 {
			site := roam.ILV{L64: []roam.L64{siteA, siteB}[random.IntN(2)], NID: insideNID}
			packet, early = drawnEcho(t, random, theirs, site, inward, wrongInward), straight.objs.SbrUplinkXdp
			tc, all = straight.objs.SbrUplinkIngress, full.objs.SbrUplinkIngress
		}
		before := straight.counter("rx_direct")
		v, out := straight.frame(tc, packet)
		wantV, want := full.frame(all, packet)
		if straight.counter("rx_direct") > before && wantV == passOn { // the stack would lower the hop limit
			want[14+7]--
			wantV = redirect
		}
		if v != wantV || !bytes.Equal(out[12:], want[12:]) {
			t.Fatalf("packet %d %x: verdict %#x, on the full path %#x\n%x\n%x", i, packet, v, wantV, out, want)
		}
		if v == redirect {
			sent++
		}
		got, _ := straight.Flow(theKey, straight.table)
		after, _ := full.Flow(theKey, full.table)
		if got.Remote != after.Remote || got.Inward != after.Inward || got.Outward != after.Outward {
			t.Fatalf("packet %d %x: the flow is %+v, on the full path %+v", i, packet, got, after)
		}
		var p, q bpfWholeFlow // nonces of what may be a new session
		_ = straight.objs.PendingFlows.Lookup(keyOf(theKey), &p)
		_ = full.objs.PendingFlows.Lookup(keyOf(theKey), &q)
		if p.Nonces.Inward != q.Nonces.Inward || p.Nonces.Outward != q.Nonces.Outward {
			t.Fatalf("packet %d %x: pending is %+v, on the full path %+v", i, packet, p.Nonces, q.Nonces)
		}
		if v, out := straight.frame(early, packet); v != xdpPass || !bytes.Equal(out[14:], packet) {
			t.Fatalf("packet %d %x: XDP says %#x\n%x", i, packet, v, out)
		}
	}
	if sent < packets/3 {
		t.Errorf("of %d packets %d were sent", packets, sent)
	}
	for _, name := range []string{"tx_flow", "rx_flow", "tx_probe_reply"} {
		if a, b := straight.counter(name), full.counter(name); a != b {
			t.Errorf("%s: %d, on the full path %d", name, a, b)
		}
	}
}
