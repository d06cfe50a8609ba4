package slowpath

import (
	"encoding/binary"
	"errors"
	"fmt"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// Host is what the translation of packets needs to know of this host.
type Host struct {
	SessionPrefix roam.L64
	UDPPort       uint16 // of encapsulated control messages; 0: none
}

// SessionAddr returns the session address of an alias.
func (h Host) SessionAddr(alias roam.NID) roam.ILV { return roam.ILV{L64: h.SessionPrefix, NID: alias} }

// Error is an ICMPv6 error that came in about a packet of a session.
type Error struct {
	Packet   []byte // whole, and not encapsulated any more
	Src, Dst roam.ILV
	Nonce    ilnp.Nonce
	Message  ilnpwire.ErrorMessage
	host     Host
}

// ReadError reads an ICMPv6 error, also one in UDP.
func (h Host) ReadError(packet []byte) (Error, error) {
	if inner, err := ilnpwire.Decapsulate(packet, h.UDPPort); err == nil {
		packet = inner
	}
	outer, err := ilnpwire.ParsePacket(packet)
	if err != nil {
		return Error{}, fmt.Errorf("read icmpv6 error: %w", err)
	}
	msg, err := ilnpwire.ParseError(outer.Payload)
	if err != nil {
		return Error{}, fmt.Errorf("read icmpv6 error: %w", err)
	}
	return Error{Packet: packet, Src: outer.Src, Dst: outer.Dst, Nonce: outer.Nonce, Message: msg, host: h}, nil
}

// AboutNonce reports whether an error complains of the Nonce option in what it quotes
// (RFC 8200 §4.2: the pointer is the offset of the option's type): there is no ILNP at
// the other end. It is not for the application: TCP would give its connection up for a
// packet that is about to be retransmitted without the option.
func (x Error) AboutNonce() bool {
	m := x.Message
	if m.Type != ilnpwire.TypeParameterProblem || m.Code != ilnpwire.CodeUnknownOption {
		return false
	}
	chain, err := ip6.WalkQuoted(m.Quoted)
	if err != nil {
		return false
	}
	found, err := ilnpwire.FindNonce(m.Quoted, chain)
	return err == nil && found.Ext >= 0 && int(m.Param) == found.Offset
}

// MTU returns the path MTU that an error names; false: it names none.
func (x Error) MTU() (mtu int, names bool) {
	return int(x.Message.Param), x.Message.Type == ilnpwire.TypePacketTooBig
}

// ErrForged is wrapped by the error about an ICMPv6 error that claims to be of a
// correspondent and does not have its nonce (RFC 6741 §11.1).
var ErrForged = errors.New("not from the correspondent")

// Errors by which IsAsked says why an error is none for the host's own stack.
var (
	ErrUnasked = errors.New("no application asked")       // it is about one of our control messages in UDP
	ErrQuoted  = errors.New("malformed packet is quoted") // nothing says what it is about
)

// IsAsked reports whether an application may have sent what an error is about, as far
// as can be read: ErrUnasked or ErrQuoted if not. A host without control in UDP says of
// that that nobody listens.
func (x Error) IsAsked() error {
	quoted, err := ilnpwire.ParseQuoted(x.Message.Quoted)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrQuoted, err)
	}
	if x.Message.Type == ilnpwire.TypeUnreachable && x.host.isEncapsulated(quoted) {
		return ErrUnasked
	}
	return nil
}

// isEncapsulated reports whether a quoted packet is one of our control messages in UDP.
func (h Host) isEncapsulated(q ilnpwire.Packet) bool {
	return q.Proto == ip6.UDP && len(q.Payload) >= 4 && h.UDPPort != 0 && binary.BigEndian.Uint16(q.Payload) == h.UDPPort &&
		binary.BigEndian.Uint16(q.Payload[2:]) == h.UDPPort
}

// longestTCP is the longest TCP header. Where a path takes less than the link,
// segments of a correspondent that wants every nonce are kept so much shorter
// that the data plane sees it, and puts no nonce into GSO packets.
const longestTCP = 60

// ForStack translates an error for our own stack, as packets about the session that it
// is about: two where that has two aliases, as the socket may be one of either. One of
// the correspondent counts with its nonce only; one of a router has none (RFC 6741
// §11.1, RFC 6744 §7).
func (x Error) ForStack(p ilnp.Entry) (packets [][]byte, err error) {
	quoted, err := ilnpwire.ParseQuoted(x.Message.Quoted)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrQuoted, err)
	}
	if x.Src.NID == p.RemoteNID && p.State == ilnp.Established && x.Nonce != p.RemoteNonce {
		return nil, ErrForged
	}
	entry := x.host.translation(p, quoted.Src.L64, quoted.Dst.L64)
	entry.Nonce = p.RemoteNonce // inward, an entry's nonce is the one to be met with
	if p.NonceAlways {
		entry.Spare = longestTCP
	}
	aliases := []roam.NID{entry.RemoteAlias}
	if p.Named {
		aliases = append(aliases, p.RemoteNID)
	}
	for _, alias := range aliases {
		entry.RemoteAlias = alias
		b, err := xlate.ErrorInward(x.Packet, entry)
		if err != nil {
			return packets, err
		}
		packets = append(packets, b)
	}
	return packets, nil
}

// ErrorOut translates an ICMPv6 error that our own stack sends about a packet of a
// session, for one of its paths. It leaves with our nonce, and without one if the
// session is plain IPv6 (RFC 6744 §§6, 7).
func (h Host) ErrorOut(packet []byte, p ilnp.Entry, path ilnp.Path) ([]byte, error) {
	entry := h.translation(p, path.Local.L64, path.Remote)
	if p.State != ilnp.Plain {
		entry.Nonce = p.LocalNonce
	}
	b, err := xlate.ErrorOutward(packet, entry)
	if err != nil {
		return nil, err
	}
	return h.encapsulated(b, p.Encap), nil
}

// PendingAnswer is where an ICMPv6 error to a pending peer goes: to where its packet
// came from, with the nonce that all else bears which goes there, and which its session
// will have. The entry that may be preinstalled for that peer has another one.
type PendingAnswer struct {
	Key           ilnp.SessionKey
	Local, Remote roam.ILV
	OwnNonce      ilnp.Nonce
	Found         ilnp.FoundRule
	Encapsulated  bool
}

// ErrorToPending translates an ICMPv6 error that our own stack sends to a pending peer.
func (h Host) ErrorToPending(packet []byte, to PendingAnswer) ([]byte, error) {
	entry := xlate.Entry{
		SessionPrefix: h.SessionPrefix,
		LocalAlias:    to.Key.Local, LocalNID: to.Local.NID, LocalL64: to.Local.L64,
		RemoteAlias: to.Key.Remote, RemoteNID: to.Remote.NID, RemoteL64: to.Remote.L64,
		Nonce: to.OwnNonce,
	}
	if to.Found == ilnp.FoundRFC6741 {
		entry.Rule = xlate.RuleRFC6741
	}
	b, err := xlate.ErrorOutward(packet, entry)
	if err != nil {
		return nil, err
	}
	return h.encapsulated(b, to.Encapsulated), nil
}

// encapsulated puts an error into UDP where the path wants it; one that does not fit
// goes as it is.
func (h Host) encapsulated(b []byte, encap bool) []byte {
	if !encap {
		return b
	}
	if encap, err := ilnpwire.Encapsulate(b, h.UDPPort); err == nil {
		return encap
	}
	return b
}

// TooBig makes the error by which our own stack learns a path MTU, for want of a router
// that says it: about an echo request, which needs no socket.
func (h Host) TooBig(o ilnp.TooBig) ([]byte, error) {
	own, peer := h.SessionAddr(o.Key.Local), h.SessionAddr(o.Key.Remote)
	quoted, err := ilnpwire.BuildEcho(own, peer, ilnpwire.Nonce{}, true, 0, 0, nil)
	if err != nil {
		return nil, err
	}
	m := ilnpwire.ErrorMessage{Type: ilnpwire.TypePacketTooBig, Param: uint32(o.MTU), Quoted: quoted}
	return ilnpwire.BuildError(peer, own, ilnpwire.Nonce{}, m)
}

// NoSuchNode makes the error that answers a packet of ours to an alias that nobody knows.
func (h Host) NoSuchNode(k ilnp.SessionKey, packet []byte) ([]byte, error) {
	const addressUnreachable = 3
	m := ilnpwire.ErrorMessage{Type: ilnpwire.TypeUnreachable, Code: addressUnreachable, Quoted: packet}
	return ilnpwire.BuildError(h.SessionAddr(k.Remote), h.SessionAddr(k.Local), ilnpwire.Nonce{}, m)
}

// translation returns how packets of a session are translated, for the given ends as
// they stand on the wire.
func (h Host) translation(p ilnp.Entry, local, remote roam.L64) xlate.Entry {
	ruleOf := func(r ilnp.ChecksumRule) xlate.Rule {
		if r == ilnp.RuleRFC6741 && p.State != ilnp.Plain {
			return xlate.RuleRFC6741
		}
		return xlate.RuleIPv6
	}
	return xlate.Entry{
		SessionPrefix: h.SessionPrefix,
		LocalAlias:    p.Key.Local, LocalNID: p.LocalNID, LocalL64: local,
		RemoteAlias: p.Key.Remote, RemoteNID: p.RemoteNID, RemoteL64: remote,
		Rule: ruleOf(p.Rule), ICMPRule: ruleOf(p.ICMPRule),
	}
}
