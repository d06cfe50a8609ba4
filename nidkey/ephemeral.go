package nidkey

import (
	"crypto/ecdh"
	"errors"
	"fmt"
	"io"
)

var errNoKey = errors.New("this host has no key")

// Ready is a key pair that is ready for use. To make it ready costs as much as to use it once, so whoever uses a key
// several times keeps it. The zero value is no key.
type Ready struct {
	Public  Public
	private *ecdh.PrivateKey
}

// Format writes nothing of the private half, whatever the verb.
func (r Ready) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "key "+r.Public.String()) }

// Ephemeral returns a key pair of 32 random bytes, for one set-up. It has no NID.
func Ephemeral(random [KeyLen]byte) (Key, error) {
	r, err := ReadyEphemeral(random)
	return Key{private: random, Public: r.Public}, err
}

// ReadyEphemeral is Ephemeral for a key pair that is used at once.
func ReadyEphemeral(random [KeyLen]byte) (Ready, error) {
	r, err := Key{private: random}.Ready()
	if err != nil {
		return Ready{}, fmt.Errorf("ephemeral key: %w", err)
	}
	return r, nil
}

// Ready makes a key pair ready for use.
func (k Key) Ready() (Ready, error) {
	private, err := ecdh.X25519().NewPrivateKey(k.private[:])
	if err != nil {
		return Ready{}, fmt.Errorf("own key: %w", err)
	}
	return Ready{Public: Public(private.PublicKey().Bytes()), private: private}, nil
}

// Shared returns the secret of this node with another one: the same at both ends.
func (r Ready) Shared(p Public) (Secret, error) {
	if r.private == nil {
		return Secret{}, errNoKey
	}
	public, _ := ecdh.X25519().NewPublicKey(p[:]) // fails for other lengths, and where there is no private one either
	b, err := r.private.ECDH(public)
	if err != nil { // the secret is zero
		return Secret{}, fmt.Errorf("key %v: %w", p, ErrLowOrder)
	}
	return Secret{[KeyLen]byte(b)}, nil
}
