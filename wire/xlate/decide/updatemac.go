package decide

import (
	"encoding/binary"

	"roam"
	"roam/wire/ilnp"
)

// UpdateKey is the key of the MACs of a peer's Locator Updates, and the counter of the newest one
// with a right MAC.
type UpdateKey struct {
	Key     [ilnp.MACKeyLen]byte
	Counter uint64
	Acks    uint64 // of the newest acknowledgement
}

const (
	updateFixed = 8
	updateEntry = 12
	macOption   = 36
)

type sealed uint8

const (
	unsealed sealed = iota // no MAC, a wrong one, or a message of another form
	repeated               // the MAC is right, but a newer message has come
	isSealed
	followed // the newest update, which lists the locator that it came from
)

// check checks the MAC of an update or an acknowledgement of a session.
func (k *UpdateKey) check(t *step) sealed {
	head, ok := t.k.load(t.c.at, updateFixed)
	if !ok || head[1] != 0 || head[4] == 0 || head[4] > MaxRemote {
		return unsealed
	}
	n := updateFixed + int(head[4])*updateEntry
	at := t.c.optionAt + 2 + int(t.c.nonce.Len)
	if t.c.encap {
		at = t.c.at + n + 2
	}
	message, whole := t.k.load(t.c.at, n)
	o, ok := t.k.load(at, macOption)
	if !whole || !ok || o[0] != ilnp.OptionExperiment || o[1] != macOption-2 || o[2] != 2 {
		return unsealed
	}
	counter := binary.BigEndian.Uint64(o[4:])
	if ilnp.UpdateMAC(k.Key, message, counter, binary.BigEndian.Uint64(o[12:])) != [ilnp.MACLen]byte(o[20:]) {
		return unsealed
	}
	newest := &k.Counter
	if message[5] != byte(ilnp.Advertisement) {
		newest = &k.Acks
	}
	if counter <= *newest {
		return repeated
	}
	if *newest = counter; newest == &k.Acks {
		return isSealed
	}
	for e := message[updateFixed:]; len(e) > 0; e = e[updateEntry:] {
		if roam.L64(binary.BigEndian.Uint64(e)) == t.src.L64 {
			return followed
		}
	}
	return isSealed
}

// takesUpdate reports whether the daemon gets a Locator Update. strange says that it came from a
// locator that the session does not have, with a nonce that may be forged.
func (p *Session) takesUpdate(t *step, l *Live, strange bool) bool {
	share := &l.UpdatesUntil
	switch {
	case p.UpdateKey == nil && strange:
		share = &l.ToldUntil
	case p.UpdateKey != nil:
		switch p.UpdateKey.check(t) {
		case unsealed, repeated:
			share = &l.ToldUntil
		case followed:
			if strange {
				l.Hint = t.src.L64
				t.count(RxUpdateFollowed)
				t.noteMore(p, l, t.src.L64)
			}
		}
	}
	return takeShare(share, t.now, t.k.Len)
}
