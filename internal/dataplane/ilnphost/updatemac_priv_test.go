package ilnphost

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

var macKey = [ilnpwire.MACKeyLen]byte{0x3b, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 0xf3}

// keyedFor is the entry of a keyed session, whose peer is there.
func keyedFor() ilnp.Entry {
	p := entryFor(there)
	p.Unconfirmed, p.MACKey, p.MACCounter = true, macKey, 100
	return p
}

// sealedUpdate is an update of the peer's, or an acknowledgement, with a MAC.
type sealedUpdate struct {
	from    roam.L64
	op      ilnpwire.Operation
	list    []roam.L64
	counter uint64
	key     [ilnpwire.MACKeyLen]byte
	nonce   ilnp.Nonce
	encap   bool
	change  func(message []byte) []byte // before the MAC is made; nil: none
}

func moveTo(l roam.L64, counter uint64) sealedUpdate {
	return sealedUpdate{
		from: l, op: ilnpwire.Advertisement, list: []roam.L64{l}, counter: counter, key: macKey, nonce: theirNonce,
	}
}

func (u sealedUpdate) packet(t testing.TB) []byte {
	t.Helper()
	return mustPacket(t)(u.between(at(u.from, theirs), at(here, ours)))
}

func (u sealedUpdate) between(src, dst roam.ILV) ([]byte, error) {
	lu := ilnpwire.LocatorUpdate{Operation: u.op}
	for _, l := range u.list {
		lu.Locators = append(lu.Locators, ilnpwire.LocatorEntry{L64: l, Preference: 10, Lifetime: 600})
	}
	message, err := lu.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	n := len(message)
	if u.change != nil {
		message = u.change(message)
	}
	seal := ilnpwire.Seal{Counter: u.counter, Answers: 77}
	seal.MAC = ilnpwire.UpdateMAC(u.key, message, seal.Counter, seal.Answers)
	b, err := ilnpwire.BuildSealed(src, dst, u.nonce, lu, seal)
	if err == nil && u.change != nil {
		b = append(b[:len(b)-n], message...)
		binary.BigEndian.PutUint16(b[ip6.PayloadLenAt:], uint16(len(b)-ip6.HeaderLen))
		err = ip6.FinishL4(b)
	}
	if err == nil && u.encap {
		b, err = ilnpwire.Encapsulate(b, encapPort)
	}
	return b, err
}

// withCode is an update in no form that there is: codes have longer locators.
func withCode(message []byte) []byte {
	message[ip6.ICMPCodeAt] = ilnpwire.CodeReplaceSoft
	return message
}

// followed reports whether the programs have followed a packet to where it came from: datagrams
// of the peer are delivered from there, and ours go there.
func (r *rig) followed(p ilnp.Entry, packet []byte, from roam.L64) bool {
	r.t.Helper()
	r.upsert(p)
	r.ingress(packet)
	v, _ := r.ingress(fromPeer(from, none, ip6.UDP, udp(9)))
	went := r.send(ip6.UDP, udp(9)).Dst.L64
	r.events()
	if (v == passOn) != (went == from) {
		r.t.Errorf("a datagram from there has the verdict %d, and ours go to %v", v, went)
	}
	return v == passOn
}

// TestUpdateFollowed: the programs follow a Locator Update of a keyed session to a new locator,
// and only one with the right MAC, newer than those before, that lists where it came from.
func TestUpdateFollowed(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	other := macKey
	other[15] ^= 0x80
	many := []roam.L64{else2, else1, there}
	for l := roam.L64(0x2001_0db8_0001_0001); len(many) < 9; l++ {
		many = append(many, l)
	}
	for what, c := range map[string]struct {
		set  func(u *sealedUpdate)
		want bool
	}{
		"as it should be":                {func(*sealedUpdate) {}, true},
		"with a long nonce":              {func(u *sealedUpdate) { u.nonce = longNonce }, true},
		"two locators":                   {func(u *sealedUpdate) { u.list = many[:2] }, true},
		"in UDP":                         {func(u *sealedUpdate) { u.encap = true }, true},
		"in UDP, three locators":         {func(u *sealedUpdate) { u.encap, u.list = true, many[:3] }, true},
		"eight locators":                 {func(u *sealedUpdate) { u.list = many[:8] }, true},
		"nine locators":                  {func(u *sealedUpdate) { u.list = many }, false},
		"the locator is not listed":      {func(u *sealedUpdate) { u.list = []roam.L64{else2, there} }, false},
		"another key":                    {func(u *sealedUpdate) { u.key = other }, false},
		"the counter of the last update": {func(u *sealedUpdate) { u.counter = 100 }, false},
		"counter 0":                      {func(u *sealedUpdate) { u.counter = 0 }, false},
		"the highest counter":            {func(u *sealedUpdate) { u.counter = ^uint64(0) }, true},
		"an acknowledgement":             {func(u *sealedUpdate) { u.op = ilnpwire.Acknowledgement }, false},
		"a code":                         {func(u *sealedUpdate) { u.change = withCode }, false},
	} {
		t.Run(what, func(t *testing.T) {
			r := r.enter(t)
			p, u := keyedFor(), moveTo(else1, 101)
			c.set(&u)
			p.RemoteNonce = u.nonce
			if got := r.followed(p, u.packet(t), else1); got != c.want {
				t.Errorf("followed %t, want %t", got, c.want)
			}
			r.must(r.Delete(p.Key))
		})
	}
	t.Run("a settled session", func(t *testing.T) { // whose packets take the compact path
		r := r.enter(t)
		p := keyedFor()
		r.upsert(p)
		r.settle(p.Key)
		r.ingress(moveTo(else1, 101).packet(t))
		if went := r.send(ip6.UDP, udp(9)).Dst.L64; went != else1 {
			t.Errorf("ours go to %v", went)
		}
	})
}

// TestUpdateListEnds: what stands behind the list of an update is no locator. In UDP that is the
// option with the MAC, and somebody on the path may send the peer's own update from an address with
// those bytes.
func TestUpdateListEnds(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	u := moveTo(else1, 101)
	u.encap, u.list = true, []roam.L64{else2, there}
	const option = 40 // bytes of its header
	b := u.packet(t)
	u.from = roam.L64(binary.BigEndian.Uint64(b[len(b)-option:]))
	if r.followed(keyedFor(), u.packet(t), u.from) {
		t.Errorf("followed to %v", u.from)
	}
}

// TestUpdateForged: no bit of an update may differ from what its sender has made the MAC of, but
// for its checksum, which the daemon verifies.
func TestUpdateForged(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	u := moveTo(else1, 101)
	u.list = []roam.L64{else1, else2}
	whole := u.packet(t)
	random := rand.New(rand.NewPCG(1, 2))
	p := keyedFor()
	const options, checksum = ip6.HeaderLen, ip6.HeaderLen + 48 + 2
	for at := options; at < len(whole); at++ {
		b := append([]byte(nil), whole...)
		b[at] ^= 1 << random.IntN(8)
		header := at == options || at == options+1 || at == options+11 || at >= options+44 && at < options+48
		covered := !header && at != checksum && at != checksum+1
		if got := r.followed(p, b, else1); got && covered {
			t.Errorf("byte %d of the packet was changed, and it was followed", at)
		}
		r.must(r.Delete(p.Key))
	}
	for n := ip6.HeaderLen; n < len(whole); n++ {
		b := append([]byte(nil), whole[:n]...)
		b[5] = byte(n - ip6.HeaderLen)
		if r.followed(p, b, else1) {
			t.Errorf("the first %d bytes were followed", n)
		}
		r.must(r.Delete(p.Key))
	}
}

// TestUpdateReplayed: once a newer update has come, from whatever locator, and even if the daemon
// lost it, an older one moves nothing. That outlasts writes of the entry, and another key ends it.
func TestUpdateReplayed(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := keyedFor()
	r.upsert(p)
	for range 2 {
		newer := moveTo(there, 200)
		r.ingress(newer.packet(t))
	}
	p.Seq++
	if r.followed(p, moveTo(else1, 150).packet(t), else1) {
		t.Error("an older update was followed")
	}
	p.Seq++
	if !r.followed(p, moveTo(else1, 201).packet(t), else1) {
		t.Error("a newer update was not followed")
	}
	p.Seq++
	if r.followed(p, fromPeer(else2, theirNonce, ip6.UDP, udp(9)), else2) {
		t.Error("the nonce alone was followed")
	}
	p.Seq, p.MACKey[3] = p.Seq+1, 99
	u := moveTo(else1, 150)
	u.key = p.MACKey
	if !r.followed(p, u.packet(t), else1) {
		t.Error("the counter of another key counts")
	}
}

// TestUpdateWithoutLocators: an update that lists nothing has no MAC that counts, so those before it still do.
func TestUpdateWithoutLocators(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := keyedFor()
	r.upsert(p)
	none := moveTo(there, 200)
	none.change = func(message []byte) []byte {
		message[4] = 0
		return message[:8]
	}
	r.ingress(none.packet(t))
	p.Seq++
	if !r.followed(p, moveTo(else1, 150).packet(t), else1) {
		t.Error("its counter counts")
	}
}

// TestUpdateFlood: updates and acknowledgements without a right MAC, and copies of those with one, leave the share of
// the ring that the peer's own have.
func TestUpdateFlood(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(keyedFor())
	counter := uint64(100)
	own := func(op ilnpwire.Operation) (packet []byte, handed int) {
		counter++
		u := moveTo(there, counter)
		u.op = op
		packet = u.packet(t)
		r.ingress(packet)
		for _, e := range r.events() {
			if e.Kind == Control {
				handed++
			}
		}
		return packet, handed
	}
	seen, n := own(ilnpwire.Advertisement)
	answer, m := own(ilnpwire.Acknowledgement)
	if n != 1 || m != 1 {
		t.Fatal("an update does not reach the daemon")
	}
	forged := moveTo(there, 1<<60)
	forged.key[0] ^= 1
	for what, packets := range map[string][][]byte{
		"without a right MAC":            {update(t, there, theirNonce), forged.packet(t)},
		"copied":                         {seen},
		"copied, acknowledgements among": {answer},
	} {
		for range 2000 {
			for _, b := range packets {
				r.ingress(b)
			}
		}
		r.events()
		for _, op := range []ilnpwire.Operation{ilnpwire.Advertisement, ilnpwire.Acknowledgement} {
			if _, n := own(op); n != 1 {
				t.Errorf("a flood of updates, %s, keeps out the peer's own (operation %d)", what, op)
			}
		}
	}
}

// TestStrangersNonce: in a keyed session the nonce from a locator that is not the peer's is no sign of its life.
func TestStrangersNonce(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := keyedFor()
	r.upsert(p)
	for _, c := range []struct {
		from  roam.L64
		lives bool
	}{{else1, false}, {there, true}} {
		r.ingress(fromPeer(c.from, theirNonce, ip6.UDP, udp(9)))
		if at := r.notedAt(r.known[p.Key].Slot).LastNonceRx; at == 0 == c.lives {
			t.Errorf("from %v: the nonce last came at tick %d", c.from, at)
		}
	}
}

// TestUpdateFloodUnconfirmed: without a key, updates from elsewhere leave the share of those from
// where the peer is alone.
func TestUpdateFloodUnconfirmed(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := entryFor(there)
	p.Unconfirmed = true
	r.upsert(p)
	for range 2000 {
		r.ingress(update(t, else1, theirNonce))
	}
	r.events()
	r.ingress(update(t, there, theirNonce))
	if n := len(r.events()); n != 1 {
		t.Errorf("%d updates of the peer reach the daemon", n)
	}
}

// TestUpdateKeysOfEarlierProcess: a successor goes on with the keys and counters that are there, and
// removes those of sessions that are no more.
func TestUpdateKeysOfEarlierProcess(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := keyedFor()
	r.upsert(p)
	r.ingress(moveTo(there, 200).packet(t))
	r.must(r.objs.UpdateKeys.Put(&bpfSlotUser{Slot: 5, Birth: 6}, &bpfUpdateKey{Counter: 1}))
	r.must(r.macs.adopt(r.objs.UpdateKeys, r.known))
	if n := len(keysOf[bpfSlotUser, bpfUpdateKey](r.objs.UpdateKeys)); n != 1 {
		t.Errorf("%d keys, want that of the session", n)
	}
	p.Seq++
	if r.followed(p, moveTo(else1, 150).packet(t), else1) {
		t.Error("an older update was followed")
	}
	p.Seq, p.MACKey = p.Seq+1, [16]byte{}
	r.upsert(p)
	if n := len(keysOf[bpfSlotUser, bpfUpdateKey](r.objs.UpdateKeys)); n != 0 {
		t.Errorf("%d keys of a session that is not keyed any more", n)
	}
	p.Seq, p.MACKey = p.Seq+1, macKey
	r.upsert(p)
	r.must(r.Delete(p.Key))
	if n := len(keysOf[bpfSlotUser, bpfUpdateKey](r.objs.UpdateKeys)); n != 0 {
		t.Errorf("%d keys of a session that is no more", n)
	}
}
