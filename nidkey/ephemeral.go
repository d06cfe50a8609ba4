package nidkey

import "fmt"

// Ephemeral returns a key pair of 32 random bytes, for one set-up. It has no NID.
func Ephemeral(random [KeyLen]byte) (Key, error) {
	k := Key{private: random}
	var err error
	if k.Public, err = k.public(); err != nil {
		return Key{}, fmt.Errorf("ephemeral key: %w", err)
	}
	return k, nil
}
