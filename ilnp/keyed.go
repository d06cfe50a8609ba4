package ilnp

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"roam"
	"roam/nidkey"
	ilnpwire "roam/wire/ilnp"
)

// A session with a peer whose key the user has given is keyed: Locator Updates and their
// acknowledgements have a MAC, and those without are refused. Everybody on the path reads the
// nonce; nobody there has the key. DEVIATION from RFC 6743 §6, where the nonce alone counts: see
// docs/rfc/rfc6743.md. The session's keys follow from the secret of both nodes'
// key pairs, their NIDs and both nonces, one key for each direction.

// These separate what is derived from all else that the secret may make one day.
const (
	labelSession = "roam keyed session 1"
	labelFirst   = "roam first counter 1"
)

// restoredAhead is added to the counter of a session that is restored: the state may be older
// than the last update that left, and a counter must never be used twice.
const restoredAhead = 1 << 32

// keying is what a keyed session has besides its nonces.
type keying struct {
	out, in []byte // keys of the MACs of the two directions; nil: the secret is not known yet
	sent    uint64 // counter of the last message that left
	updated uint64 // counter of the last update that was accepted; older ones are refused
	acks    window
	unkeyed bool // the peer's last update had no MAC: it may lack our key
}

// window remembers which counters of acknowledgements came: each counts once, in any order
// among the last 64.
type window struct {
	top  uint64
	seen uint64 // bit i: top - i
}

// has reports whether a counter came before, or is too old to tell.
func (w window) has(n uint64) bool {
	return n <= w.top && (w.top-n >= 64 || w.seen>>(w.top-n)&1 != 0)
}

func (w *window) add(n uint64) {
	if n > w.top {
		shift := n - w.top
		w.top, w.seen = n, w.seen<<min(shift, 64) // a shift by 64 leaves nothing
	}
	w.seen |= 1 << (w.top - n)
}

// directionKey derives the key of what one node sends to the other one.
func directionKey(secret nidkey.Secret, from, to roam.NID, fromNonce, toNonce Nonce) []byte {
	return keyFrom(secret.Bytes(), from, to, fromNonce, toNonce)
}

// keyFrom is directionKey for any secret: the root of a session that began by a proof.
func keyFrom(secret []byte, from, to roam.NID, fromNonce, toNonce Nonce) []byte {
	return derive(labelSession, ilnpwire.MACKeyLen, secret, from, to, fromNonce, toNonce)
}

// derive derives n bytes for one use and direction of a session.
func derive(label string, n int, secret []byte, from, to roam.NID, fromNonce, toNonce Nonce) []byte {
	info := binary.BigEndian.AppendUint64([]byte(label), uint64(from))
	info = binary.BigEndian.AppendUint64(info, uint64(to))
	info = appendNonce(appendNonce(info, fromNonce), toNonce)
	key, _ := hkdf.Key(sha256.New, secret, nil, string(info), n) // fails for more than 8160 bytes only
	return key
}

// firstCounter returns where the counters of a session begin that began without a proof: its nonces may be those of an
// earlier session, whose counters are lost. That is the clock, above an offset of 62 bits that the path does not know.
// It is the same as long as the keys are, so a later beginning is above an earlier one.
func firstCounter(now time.Time, s *session, secret []byte) uint64 {
	offset := derive(labelFirst, 8, secret, s.localNID, s.remoteNID, s.localNonce, s.remoteNonce)
	return binary.BigEndian.Uint64(offset)>>2 + uint64(max(now.UnixNano(), 0))
}

// macOf covers the whole message, type and operation included, with its checksum zero, the
// counter, and the counter that it answers. The key covers the rest: direction, NIDs, nonces.
func macOf(key, message []byte, counter, answers uint64) [ilnpwire.MACLen]byte {
	return ilnpwire.UpdateMAC([ilnpwire.MACKeyLen]byte(key), message, counter, answers)
}

// rekey derives the keys of a session from the present secret. Counters stay as long as the
// keys do: with the secret or a nonce they begin anew.
func (s *session) rekey(now time.Time, secret nidkey.Secret) {
	switch {
	case !secret.Present():
		s.keys, s.agreed, s.renewal, s.hs, s.crossed = nil, nil, nil, nil, nil
		return
	case !s.remoteNonce.Present():
		s.keys = &keying{}
		return
	}
	root := secret.Bytes()
	if s.agreed != nil {
		root = s.agreed.root
	}
	k := keysOf(s, root)
	was := s.keys
	had := was != nil && was.out != nil && hmac.Equal(was.out, k.out)
	if had || was != nil && was.out == nil {
		k.sent, k.updated, k.acks, k.unkeyed = was.sent, was.updated, was.acks, was.unkeyed
	} else {
		s.update.since = 0 // of the counters before
	}
	if s.agreed == nil && !had {
		k.sent = max(k.sent, firstCounter(now, s, root))
	}
	s.keys = &k
}

// keysOf derives the keys of a session from a root.
func keysOf(s *session, root []byte) keying {
	return keying{
		out: keyFrom(root, s.localNID, s.remoteNID, s.localNonce, s.remoteNonce),
		in:  keyFrom(root, s.remoteNID, s.localNID, s.remoteNonce, s.localNonce),
	}
}

// rekeySession has a session follow what is known of its peer's key.
func (c *steering) rekeySession(now time.Time, s *session) {
	secret, known := c.secretOf(s)
	if !known {
		return // it goes on with the keys that it has
	}
	had := s.keyIn()
	s.rekey(now, secret)
	if had != s.keyIn() && s.entry.Seq != 0 {
		c.upsert(now, s, s.entry.Paths)
	}
}

// keyIn returns the key of the MACs of what the peer sends, for the data plane; zero: there is
// none.
func (s *session) keyIn() (key [ilnpwire.MACKeyLen]byte) {
	if s.keys != nil {
		copy(key[:], s.keys.in)
	}
	return key
}

// build builds the packet of a Locator Update or an acknowledgement with its MAC.
func (k *keying) build(src, dst roam.ILV, nonce Nonce, lu ilnpwire.LocatorUpdate) ([]byte, bool) {
	message, err := lu.AppendTo(nil)
	if err != nil || k.out == nil {
		return nil, false
	}
	k.sent++
	seal := ilnpwire.Seal{Counter: k.sent}
	if lu.Operation == ilnpwire.Acknowledgement {
		seal.Answers = k.updated
	}
	seal.MAC = macOf(k.out, message, seal.Counter, seal.Answers)
	b, err := ilnpwire.BuildSealed(src, dst, nonce, lu, seal)
	return b, err == nil
}

// fault returns why a message is not the peer's, or is one that came before, or "". message is
// the whole ICMPv6 message.
func (k *keying) fault(seal *ilnpwire.Seal, message []byte) string {
	switch {
	case seal == nil:
		return reasonNoMAC
	case k.in == nil || len(message) < 8:
		return reasonWrongMAC
	}
	if mac := macOf(k.in, message, seal.Counter, seal.Answers); !hmac.Equal(mac[:], seal.MAC[:]) {
		return reasonWrongMAC
	}
	old := seal.Counter <= k.updated
	if isAck(message) {
		old = k.acks.has(seal.Counter) || seal.Answers > k.sent
	}
	if old {
		return reasonReplayed
	}
	return ""
}

// isAck reports whether the message says that it is an acknowledgement.
func isAck(message []byte) bool { return message[5] == byte(ilnpwire.Acknowledgement) }

// accept notes the counter of a message without fault: it and older ones are refused from now
// on.
func (k *keying) accept(seal *ilnpwire.Seal, message []byte) {
	k.unkeyed = false
	if isAck(message) {
		k.acks.add(seal.Counter)
	} else {
		k.updated = seal.Counter
	}
}

// acceptSeal notes the counter of a message of a keyed session that is acted on.
func (s *session) acceptSeal(p ilnpwire.Packet) {
	if s.keys != nil && p.Seal != nil {
		if s.keys.updated == 0 && s.keys.acks == (window{}) {
			s.reports.seekMACs()
		}
		s.keys.accept(p.Seal, p.Payload)
		if isAck(p.Payload) {
			s.insists = 0
		}
	}
	if s.agreed != nil {
		s.agreed.confirmed, s.crossed = true, nil
	}
}

// answersOlder refuses an acknowledgement of an update that left before the newest set did. The
// peer refuses older updates, so there is nothing to repeat.
func (c *node) answersOlder(now time.Time, s *session, p ilnpwire.Packet) bool {
	if s.keys == nil || p.Seal == nil || p.Seal.Answers > s.update.since {
		return false
	}
	c.refuse(now, s.key, reasonOlderAck)
	return true
}

// refusesUnkeyed refuses what a keyed session must not take, and reports whether it did.
func (c *node) refusesUnkeyed(now time.Time, s *session, p ilnpwire.Packet) bool {
	if s.keys == nil {
		return false
	}
	fault := s.keys.fault(p.Seal, p.Payload)
	if fault == "" || fault == reasonNoMAC && c.mayLackKey(s) {
		return false
	}
	s.keys.unkeyed = s.keys.unkeyed || fault == reasonNoMAC
	c.refuse(now, s.key, fault)
	return true
}

// isKeyed reports whether the user has given the key of a node.
func (ca *cache) isKeyed(nid roam.NID) bool {
	k := ca.known[nid]
	return k != nil && k.secret.Present()
}
