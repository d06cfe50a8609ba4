package slowpath

import (
	"bytes"
	"errors"
	"testing"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// entryIn is a session in a state.
func entryIn(state ilnp.SessionState) ilnp.Entry {
	p := ilnp.Entry{Key: theKey, State: state, LocalNID: ourNID, RemoteNID: peerNID, LocalNonce: ourNonce,
		Paths: []ilnp.Path{{Local: roam.LinkLocator{Link: 7, L64: here}, Remote: there}}}
	if state == ilnp.Established {
		p.RemoteNonce = theirNonce
	}
	return p
}

// about is an error about a packet of ours, as it comes in.
func about(t *testing.T, from roam.ILV, nonce ilnp.Nonce, m ilnpwire.ErrorMessage) []byte {
	t.Helper()
	if m.Quoted == nil {
		m.Quoted = built(t)(ilnpwire.BuildEcho(us, them, ourNonce, true, 1, 1, make([]byte, 40)))
	}
	return built(t)(ilnpwire.BuildError(from, us, nonce, m))
}

func read(t *testing.T, packet []byte) Error {
	t.Helper()
	x, err := host.ReadError(packet)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestErrorsForOurStack: an error of a correspondent counts with its nonce only; one of
// a router on the way has none (RFC 6741 §11.1, RFC 6744 §7).
func TestErrorsForOurStack(t *testing.T) {
	router := roam.ILV{NID: 9, L64: 0x2001_0db8_ffff_0000}
	for name, c := range map[string]struct {
		state  ilnp.SessionState
		from   roam.ILV
		nonce  ilnp.Nonce
		passes bool
	}{
		"right nonce":                  {ilnp.Established, them, theirNonce, true},
		"no nonce":                     {ilnp.Established, them, ilnp.Nonce{}, false},
		"wrong nonce":                  {ilnp.Established, them, wrongNonce, false},
		"our own nonce":                {ilnp.Established, them, ourNonce, false},
		"no nonce, from another place": {ilnp.Established, roam.ILV{NID: peerNID, L64: there + 1<<16}, ilnp.Nonce{}, false},
		"router":                       {ilnp.Established, router, ilnp.Nonce{}, true},
		"not yet confirmed":            {ilnp.Initiated, them, ilnp.Nonce{}, true},
		"not yet confirmed, a nonce":   {ilnp.Initiated, them, theirNonce, true},
		"plain":                        {ilnp.Plain, them, ilnp.Nonce{}, true},
	} {
		x := read(t, about(t, c.from, c.nonce, ilnpwire.ErrorMessage{Type: ilnpwire.TypeUnreachable, Code: 4}))
		packets, err := x.ForStack(entryIn(c.state))
		if c.passes && (err != nil || len(packets) != 1) || !c.passes && (!errors.Is(err, ErrForged) || len(packets) != 0) {
			t.Errorf("%s: %d packets, %v", name, len(packets), err)
			continue
		}
		for _, b := range packets {
			got, err := ilnpwire.ParsePacket(b)
			if err != nil || got.Dst != host.SessionAddr(ourNID) || got.Nonce.Present() {
				t.Errorf("%s: our stack sees %+v, %v", name, got, err)
			}
		}
	}
}

// TestErrorsOfTwoAliases: the socket may be one of either.
func TestErrorsOfTwoAliases(t *testing.T) {
	const alias roam.NID = 0x0200_0001_0000_0002
	p := entryIn(ilnp.Established)
	p.Key.Remote, p.Named = alias, true
	x := read(t, about(t, them, theirNonce, ilnpwire.ErrorMessage{Type: ilnpwire.TypeUnreachable, Code: 4}))
	packets, err := x.ForStack(p)
	if err != nil || len(packets) != 2 {
		t.Fatalf("%d packets, %v", len(packets), err)
	}
	for i, as := range []roam.NID{alias, peerNID} {
		if got, err := ilnpwire.ParsePacket(packets[i]); err != nil || got.Src != host.SessionAddr(as) {
			t.Errorf("packet %d is from %v, %v", i, got.Src, err)
		}
	}
}

// TestSpareForNonces: where every segment is to bear a nonce, they are kept shorter than
// the path takes by it and the longest header.
func TestSpareForNonces(t *testing.T) {
	for always, want := range map[bool]uint32{false: 1400 - 8, true: 1400 - 8 - longestTCP} {
		p := entryIn(ilnp.Established)
		p.NonceAlways = always
		packets, err := read(t, about(t, them, theirNonce, ilnpwire.ErrorMessage{Type: ilnpwire.TypePacketTooBig, Param: 1400})).ForStack(p)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, packets[0]); got.Message.Param != want {
			t.Errorf("always=%t: %d bytes, want %d", always, got.Message.Param, want)
		}
	}
}

// TestTranslation: the rules are those of the session, and the ordinary one where it is
// plain IPv6.
func TestTranslation(t *testing.T) {
	for state, want := range map[ilnp.SessionState]xlate.Rule{ilnp.Initiated: xlate.RuleRFC6741, ilnp.Established: xlate.RuleRFC6741, ilnp.Plain: xlate.RuleIPv6} {
		p := entryIn(state)
		p.Rule, p.ICMPRule = ilnp.RuleRFC6741, ilnp.RuleRFC6741
		if x := host.translation(p, here, there); x.Rule != want || x.ICMPRule != want || x.LocalL64 != here || x.RemoteL64 != there {
			t.Errorf("state %v: %+v", state, x)
		}
		p.Rule, p.ICMPRule = ilnp.RuleIPv6, ilnp.RuleIPv6
		if x := host.translation(p, here, there); x.Rule != xlate.RuleIPv6 || x.ICMPRule != xlate.RuleIPv6 {
			t.Errorf("state %v: %+v", state, x)
		}
	}
}

// TestErrorsNobodyAskedFor: about control in UDP, and about who knows what.
func TestErrorsNobodyAskedFor(t *testing.T) {
	ours := built(t)(ilnpwire.BuildEcho(us, them, ourNonce, true, 1, 1, make([]byte, 40)))
	inUDP := built(t)(ilnpwire.Encapsulate(ours, host.UDPPort))
	for name, c := range map[string]struct {
		typ    uint8
		quoted []byte
		host   Host
		want   error
	}{
		"a packet of ours":     {ilnpwire.TypeUnreachable, ours, host, nil},
		"nobody listens":       {ilnpwire.TypeUnreachable, inUDP, host, ErrUnasked},
		"too long, in UDP":     {ilnpwire.TypePacketTooBig, inUDP, host, nil},
		"an application's UDP": {ilnpwire.TypeUnreachable, inUDP, Host{UDPPort: host.UDPPort + 1}, nil},
		"no control in UDP":    {ilnpwire.TypeUnreachable, inUDP, Host{}, nil},
		"cut off":              {ilnpwire.TypeUnreachable, ours[:30], host, ErrQuoted},
	} {
		x, err := c.host.ReadError(about(t, them, theirNonce, ilnpwire.ErrorMessage{Type: c.typ, Quoted: c.quoted}))
		if err != nil {
			t.Fatal(err)
		}
		if got := x.IsAsked(); !errors.Is(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if _, err := x.ForStack(entryIn(ilnp.Established)); errors.Is(err, ErrQuoted) != (c.want == ErrQuoted) {
			t.Errorf("%s: for our stack: %v", name, err)
		}
	}
}

// TestAboutNonce: a Parameter Problem whose pointer is at the type of the Nonce option
// is about it, and nothing else (RFC 6744 §6).
func TestAboutNonce(t *testing.T) {
	const option = ip6.HeaderLen + 2 // behind the header of the options
	for name, c := range map[string]struct {
		message ilnpwire.ErrorMessage
		want    bool
	}{
		"the nonce":                  {ilnpwire.ErrorMessage{Type: ilnpwire.TypeParameterProblem, Code: ilnpwire.CodeUnknownOption, Param: option}, true},
		"the byte behind its type":   {ilnpwire.ErrorMessage{Type: ilnpwire.TypeParameterProblem, Code: ilnpwire.CodeUnknownOption, Param: option + 1}, false},
		"next header of the options": {ilnpwire.ErrorMessage{Type: ilnpwire.TypeParameterProblem, Code: 1, Param: option}, false},
		"another error":              {ilnpwire.ErrorMessage{Type: ilnpwire.TypePacketTooBig, Code: ilnpwire.CodeUnknownOption, Param: option}, false},
		"what cannot be read":        {ilnpwire.ErrorMessage{Type: ilnpwire.TypeParameterProblem, Code: ilnpwire.CodeUnknownOption, Param: option, Quoted: []byte{1}}, false},
	} {
		if got := read(t, about(t, them, ilnp.Nonce{}, c.message)).AboutNonce(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestReadError: also one in UDP is read, and what is no error is not.
func TestReadError(t *testing.T) {
	packet := about(t, them, theirNonce, ilnpwire.ErrorMessage{Type: ilnpwire.TypePacketTooBig, Param: 1400})
	for _, b := range [][]byte{packet, built(t)(ilnpwire.Encapsulate(packet, host.UDPPort))} {
		x := read(t, b)
		if mtu, names := x.MTU(); !bytes.Equal(x.Packet, packet) || x.Src != them || x.Dst != us || x.Nonce != theirNonce || mtu != 1400 || !names {
			t.Errorf("%+v", x)
		}
	}
	if _, names := read(t, about(t, them, theirNonce, ilnpwire.ErrorMessage{Type: ilnpwire.TypeUnreachable})).MTU(); names {
		t.Error("another error names an MTU")
	}
	echo := built(t)(ilnpwire.BuildEcho(them, us, theirNonce, true, 1, 1, nil))
	for _, b := range [][]byte{nil, packet[:30], echo} {
		if _, err := host.ReadError(b); err == nil {
			t.Errorf("% x is read", b)
		}
	}
}

// TestErrorsOfOurs leave with our nonce, and without one if the session is plain IPv6;
// over the NIDs if the correspondent wants it so, and in UDP where options are dropped.
func TestErrorsOfOurs(t *testing.T) {
	theirs := built(t)(ilnpwire.BuildEcho(host.SessionAddr(peerNID), host.SessionAddr(ourNID), ilnp.Nonce{}, true, 1, 1, nil))
	ours := built(t)(ilnpwire.BuildError(host.SessionAddr(ourNID), host.SessionAddr(peerNID), ilnp.Nonce{},
		ilnpwire.ErrorMessage{Type: ilnpwire.TypeUnreachable, Code: 4, Quoted: theirs}))
	for name, c := range map[string]struct {
		state     ilnp.SessionState
		change    func(p *ilnp.Entry)
		nonce     ilnp.Nonce
		nids, udp bool
	}{
		"established": {ilnp.Established, func(*ilnp.Entry) {}, ourNonce, false, false},
		"initiated":   {ilnp.Initiated, func(*ilnp.Entry) {}, ourNonce, false, false},
		"plain":       {ilnp.Plain, func(p *ilnp.Entry) { p.ICMPRule = ilnp.RuleRFC6741 }, ilnp.Nonce{}, false, false},
		"over NIDs":   {ilnp.Established, func(p *ilnp.Entry) { p.ICMPRule = ilnp.RuleRFC6741 }, ourNonce, true, false},
		"in UDP":      {ilnp.Established, func(p *ilnp.Entry) { p.Encap = true }, ourNonce, false, true},
	} {
		p := entryIn(c.state)
		c.change(&p)
		b, err := host.ErrorOut(ours, p, p.Paths[0])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := ilnpwire.ParseControl(b, host.UDPPort)
		if err != nil || got.Src != us || got.Dst != them || got.Nonce != c.nonce || got.OverNIDs != c.nids || got.Encapsulated != c.udp {
			t.Errorf("%s: sent %+v, %v", name, got, err)
		}
		if _, err := host.ErrorOut(theirs, p, p.Paths[0]); err == nil {
			t.Errorf("%s: what is no error is translated", name)
		}
	}
}

// TestErrorsToAPendingPeer go to where its packet came from, with the nonce of all else
// that goes there.
func TestErrorsToAPendingPeer(t *testing.T) {
	theirs := built(t)(ilnpwire.BuildEcho(host.SessionAddr(peerNID), host.SessionAddr(ourNID), ilnp.Nonce{}, true, 1, 1, nil))
	ours := built(t)(ilnpwire.BuildError(host.SessionAddr(ourNID), host.SessionAddr(peerNID), ilnp.Nonce{},
		ilnpwire.ErrorMessage{Type: ilnpwire.TypeUnreachable, Code: 4, Quoted: theirs}))
	to := PendingAnswer{Key: theKey, Local: us, Remote: roam.ILV{NID: peerNID, L64: there + 1<<16}, OwnNonce: wrongNonce}
	for name, encap := range map[string]bool{"option": false, "UDP": true} {
		to.Encapsulated = encap
		b, err := host.ErrorToPending(ours, to)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ilnpwire.ParseControl(b, host.UDPPort)
		if err != nil || got.Src != us || got.Dst != to.Remote || got.Nonce != wrongNonce || got.Encapsulated != encap {
			t.Errorf("%s: sent %+v, %v", name, got, err)
		}
	}
	toUs := packetFrom(t, ip6.UDP, 1) // a sum over two addresses is that over them the other way round
	copy(toUs[8:], host.SessionAddr(peerNID).Addr().AsSlice())
	copy(toUs[24:], host.SessionAddr(ourNID).Addr().AsSlice())
	ours = built(t)(ilnpwire.BuildError(host.SessionAddr(ourNID), host.SessionAddr(peerNID), ilnp.Nonce{},
		ilnpwire.ErrorMessage{Type: ilnpwire.TypeUnreachable, Code: 4, Quoted: toUs}))
	to.Encapsulated = false
	for found, want := range map[ilnp.FoundRule]xlate.Rule{ilnp.FoundIPv6: xlate.RuleIPv6, ilnp.FoundRFC6741: xlate.RuleRFC6741} {
		to.Found = found
		x := read(t, built(t)(host.ErrorToPending(ours, to)))
		if rule, shown := xlate.ShownRule(x.Message.Quoted); !shown || rule != want {
			t.Errorf("found %v: quotes a packet by rule %v, %t", found, rule, shown)
		}
	}
	if _, err := host.ErrorToPending(theirs, to); err == nil {
		t.Error("what is no error is translated")
	}
}

// TestMadeErrors: what our stack is told in the name of the network.
func TestMadeErrors(t *testing.T) {
	tooBig := built(t)(host.TooBig(ilnp.TooBig{Key: theKey, MTU: 1280}))
	first := append(packetFrom(t, ip6.UDP, 1), make([]byte, 2000)...)
	nobody := built(t)(host.NoSuchNode(theKey, first))
	for name, c := range map[string]struct {
		packet    []byte
		typ, code uint8
		param     uint32
	}{"too big": {tooBig, ilnpwire.TypePacketTooBig, 0, 1280}, "no such node": {nobody, ilnpwire.TypeUnreachable, 3, 0}} {
		p, err := ilnpwire.ParsePacket(c.packet)
		if err != nil {
			t.Fatal(err)
		}
		m, err := ilnpwire.ParseError(p.Payload)
		if err != nil || m.Type != c.typ || m.Code != c.code || m.Param != c.param || p.Src != host.SessionAddr(peerNID) || p.Dst != host.SessionAddr(ourNID) {
			t.Errorf("%s: %+v in %+v, %v", name, m, p, err)
		}
		q, err := ilnpwire.ParseQuoted(m.Quoted)
		if err != nil || q.Src != host.SessionAddr(ourNID) || q.Dst != host.SessionAddr(peerNID) || len(c.packet) > 1280 {
			t.Errorf("%s: quotes %+v in %d bytes, %v", name, q, len(c.packet), err)
		}
	}
}
