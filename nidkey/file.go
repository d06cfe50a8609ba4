package nidkey

import (
	"encoding/base64"
	"fmt"
	"strings"

	"roam"
)

// The key file is text of four lines:
//
//	roam-key 1
//	private <32 bytes in base64url>
//	modifier <16 bytes in base64url>
//	nid <the hash of the public half, in the form of a NID>
//
// The public half follows from the private one. The hash is kept, as it takes long to make.
const (
	fileTag     = "roam-key"
	fileVersion = "1"
)

// File returns the text of the key file. It holds the private half.
func (k Key) File() []byte {
	return fmt.Appendf(nil, "%s %s\nprivate %s\nmodifier %s\nnid %v\n", fileTag, fileVersion,
		base64.RawURLEncoding.EncodeToString(k.private[:]), k.Modifier, k.NID)
}

// ParseFile reads the text of a key file. No error quotes a byte of the private half.
func ParseFile(b []byte) (Key, error) {
	if len(b) == 0 {
		return Key{}, fmt.Errorf("it is empty: %w", ErrFile)
	}
	lines := strings.Split(string(b), "\n")
	tag, version, _ := strings.Cut(lines[0], " ")
	switch {
	case tag != fileTag:
		return Key{}, fmt.Errorf("it does not begin with %q: %w", fileTag, ErrFile)
	case version != fileVersion && len(lines) > 1:
		return Key{}, fmt.Errorf("version %q, this Roam knows %q: %w", version, fileVersion, ErrVersion)
	case len(lines) != 5 || lines[4] != "":
		return Key{}, fmt.Errorf("%d lines, want 4, each with its end: it was cut or changed: %w",
			strings.Count(string(b), "\n"), ErrFile)
	}
	var k Key
	values := [3]string{}
	for i, name := range []string{"private", "modifier", "nid"} {
		got, value, _ := strings.Cut(lines[i+1], " ")
		if got != name {
			return Key{}, fmt.Errorf("line %d has no %q: %w", i+2, name, ErrFile)
		}
		values[i] = value
	}
	if decode(k.private[:], values[0]) != nil {
		return Key{}, fmt.Errorf("line 2: the private key is not %d bytes in base64url: %w", KeyLen, ErrFile)
	}
	if err := decode(k.Modifier[:], values[1]); err != nil {
		return Key{}, fmt.Errorf("line 3: %w: %w", err, ErrFile)
	}
	nid, err := roam.ParseNID(values[2])
	if err != nil {
		return Key{}, fmt.Errorf("line 4: %w: %w", err, ErrFile)
	}
	k.NID = nid
	ready, err := k.Ready()
	if err != nil {
		return Key{}, fmt.Errorf("line 2: %w", err)
	}
	k.Public = ready.Public
	return k, nil
}
