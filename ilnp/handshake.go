package ilnp

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"roam"
	"roam/nidkey"
	ilnpwire "roam/wire/ilnp"
)

// Two nodes that have each other's key prove at set-up who they are: docs/design/keys.md has the
// sequence. This file is what they compute. A MAC by the static secret of both comes before all
// else, so that a forged proof costs one HMAC. The root of the session covers that secret and
// three of ephemeral keys, as in the pattern IK of Noise.

// labelProof and labelRoot separate these keys from all others of the same secrets.
const (
	labelProof = "roam proof 1"
	labelRoot  = "roam proof root 1"

	labelCounter = "roam proof counter 1"
	labelStands  = "roam proof stands 1"
)

// handshake is what the initiator of a proof has until the answer comes.
type handshake struct {
	ephemeral  ephemeral
	offers     []ilnpwire.Proof             // the last few
	challenge  [ilnpwire.ProofTokenLen]byte // zero: there was none
	challenged time.Time                    // when the last one came
	nobody     Nonce                        // nobody sends it: in the entry in place of the peer's
	tries      int
	inUDP      Path // of the first offer, which goes in UDP next
	since      time.Time
	seen       time.Time // when the peer was last seen, and an offer went where it was
	went       places    // where the offers went
	insists    bool      // an answer counts although the peer says that its session stands
	offered    time.Time // when the last offer left; zero: its time is judged, or none has left
	ignored    int       // how often the peer was there and did not answer it
	must       bool      // the session ends if its peer is there and does not answer: its key was replaced
}

// crossed is an offer that was given up as the peer's was accepted, which ours had crossed.
type crossed struct {
	*handshake
	nonce Nonce // of this host, in the session that the offer was for
}

// places is where messages with one secret went. Whoever shows the secret has received one of them: at which place is
// known only if there is one. A peer that lies names others as its own.
type places []roam.L64

func (ps *places) add(l roam.L64) {
	if !slices.Contains(*ps, l) {
		*ps = append(*ps, l)
	}
}

// are reports whether a locator is the only place.
func (ps places) are(l roam.L64) bool { return len(ps) == 1 && ps[0] == l }

// agreement is what both ends have after a proof.
type agreement struct {
	root      []byte
	theirs    [nidkey.KeyLen]byte // ephemeral key of the peer
	last      ilnpwire.Proof      // our answer, or our confirmation, which goes again to what it is for
	path      Path                // by which it went first
	went      places              // where our answer went, or our offers: what answers them was received there
	encap     bool                // in UDP
	reached   bool                // the offer answered a challenge from there
	initiator bool
	unsent    bool // it is a confirmation that is still to go
	confirmed bool // the peer has shown that it has the root
	reports   bool // the peer's proof says that its reports have MACs
	tries     int
	used      uint64    // counters that messages by this root may have had, before a restart
	since     time.Time // of a waiting root: when the answer was first sent
	second    time.Time // since when answered counts
	answered  int       // how often the answer was repeated
}

// isOpen reports whether nobody has shown so far that the peer has the root.
func (a *agreement) isOpen() bool { return a != nil && !a.confirmed }

// answers reports whether this is the answer to an offer with an ephemeral key.
func (a *agreement) answers(theirs [nidkey.KeyLen]byte) bool {
	return a != nil && a.last.Step == ilnpwire.ProofAnswer && a.theirs == theirs
}

// isConfirmedBy reports whether a confirmation is of this answer.
func (a *agreement) isConfirmedBy(p ilnpwire.Proof) bool {
	return a != nil && isTokenOf(a.root, p)
}

// offered is an offer that was accepted.
type offered struct {
	proof ilnpwire.Proof
	es    nidkey.Secret
	path  Path
	encap bool

	reached bool // it answers a challenge that went to where it came from
}

// proofKey derives the key of the MACs of one direction.
func proofKey(secret nidkey.Secret, from, to roam.NID) []byte {
	info := binary.BigEndian.AppendUint64([]byte(labelProof), uint64(from))
	info = binary.BigEndian.AppendUint64(info, uint64(to))
	key, _ := hkdf.Key(sha256.New, secret.Bytes(), nil, string(info), sha256.Size) // fails for long keys only
	return key
}

// proofKey returns the key of the MACs of one direction. It is derived once, so that a forged proof
// costs little.
func (k *correspondent) proofKey(from, to roam.NID) []byte {
	ends := SessionKey{Local: to, Remote: from}
	if k.proofKeys[ends] == nil {
		if k.proofKeys == nil {
			k.proofKeys = make(map[SessionKey][]byte)
		}
		k.proofKeys[ends] = proofKey(k.secret, from, to)
	}
	return k.proofKeys[ends]
}

// appendNonce appends a nonce in 13 bytes.
func appendNonce(b []byte, n Nonce) []byte { return append(append(b, n.Len), n.Bytes[:]...) }

// proofMAC covers the option before its MAC, the nonce of its packet, and in all but an offer
// the nonce of the receiver. The key covers direction and NIDs.
func proofMAC(key []byte, p ilnpwire.Proof, sender, receiver Nonce) (mac [ilnpwire.MACLen]byte) {
	h := hmac.New(sha256.New, key)
	h.Write(appendNonce(appendNonce(p.Covered(), sender), receiver))
	copy(mac[:], h.Sum(nil))
	return mac
}

// sealProof fills in the MAC.
func sealProof(key []byte, p ilnpwire.Proof, sender, receiver Nonce) ilnpwire.Proof {
	p.MAC = proofMAC(key, p, sender, receiver)
	return p
}

// isProof reports whether the MAC is right.
func isProof(key []byte, p ilnpwire.Proof, sender, receiver Nonce) bool {
	mac := proofMAC(key, p, sender, receiver)
	return hmac.Equal(mac[:], p.MAC[:])
}

// maskCounter hides the counter of an offer or a challenge from all that lack the secret, as it may
// be a clock, and undoes that. Each of these has another ephemeral key or token.
func maskCounter(key []byte, p ilnpwire.Proof) uint64 {
	h := hmac.New(sha256.New, key)
	h.Write(append([]byte(labelCounter), byte(p.Step)))
	h.Write(p.Ephemeral[:])
	h.Write(p.Token[:])
	return p.Counter ^ binary.BigEndian.Uint64(h.Sum(nil))
}

// transcript is what the root of a session covers besides the secrets, from the initiator's side.
type transcript struct {
	initiator, responder           roam.NID
	initiatorNonce, responderNonce Nonce
	offer                          ilnpwire.Proof
	answer                         [nidkey.KeyLen]byte // ephemeral key of the responder
}

// rootOf derives the root from the static secret and those of es, ee and se.
func rootOf(t transcript, ss, es, ee, se nidkey.Secret) []byte {
	var secrets []byte
	for _, s := range []nidkey.Secret{ss, es, ee, se} {
		secrets = append(secrets, s.Bytes()...)
	}
	info := binary.BigEndian.AppendUint64([]byte(labelRoot), uint64(t.initiator))
	info = binary.BigEndian.AppendUint64(info, uint64(t.responder))
	info = appendNonce(appendNonce(info, t.initiatorNonce), t.responderNonce)
	info = append(append(info, t.offer.Covered()...), t.answer[:]...)
	root, _ := hkdf.Key(sha256.New, secrets, nil, string(info), sha256.Size) // fails for long keys only
	return root
}

// tokenOf shows that the sender of an answer, or of a confirmation, has the root.
func tokenOf(root []byte, p ilnpwire.Proof) (token [ilnpwire.ProofTokenLen]byte) {
	p.Token = token
	h := hmac.New(sha256.New, root)
	h.Write(p.Covered())
	copy(token[:], h.Sum(nil))
	return token
}

func isTokenOf(root []byte, p ilnpwire.Proof) bool {
	token := tokenOf(root, p)
	return hmac.Equal(token[:], p.Token[:])
}

// tokenStands is tokenOf in an answer of a responder whose session stands: it goes on with the keys that it has until
// the initiator confirms the new ones.
func tokenStands(root []byte, p ilnpwire.Proof) (token [ilnpwire.ProofTokenLen]byte) {
	key, _ := hkdf.Expand(sha256.New, root, labelStands, sha256.Size) // fails for long keys only
	return tokenOf(key, p)
}

// stands reports whether an answer is of a responder whose session stands.
func stands(root []byte, p ilnpwire.Proof) bool {
	token := tokenStands(root, p)
	return hmac.Equal(token[:], p.Token[:])
}

// pair is a private key of this host and a public one of the peer.
type pair struct {
	own    nidkey.Ready
	public nidkey.Public
}

// shared returns the secrets of pairs. It fails for a public key of low order, whose secrets everybody knows.
func shared(pairs ...pair) (secrets []nidkey.Secret, err error) {
	for _, p := range pairs {
		s, err := p.own.Shared(p.public)
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, s)
	}
	return secrets, nil
}

// answered derives the root on the initiator's side.
func (h *handshake) answered(t transcript, own nidkey.Ready, peer nidkey.Public, ss nidkey.Secret) ([]byte, error) {
	s, err := shared(pair{h.ephemeral.Ready, t.answer}, pair{own, t.answer})
	if err != nil {
		return nil, err
	}
	es, err := h.ephemeral.share(peer)
	if err != nil {
		return nil, err
	}
	return rootOf(t, ss, es, s[0], s[1]), nil
}

// answer derives the root on the responder's side. es was computed as the offer was accepted.
func (o *offered) answer(t transcript, own *ephemeral, peer nidkey.Public, ss nidkey.Secret) ([]byte, error) {
	ee, err := own.Shared(o.proof.Ephemeral)
	if err != nil {
		return nil, err
	}
	se, err := own.share(peer)
	if err != nil {
		return nil, err
	}
	return rootOf(t, ss, o.es, ee, se), nil
}

// freshness is what a responder remembers of one peer's offers, and an initiator of its own. It
// is in no state: a responder that was restarted cannot tell which offers it has accepted, and
// a challenge costs one round trip.
type freshness struct {
	seen  bool
	last  uint64    // counter of the newest offer that was accepted
	at    time.Time // when it was
	floor uint64    // number of the last challenge that was answered
}

// challenges makes challenges, and recognizes those that it made. Nothing is kept of one but
// its number.
type challenges struct {
	secret [32]byte
	made   uint64
}

// asker is the node that a challenge is for: at this place, with this nonce and ephemeral key.
type asker struct {
	local     roam.NID
	remote    roam.ILV
	nonce     Nonce
	ephemeral [nidkey.KeyLen]byte
}

func askerOf(p ilnpwire.Packet) asker {
	return asker{local: p.Dst.NID, remote: p.Src, nonce: p.Nonce, ephemeral: p.Proof.Ephemeral}
}

func (c *challenges) tag(number uint64, a asker) []byte {
	b := binary.BigEndian.AppendUint64(nil, number)
	for _, half := range []uint64{uint64(a.local), uint64(a.remote.NID), uint64(a.remote.L64)} {
		b = binary.BigEndian.AppendUint64(b, half)
	}
	h := hmac.New(sha256.New, c.secret[:])
	h.Write(append(appendNonce(b, a.nonce), a.ephemeral[:]...))
	return h.Sum(nil)[:ilnpwire.ProofTokenLen-8]
}

// next returns a challenge for an offer.
func (c *challenges) next(a asker) (t [ilnpwire.ProofTokenLen]byte) {
	c.made++
	binary.BigEndian.PutUint64(t[:], c.made)
	copy(t[8:], c.tag(c.made, a))
	return t
}

// numberOf returns the number of the challenge that an offer answers from where it was sent to;
// 0: none of ours.
func (c *challenges) numberOf(p ilnpwire.Packet) uint64 {
	token := p.Proof.Token
	number := binary.BigEndian.Uint64(token[:])
	if number > c.made || !hmac.Equal(token[8:], c.tag(number, askerOf(p))) {
		return 0
	}
	return number
}

// counterSlack is how far counters may be ahead of the time that has passed since the last one: what two
// states reserve. An offer further ahead may be of before both ends lost their states and had their clocks set back.
const counterSlack = 2 * reservedOffers

// accepts reports whether an offer is new, and notes that it was accepted: its counter is above
// that of the last one by no more than has passed since then, or it answers a challenge that no other offer
// has answered.
func (f *freshness) accepts(now time.Time, counter, challenge uint64) bool {
	passed := uint64(max(now.Sub(f.at), 0))
	if challenge <= f.floor && (!f.seen || counter <= f.last || counter-f.last > passed+counterSlack) {
		return false
	}
	f.seen, f.last, f.at, f.floor = true, max(f.last, counter), now, max(f.floor, challenge)
	return true
}
