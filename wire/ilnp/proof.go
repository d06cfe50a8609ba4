package ilnp

import (
	"bytes"
	"encoding/binary"

	"roam"
	"roam/wire/ip6"
)

// Proof is an option of OptionExperiment that proves at set-up who its sender is, in a Locator
// Update whose body does not count. DEVIATION: no RFC defines it, see docs/rfc/rfc6743.md.
// docs/design/keys.md says what each field means in each step.
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Option Type  |  Opt Data Len |     Kind      |     Step      |
//	|    = 0x1e     |     = 140     |     = 1       |    1 to 5     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|               0               |       Counter (64 bits)       .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                Ephemeral X25519 key (256 bits)                .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                       Token (128 bits)                        .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|     8 Locators of the sender (64 bits each), 0 behind them    .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        MAC (128 bits)                         .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// In UDP it stands behind the message, as the MAC does (144 bytes, Next Header 59).
type Proof struct {
	Step      ProofStep
	Counter   uint64
	Ephemeral [32]byte
	Token     [ProofTokenLen]byte
	Locators  [ProofLocators]roam.L64
	// Reports says that reports of the sender have MACs in this session (Report). It travels in the
	// last place of Locators, if that is free, as builds before it refuse what is not zero elsewhere.
	Reports bool
	MAC     [MACLen]byte
}

// sealsReports is no locator, as it is multicast.
const sealsReports roam.L64 = 0xff00_0000_0000_0001

// ProofStep says which message of a proof this is.
type ProofStep uint8

// The steps.
const (
	ProofOffer     ProofStep = 1 // of the initiator, ahead of its first packet
	ProofAnswer    ProofStep = 2 // of the responder, which accepts it
	ProofConfirm   ProofStep = 3 // of the initiator, which has received that
	ProofChallenge ProofStep = 4 // of the responder, which cannot tell whether an offer is new
	ProofNotice    ProofStep = 5 // of either, once there is a session: another node has proven the receiver's key
)

// Lengths in a proof.
const (
	ProofTokenLen = 16
	ProofLocators = 8 // as many as an entry of the data plane has
)

// Layout of the option.
const (
	kindProof     = 1
	proofDataLen  = 4 + 8 + 32 + ProofTokenLen + 8*ProofLocators + MACLen
	proofOptLen   = ip6.OptionDataAt + proofDataLen
	proofBehind   = ip6.OptionsAt + proofOptLen // of the header behind the message, in UDP: a multiple of 8
	proofStepAt   = ip6.OptionDataAt + 1        // from the option's type
	proofCounter  = ip6.OptionDataAt + 4
	proofKeyAt    = proofCounter + 8
	proofTokenAt  = proofKeyAt + 32
	proofPlacesAt = proofTokenAt + ProofTokenLen
	proofMACAt    = proofPlacesAt + 8*ProofLocators
)

// Covered returns what the MAC covers of the option: all before it.
func (p Proof) Covered() []byte { return p.option().Data[:proofDataLen-MACLen] }

// Lists reports whether a locator is one that the sender lists.
func (p Proof) Lists(l roam.L64) bool {
	for _, listed := range p.Locators {
		if l != 0 && listed == l {
			return true
		}
	}
	return false
}

func (p Proof) option() ip6.Option {
	d := binary.BigEndian.AppendUint64([]byte{kindProof, byte(p.Step), 0, 0}, p.Counter)
	d = append(append(d, p.Ephemeral[:]...), p.Token[:]...)
	if last := &p.Locators[ProofLocators-1]; p.Reports && *last == 0 {
		*last = sealsReports
	}
	for _, l := range p.Locators {
		d = binary.BigEndian.AppendUint64(d, uint64(l))
	}
	return ip6.Option{Type: OptionExperiment, Data: append(d, p.MAC[:]...)}
}

// parseProof reads the option whose type is at the start of b; nil: it is another one, of
// another length or of an unknown step.
func parseProof(b []byte) *Proof {
	if len(b) < proofOptLen || !bytes.Equal(b[:proofStepAt], []byte{OptionExperiment, proofDataLen, kindProof}) ||
		b[proofStepAt+1] != 0 || b[proofStepAt+2] != 0 {
		return nil
	}
	p := &Proof{
		Step: ProofStep(b[proofStepAt]), Counter: binary.BigEndian.Uint64(b[proofCounter:]),
		Ephemeral: [32]byte(b[proofKeyAt:proofTokenAt]), Token: [ProofTokenLen]byte(b[proofTokenAt:proofPlacesAt]),
		MAC: [MACLen]byte(b[proofMACAt:proofOptLen]),
	}
	for i := range p.Locators {
		p.Locators[i] = roam.L64(binary.BigEndian.Uint64(b[proofPlacesAt+8*i:]))
	}
	if p.Step < ProofOffer || p.Step > ProofNotice {
		return nil
	}
	if last := &p.Locators[ProofLocators-1]; *last == sealsReports {
		p.Reports, *last = true, 0
	}
	return p
}

// BuildProof is BuildUpdate with a proof.
func BuildProof(src, dst roam.ILV, nonce Nonce, lu LocatorUpdate, p Proof) ([]byte, error) {
	return buildWith(src, dst, nonce, lu, p.option())
}
