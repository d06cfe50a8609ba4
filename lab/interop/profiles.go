package interop

import (
	"slices"
	"time"
)

// Profile is a stack with a name.
type Profile struct {
	Name  string
	About string // a description with its sources
	Stack Stack
	// Disabled is the stack of such a host with ILNP disabled.
	Disabled Stack
}

// The stacks of Roam's interoperability tests. If a behavior was never seen on the wire,
// About names its source.
var (
	RFC = newProfile("rfc", "RFC 6740 to 6744 to the letter: nonces in the first packets, checksums over NIDs for TCP "+
		"and UDP and ordinary ones for ICMPv6, Locator Updates of 12-byte entries",
		Stack{NIDChecksums: true, ServesPlain: true, PortUnreachable: true})

	Draft = newProfile("draft", "the Linux 4.9 of the thesis on duality, as the thesis describes it: Locator Updates of "+
		"the draft form (code 7), every packet with its nonce; never run here",
		Stack{
			NonceAlways: true, NIDChecksums: true, DraftUpdates: true, KnownSource: true, AckToNewest: true, FirstPingLost: true,
			ServesPlain: true, PortUnreachable: true,
		})

	Linux2019 = linux("linux-2019", "the public Linux kernel of the University of St Andrews, state of 2019, as runs "+
		"showed it: echo, Locator Updates and acknowledgements under checksums over NIDs only", false)

	Linux2020 = linux("linux-2020", "the same kernel, state of January 2020, as runs showed it: takes ordinary control "+
		"messages too, and answers such an echo in kind", true)

	// FreeBSD2019 is not known from any run. According to the dissertation on multihoming
	// (FreeBSD 8.4, UDP and ICMPv6 only) every packet carries the nonce, and checksums
	// cover the addresses on the wire; its public code shows that one nonce serves both
	// directions, and that a Locator Update replaces the whole set. No source says how it
	// acknowledges; here it does as RFC 6743 says.
	FreeBSD2019 = newProfile("freebsd-2019", "the FreeBSD of the dissertation on multihoming, from its text and what is "+
		"known of its public code, never run here: one nonce for both directions in every packet, ordinary checksums; "+
		"acknowledgements and TCP are assumed to follow the RFCs",
		Stack{OneNonce: true, NonceSent: true, ServesPlain: true, PortUnreachable: true})

	NoEcho = newProfile("no-echo", "the rfc profile behind a filter that drops echo requests and ICMPv6 errors",
		Stack{NIDChecksums: true, ServesPlain: true, NoEchoAnswer: true})
)

// linux is the public Linux kernel. With ILNP disabled it still answers ILNP, and opens
// plain connections.
func linux(name, about string, ordinaryControl bool) Profile {
	p := newProfile(name, about, Stack{
		NonceAlways: true, NIDChecksums: true, ControlOverNIDs: true, OrdinaryControlToo: ordinaryControl,
		Code0Entries16LE: true, KnownSource: true, UnknownSourceDropped: true, OneLocator: true,
		ServesPlain: true, PlainUDPReplies: true, PlainSYNACKOverNIDs: true,
		RenewAfter: 30 * time.Second, PortUnreachable: true,
	})
	p.Disabled = p.Stack
	p.Disabled.BeginsPlain = true
	return p
}

func newProfile(name, about string, s Stack) Profile {
	return Profile{name, about, s, s.disabled()}
}

// Profiles lists all of them.
func Profiles() []Profile {
	return []Profile{RFC, Draft, Linux2019, Linux2020, FreeBSD2019, NoEcho}
}

// ProfileNames lists their names.
func ProfileNames() (names []string) {
	for _, p := range Profiles() {
		names = append(names, p.Name)
	}
	return names
}

// FindProfile returns the profile of that name.
func FindProfile(name string) (Profile, bool) {
	i := slices.IndexFunc(Profiles(), func(p Profile) bool { return p.Name == name })
	if i < 0 {
		return Profile{}, false
	}
	return Profiles()[i], true
}
