// Package nidkey holds the key pairs of nodes: an X25519 pair, the Node Identifier that is the
// hash of its public half, the file that keeps it, and the text by which a pairing line names
// it.
//
// It omits what is done with a key: package ilnp derives the keys of sessions. It is driven by
// naming, ilnp and internal/role/ilnphost. The package is pure: random bytes are arguments.
package nidkey

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"roam"
)

// Lengths in bytes.
const (
	KeyLen      = 32 // of an X25519 key, public or private, and of a secret
	ModifierLen = 16
)

// The format of the hash.
const (
	hashLabel   = "roam node identifier"
	hashVersion = 1
	curveX25519 = 1
	// hashSteps is the number of SHA-256 steps of one hash. It is a constant of the format: a
	// sender that could choose it would choose the least.
	hashSteps = 1 << 20
)

// Errors that the functions of this package wrap.
var (
	ErrLength   = errors.New("wrong length")
	ErrLowOrder = errors.New("a point of low order, which is nobody's key")
	ErrFile     = errors.New("no key file of Roam")
	ErrVersion  = errors.New("unknown version")
)

// Public is the public half of a key pair.
type Public [KeyLen]byte

// Modifier is what the hash covers besides the key, drawn at random with it.
type Modifier [ModifierLen]byte

// Secret is what two nodes share: the X25519 secret of their key pairs. The zero value is none.
type Secret struct{ b [KeyLen]byte }

// Bytes returns the secret, for a key derivation.
func (s Secret) Bytes() []byte { return s.b[:] }

// Present reports whether there is a secret.
func (s Secret) Present() bool { return s != Secret{} }

// Format writes no byte of the secret, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "secret") }

// Key is a key pair. Its NID is the hash of the public half.
type Key struct {
	private  [KeyLen]byte
	Public   Public
	Modifier Modifier
	NID      roam.NID
}

// Format writes nothing of the private half, whatever the verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "key "+k.Public.String()) }

// New draws a key pair. It draws modifiers until the NID is one that a node may have.
func New(random io.Reader) (Key, error) {
	var k Key
	if _, err := io.ReadFull(random, k.private[:]); err != nil {
		return Key{}, fmt.Errorf("draw a key: %w", err)
	}
	r, err := k.Ready()
	if err != nil {
		return Key{}, fmt.Errorf("draw a key: %w", err)
	}
	k.Public = r.Public
	for !Usable(k.NID) {
		if _, err := io.ReadFull(random, k.Modifier[:]); err != nil {
			return Key{}, fmt.Errorf("draw a modifier: %w", err)
		}
		k.NID = Hash(k.Public, k.Modifier)
	}
	return k, nil
}

// Usable reports whether a hash may be a Node Identifier: RFC 5453 reserves small ones.
func Usable(nid roam.NID) bool { return nid>>32 != 0 }

// Hash returns the Node Identifier that belongs to a public key: 62 bits of the SHA-256 hash of
// version, curve, modifier and key, hashed again 2^20 times. The group bit is 0, and the
// universal/local bit says locally administered (RFC 4291 §2.5.1). It takes about 0.1 s.
func Hash(p Public, m Modifier) roam.NID {
	first := append([]byte(hashLabel), hashVersion, curveX25519)
	h := sha256.Sum256(append(append(first, m[:]...), p[:]...))
	for range hashSteps {
		h = sha256.Sum256(h[:])
	}
	return identifier(h)
}

// identifier returns the first 64 bits of a hash, the group and the universal/local bit 0.
func identifier(h [sha256.Size]byte) roam.NID {
	h[0] &^= 0x03
	return roam.NID(binary.BigEndian.Uint64(h[:]))
}

// Shared returns the secret of this node with another one: the same at both ends.
func (k Key) Shared(p Public) (Secret, error) {
	r, err := k.Ready()
	if err != nil {
		return Secret{}, err
	}
	return r.Shared(p)
}

// String returns the text of a public key: 43 characters.
func (p Public) String() string { return base64.RawURLEncoding.EncodeToString(p[:]) }

// String returns the text of a modifier: 22 characters.
func (m Modifier) String() string { return base64.RawURLEncoding.EncodeToString(m[:]) }

// Claim is what a line says of a node's key. With a modifier the line claims that the NID is
// the key's hash; without one the key belongs to that NID because the user says so.
type Claim struct {
	Public   Public
	Modifier Modifier
	Hashed   bool // there is a modifier
}

// Present reports whether a line has a key: no node has the key zero.
func (c Claim) Present() bool { return c.Public != Public{} }

// String returns "key" or "key.modifier".
func (c Claim) String() string {
	if !c.Hashed {
		return c.Public.String()
	}
	return c.Public.String() + "." + c.Modifier.String()
}

// ParseClaim reads the text of a claim. It refuses other lengths and points of low order.
func ParseClaim(s string) (Claim, error) {
	var c Claim
	key, modifier, hashed := strings.Cut(s, ".")
	if err := decode(c.Public[:], key); err != nil {
		return Claim{}, fmt.Errorf("key %q: %w", key, err)
	}
	// No private key has a secret with a point of low order.
	if _, err := (Key{private: [KeyLen]byte{1}}).Shared(c.Public); err != nil {
		return Claim{}, err
	}
	if c.Hashed = hashed; hashed {
		if err := decode(c.Modifier[:], modifier); err != nil {
			return Claim{}, fmt.Errorf("modifier %q: %w", modifier, err)
		}
	}
	return c, nil
}

// Check refuses a claim whose NID is not the hash that it says it is. It takes as long as Hash.
func (c Claim) Check(nid roam.NID) error {
	if !c.Hashed {
		return nil
	}
	if want := Hash(c.Public, c.Modifier); want != nid {
		return fmt.Errorf("the line says that node identifier %v is the hash of its key, which is %v: "+
			"it was made up or mixed up", nid, want)
	}
	return nil
}

func decode(to []byte, text string) error {
	if strings.ContainsAny(text, "\r\n") { // which the decoder skips
		return errors.New("a line ends within it")
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return fmt.Errorf("no base64url: %w", err)
	}
	if len(b) != len(to) {
		return fmt.Errorf("%d bytes, want %d: %w", len(b), len(to), ErrLength)
	}
	copy(to, b)
	return nil
}
