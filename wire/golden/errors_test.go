package golden_test

import (
	"testing"

	"roam"
	"roam/wire/golden"
	"roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// router is a node on the path.
var router = roam.ILV{L64: 0x2001_0db8_0001_000a, NID: 1}

// ends returns the addresses of a packet.
func ends(c ip6.Chain) (src, dst roam.ILV) {
	return roam.ILVFromAddr(c.Header.Src), roam.ILVFromAddr(c.Header.Dst)
}

// errorCases are ICMPv6 errors, in both directions.
func errorCases(t *testing.T) []named {
	t.Helper()
	e := entry()
	// A full-size segment of ours as it stood on the wire, and a datagram of the
	// correspondent as our stack received it.
	ours := packet(t, session(e, true), session(e, false), nil, ip6.TCP, tcp(flagPSH, ackOptions, text(1400)), true)
	theirs := packet(t, session(e, false), session(e, true), nil, ip6.UDP, udp(text(1232)), true)
	sent, err := xlate.Outward(ours, e)
	if err != nil {
		t.Fatal(err)
	}
	in := func(name, description string, src roam.ILV, n ilnp.Nonce, m ilnp.ErrorMessage) named {
		m.Quoted = sent
		b, err := ilnp.BuildError(src, wire(e, true), n, m)
		if err != nil {
			t.Fatal(err)
		}
		return finish(t, name, golden.Case{Description: description, Direction: golden.ErrorInward, Entry: e, Wire: b})
	}
	out := func(name, description string, m ilnp.ErrorMessage) named {
		m.Quoted = theirs
		b, err := ilnp.BuildError(session(e, true), session(e, false), ilnp.Nonce{}, m)
		if err != nil {
			t.Fatal(err)
		}
		return finish(t, name, golden.Case{Description: description, Direction: golden.ErrorOutward, Entry: e, Session: b})
	}
	overNIDs := e
	overNIDs.ICMPRule = xlate.RuleRFC6741
	refusal := ilnp.ErrorMessage{Type: ilnp.TypeUnreachable, Code: 4, Quoted: sent}
	summed, err := ilnp.BuildError(wire(e, false), wire(e, true), e.Nonce, refusal)
	if err == nil {
		err = ilnp.FinishOverNIDs(summed)
	}
	if err != nil {
		t.Fatal(err)
	}
	refusal.Quoted = theirs
	own, err := ilnp.BuildError(session(e, true), session(e, false), ilnp.Nonce{}, refusal)
	if err != nil {
		t.Fatal(err)
	}
	return []named{
		finish(t, "error-port-rfc6741", golden.Case{Description: "Port Unreachable of the correspondent, summed over NIDs",
			Direction: golden.ErrorInward, Entry: overNIDs, Wire: summed}),
		finish(t, "error-out-port-rfc6741",
			golden.Case{Description: "Port Unreachable of our own stack to one that wants it over NIDs",
				Direction: golden.ErrorOutward, Entry: overNIDs, Session: own}),
		in("error-too-big", "Packet Too Big of a router: MTU lowered by the nonce", router, ilnp.Nonce{},
			ilnp.ErrorMessage{Type: ilnp.TypePacketTooBig, Param: 1400}),
		in("error-time-exceeded", "Time Exceeded of a router: its address stays", router, ilnp.Nonce{},
			ilnp.ErrorMessage{Type: ilnp.TypeTimeExceeded}),
		in("error-port", "Port Unreachable of the correspondent, with its nonce", wire(e, false), e.Nonce,
			ilnp.ErrorMessage{Type: ilnp.TypeUnreachable, Code: 4}),
		in("error-option", "Parameter Problem: the pointer meant the nonce", wire(e, false), ilnp.Nonce{},
			ilnp.ErrorMessage{Type: ilnp.TypeParameterProblem, Code: ilnp.CodeUnknownOption, Param: 42}),
		out("error-out-port", "Port Unreachable of our own stack, cut to 1280 bytes",
			ilnp.ErrorMessage{Type: ilnp.TypeUnreachable, Code: 4}),
	}
}

// finish lets the model make the other side of a case.
func finish(t *testing.T, name string, c golden.Case) named {
	t.Helper()
	out, err := c.Translate()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if c.Direction == golden.ErrorInward {
		c.Session = out
	} else {
		c.Wire = out
	}
	return named{name, c}
}
