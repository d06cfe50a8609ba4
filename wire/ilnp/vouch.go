package ilnp

import (
	"bytes"
	"encoding/binary"
	"time"

	"roam"
	"roam/wire/ip6"
)

// Vouch is an option of OptionExperiment in a Locator Update whose body does not count: the node
// that the packet is from has a new key, and a Node Identifier that is its hash. It has two MACs:
// by the old key, which the receiver knows, and by the new one, so that nobody vouches for a key
// of somebody else. DEVIATION: no RFC defines it, see docs/rfc/rfc6743.md.
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Option Type  |  Opt Data Len |     Kind      |               |
//	|    = 0x1e     |     = 100     |     = 4       |       0       |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|               0               |  Until, in s, Unix (64 bits)  .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                New X25519 public key (256 bits)               .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                  Modifier of the hash (128 bits)              .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                 New Node Identifier (64 bits)                 .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                  MAC by the old key (128 bits)                .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                  MAC by the new key (128 bits)                .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// In UDP it stands behind the message, as a proof does (104 bytes, Next Header 59).
type Vouch struct {
	Until    time.Time // in whole seconds; it counts no longer than that
	Public   [32]byte
	Modifier [16]byte
	NID      roam.NID
	ByOld    [MACLen]byte
	ByNew    [MACLen]byte
}

// Layout of the option.
const (
	kindVouch       = 4
	vouchDataLen    = 4 + 8 + 32 + 16 + 8 + 2*MACLen
	vouchOptLen     = ip6.OptionDataAt + vouchDataLen
	vouchBehind     = ip6.OptionsAt + vouchOptLen // of the header behind the message, in UDP: a multiple of 8
	vouchUntilAt    = ip6.OptionDataAt + 4        // from the option's type
	vouchKeyAt      = vouchUntilAt + 8
	vouchModifierAt = vouchKeyAt + 32
	vouchNIDAt      = vouchModifierAt + 16
	vouchByOldAt    = vouchNIDAt + 8
	vouchByNewAt    = vouchByOldAt + MACLen
)

// Covered returns what the MACs cover of the option: all before them.
func (v Vouch) Covered() []byte { return v.option().Data[:vouchDataLen-2*MACLen] }

func (v Vouch) option() ip6.Option {
	d := binary.BigEndian.AppendUint64([]byte{kindVouch, 0, 0, 0}, uint64(v.Until.Unix()))
	d = append(append(d, v.Public[:]...), v.Modifier[:]...)
	d = binary.BigEndian.AppendUint64(d, uint64(v.NID))
	return ip6.Option{Type: OptionExperiment, Data: append(append(d, v.ByOld[:]...), v.ByNew[:]...)}
}

// parseVouch reads the option whose type is at the start of b; nil: it is another one, or of
// another length.
func parseVouch(b []byte) *Vouch {
	head := []byte{OptionExperiment, vouchDataLen, kindVouch, 0, 0, 0}
	if len(b) < vouchOptLen || !bytes.Equal(b[:vouchUntilAt], head) {
		return nil
	}
	return &Vouch{
		Until:  time.Unix(int64(binary.BigEndian.Uint64(b[vouchUntilAt:])), 0).UTC(),
		Public: [32]byte(b[vouchKeyAt:vouchModifierAt]), Modifier: [16]byte(b[vouchModifierAt:vouchNIDAt]),
		NID:   roam.NID(binary.BigEndian.Uint64(b[vouchNIDAt:])),
		ByOld: [MACLen]byte(b[vouchByOldAt:vouchByNewAt]), ByNew: [MACLen]byte(b[vouchByNewAt:vouchOptLen]),
	}
}

// BuildVouch is BuildUpdate with a vouch.
func BuildVouch(src, dst roam.ILV, nonce Nonce, lu LocatorUpdate, v Vouch) ([]byte, error) {
	return buildWith(src, dst, nonce, lu, v.option())
}
