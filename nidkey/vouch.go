package nidkey

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"roam"
)

// VouchLen is the length of the MAC of a Vouch in bytes.
const VouchLen = 16

// labelVouch separates the key of this MAC from all others that a secret makes.
const labelVouch = "roam key rotation 1"

// Vouch says that a key was made by the node that has another one: a MAC under the secret which
// that older key shares with the reader. So only the reader can verify it, and he could have
// made it himself.
type Vouch struct {
	Old   roam.NID  // whose key vouches
	Until time.Time // in whole seconds; it counts no longer than that
	MAC   [VouchLen]byte
	Body  string // what the MAC covers: the line before it
}

// Present reports whether a line has one: no node has the NID zero.
func (v Vouch) Present() bool { return v.Old != 0 }

// Vouches returns the MAC of a line that a node with an older key makes for a reader.
func (s Secret) Vouches(old, reader roam.NID, body string) (mac [VouchLen]byte) {
	info := binary.BigEndian.AppendUint64([]byte(labelVouch), uint64(old))
	info = binary.BigEndian.AppendUint64(info, uint64(reader))
	// It fails for keys of more than 8160 bytes only.
	key, _ := hkdf.Key(sha256.New, s.Bytes(), nil, string(info), sha256.Size)
	h := hmac.New(sha256.New, key)
	h.Write([]byte(body))
	copy(mac[:], h.Sum(nil))
	return mac
}

// Check reports whether the node with the older key made the line for this reader. s is what
// the reader shares with that key.
func (v Vouch) Check(s Secret, reader roam.NID) bool {
	want := s.Vouches(v.Old, reader, v.Body)
	return s.Present() && hmac.Equal(want[:], v.MAC[:])
}

// Head returns the text of a vouch before its MAC: "n-n-n-n.seconds", in Unix time.
func (v Vouch) Head() string {
	nid, _, _ := strings.Cut(roam.ILV{NID: v.Old}.String(), ".")
	return nid + "." + strconv.FormatInt(v.Until.Unix(), 10)
}

// String returns the text of a vouch: its head, a dot, and the MAC.
func (v Vouch) String() string {
	return v.Head() + "." + base64.RawURLEncoding.EncodeToString(v.MAC[:])
}

// ParseVouch reads the text of a vouch; before is what stands before it on its line.
func ParseVouch(before, s string) (Vouch, error) {
	f := strings.Split(s, ".")
	if len(f) != 3 {
		return Vouch{}, fmt.Errorf("vouch %q: want node identifier, time and MAC with dots between", s)
	}
	var v Vouch
	var err error
	if v.Old, err = roam.ParseNID(f[0]); err != nil {
		return Vouch{}, fmt.Errorf("vouch: %w", err)
	}
	until, err := strconv.ParseUint(f[1], 10, 62)
	if err != nil {
		return Vouch{}, fmt.Errorf("vouch: time %q: %w", f[1], err)
	}
	v.Until = time.Unix(int64(until), 0).UTC()
	if err := decode(v.MAC[:], f[2]); err != nil {
		return Vouch{}, fmt.Errorf("vouch: MAC %q: %w", f[2], err)
	}
	if v.Old == 0 || v.String() != s {
		return Vouch{}, fmt.Errorf("vouch %q: want it as `roam key rotate` writes it, %q", s, v)
	}
	v.Body = before + v.Head()
	return v, nil
}
