package ilnphost

import (
	"encoding/binary"
	"slices"

	"roam"
	"roam/ilnp"
	"roam/nidkey"
)

// key makes the key of the i-th host of a soak; nil without keys. Its Node Identifier is no hash
// of it, as that of a host which got its key later.
func (k *Soak) key(i int) *nidkey.Key {
	if !k.cfg.Keyed {
		return nil
	}
	var random [nidkey.KeyLen]byte
	binary.BigEndian.PutUint64(random[:], k.cfg.Seed)
	binary.BigEndian.PutUint64(random[8:], uint64(i)+1)
	key, err := nidkey.Ephemeral(random)
	if err != nil {
		panic("ilnphost: " + err.Error()) // no 32 bytes are refused
	}
	return &key
}

// pair gives any two hosts of which one may call the other each other's keys.
func (k *Soak) pair() {
	if !k.cfg.Keyed {
		return
	}
	for _, h := range k.hosts {
		for _, o := range h.contacts {
			for _, ends := range [][2]*soaker{{h, o}, {o, h}} {
				if !slices.Contains(ends[0].paired, ends[1]) {
					ends[0].paired = append(ends[0].paired, ends[1])
				}
			}
		}
	}
	for _, h := range k.hosts {
		k.readPairings(h)
	}
}

// readPairings does what a daemon does when it starts: what people have paired stands in a file,
// without a locator here.
func (k *Soak) readPairings(h *soaker) {
	for _, o := range h.paired {
		k.know(h, o)
	}
}

// know tells a host of another one, with its key in a soak with keys.
func (k *Soak) know(h, o *soaker, places ...roam.L64) {
	p := o.record(places...)
	if k.cfg.Keyed {
		p.Public, p.Guarded, p.Secret = o.cfg.Key.Public, true, k.secret(h, o)
	}
	h.Node.know(p)
}

// secret returns what two hosts share.
func (k *Soak) secret(h, o *soaker) nidkey.Secret {
	pair := [2]roam.NID{min(h.nid, o.nid), max(h.nid, o.nid)}
	s, there := k.secrets[pair]
	if !there {
		var err error
		if s, err = h.cfg.Key.Shared(o.cfg.Key.Public); err != nil {
			panic("ilnphost: " + err.Error()) // keys made here share one
		}
		k.secrets[pair] = s
	}
	return s
}

// unproved reports whether a talk of hosts with keys goes by a session without a proof.
func (k *Soak) unproved(h, o *soaker) bool {
	return k.cfg.Keyed && slices.ContainsFunc(h.core.Peers(k.Now()), func(p ilnp.PeerState) bool {
		return p.NID == o.nid && p.State == ilnp.Established && !(p.Keyed && p.Proved)
	})
}
