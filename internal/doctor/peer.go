package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"roam"
	"roam/internal/control"
)

const doOptions = "see that Roam runs there (`roam` on it); if it does, a firewall on the way drops destination " +
	"options: docs/firewall.md"

// lookPeer checks one correspondent.
func lookPeer(e *examination, f Facts) {
	p := f.Peer
	if p.Session == nil {
		e.add(Fault, "peer", "run `roam export` on it and `roam add LINE` here", "no peer is called %s; known: %s",
			p.Word, orNone(strings.Join(p.KnownPeers, ", ")))
		return
	}
	lookIdentity(e, p)
	lookKey(e, p)
	lookResolved(e, p)
	if lookObstructed(e, p) {
		return // policies leave no path to probe
	}
	if p.Probed == nil {
		if p.ProbeErr != "" {
			e.add(Fault, "session", "", "its paths cannot be probed: %s", p.ProbeErr)
		}
		return
	}
	if p.Probed.Refused.Why != "" {
		lookRefusedPlain(e, p.Word, p.Probed.Refused)
		lookRefused(e, p)
		return
	}
	if p.Probed.State == control.StatePlain {
		lookPlain(e, f)
		return
	}
	lookPaths(e, p)
	lookWays(e, p)
	lookForm(e, p)
	lookUpdates(e, p)
	lookRefused(e, p)
	if p.PathMTU > 0 && p.PathMTU < minimumMTU+16 {
		e.add(Warning, "mtu", "", "the path carries packets of at most %d bytes: full-sized packets cannot carry the nonce",
			p.PathMTU)
	}
}

func lookIdentity(e *examination, p *PeerFacts) {
	s := p.Session
	var at []string
	for _, l := range s.Locators {
		at = append(at, l.L64.Prefix().String())
	}
	if len(at) == 0 {
		e.add(Fault, "peer", "run `roam export` on it and `roam add LINE` here", "%s is %v, and no locator of it is known",
			p.Word, s.NID)
		return
	}
	e.ok("peer", "%s is %v, at %s", p.Word, s.NID, strings.Join(at, ", "))
}

// lookKey checks that both ends of a keyed session have the other's key, and nobody else.
func lookKey(e *examination, p *PeerFacts) {
	if at := p.Session.KeyCopy; len(at) > 0 {
		addKeyCopy(e, p.Word, at)
	}
	switch line := p.Export; {
	case p.Session.LacksKey && line == "":
		line = "LINE"
		fallthrough
	case p.Session.LacksKey:
		e.add(Warning, "key", "run there: `roam add '"+line+"'`", "a Locator Update of %s had no MAC and was refused, as "+
			"its key is known here: either it does not have this host's key, and its moves are not followed, or somebody "+
			"on the path forges them", p.Word)
	case p.Session.Proof == "keyed":
		e.ok("key", "sessions with %s are keyed: its Locator Updates need a MAC", p.Word)
	}
}

// addKeyCopy reports that two hosts have proven the key of a peer, the newer one first.
func addKeyCopy(e *examination, peer string, at []roam.L64) {
	e.add(Fault, "key", "if you have copied its state directory, remove `key` and `nid` there on one of both, run "+
		"`roam key new` and add its new line here; else its key was stolen: `roam remove "+peer+"`, and see the "+
		"how-to about keys", "two hosts have proven the key of %s: one at %s, and %s where its session is; each "+
		"works, the newer one under an alias",
		peer, at[0], places(at[1:]))
}

// places lists locators.
func places(list []roam.L64) string {
	words := make([]string, len(list))
	for i, l := range list {
		words[i] = l.String()
	}
	return strings.Join(words, ", ")
}

// lookRefusedPlain reports that this host does not talk to a peer, as plain IPv6 is all that works.
func lookRefusedPlain(e *examination, peer string, r control.PlainRefusal) {
	switch r.Why {
	case "":
		return
	case control.WhyNoProof:
		e.add(Fault, "key", "see that the path lets option 0x1E pass: a node on it may want you to do without the key. "+
			"Run `roam key show` on it: if it has no key, or another one than before, add the lines of both hosts "+
			"anew; if its version has no keys: `"+r.Allow+"`", "connections to %s fail: it answers, and does not "+
			"prove that it has its key", peer)
		return
	}
	e.add(Fault, "key", "see that Roam runs there and knows this host, and that the path lets its options pass; if plain "+
		"IPv6 will do: `"+r.Allow+"`", "connections to %s fail: there is no ILNP with it (%s), and plain IPv6 is not used, "+
		"as its key is known", peer, r.Why)
}

// lookResolved compares the addresses that applications get with the right ones.
func lookResolved(e *examination, p *PeerFacts) {
	switch {
	case !p.Asked:
	case slices.Contains(p.Resolved, p.Session.Address):
		e.ok("names", "applications find it as %s", p.Session.Address)
	case len(p.Resolved) == 0:
		e.add(Warning, "names", "see the findings about names above; ssh and the like can use the address "+
			p.Session.Address.String(), "the system's resolver does not know %s", p.Word)
	default:
		e.add(Warning, "names", "see the findings about names above", "the system's resolver says that %s is %s, not the "+
			"session address %s: sessions by that name may not move", p.Word, addresses(p.Resolved), p.Session.Address)
	}
}

func addresses(list []netip.Addr) string {
	var s []string
	for _, a := range list {
		s = append(s, a.String())
	}
	return strings.Join(s, ", ")
}

// lookPlain says why a session is plain IPv6: the peer has no ILNP, the path drops an
// option, or no node answers.
func lookPlain(e *examination, f Facts) {
	p := f.Peer
	echoed := p.Probed.Echo != nil && p.Probed.Echo.Answered
	again := fmt.Sprintf("start Roam there; Roam probes it again within %v, or at once after `roam down` and `roam up`",
		f.Config.ILNP.FallbackLifetime)
	switch why := p.Probed.WhyPlain; {
	case why == control.WhyNoILNP || why == control.WhyRemembered && !echoed:
		e.add(Fault, "session", missingHalf(p, again), "%s has no ILNP, or does not know this host: it answered the nonce with an ICMPv6 Parameter Problem; sessions with it are plain IPv6 and do not move", p.Word)
	case why == control.WhyNoProof:
		e.add(Fault, "session", "run `roam key show` on it, and see that the path lets option 0x1E pass; if its "+
			"version has no keys, add its line with key=optional", "%s has ILNP and does not prove that it has its "+
			"key: sessions with it are plain IPv6, and TCP does not work, as it answers with a nonce", p.Word)
	case echoed || why == control.WhyNoNonce:
		e.add(Fault, "session", doOptions, "%s answers%s, but nothing that carries a nonce: either it has no ILNP and "+
			"says nothing, or the path drops IPv6 destination options (option 0x8B); sessions with it are plain IPv6 "+
			"and do not move", p.Word, echoTime(p.Probed.Echo))
	default:
		e.add(Fault, "session", "see that it is up and still has these addresses (`roam` on it), and that a firewall lets "+
			"echo requests pass", "%s does not answer at all, with a nonce or without", p.Word)
	}
}

func echoTime(x *control.PlainEcho) string {
	if x == nil || !x.Answered {
		return ""
	}
	return fmt.Sprintf(" an ordinary ping (%.1f ms)", x.RTTMS)
}

// lookPaths reports the results of the probes.
func lookPaths(e *examination, p *PeerFacts) {
	var silent []string
	answered := 0
	for _, path := range p.Probed.Paths {
		if !passed(path) {
			silent = append(silent, pathText(path.Path))
			continue
		}
		answered++
		e.ok("path", "%s answers in %.1f ms", pathText(path.Path), path.RTTMS)
	}
	switch {
	case len(p.Probed.Paths) == 0:
		e.add(Fault, "path", "see the findings about uplinks above",
			"there is no path to %s: this host has no locator to send from", p.Word)
	case answered == 0:
		e.add(Fault, "path", "see that it is up (`roam` on it) and that the networks on the way let ICMPv6 echo requests "+
			"with destination options pass: docs/firewall.md", "no path to %s answers: tried %s", p.Word,
			strings.Join(silent, "; "))
	default:
		for _, s := range silent {
			e.add(Warning, "path", "the others are used meanwhile; look at that link's router, and for a firewall that lets "+
				"only answers in: docs/howto/paths.md", "%s does not answer", s)
		}
	}
	if answered > 0 {
		e.ok("session", "the session is %s", p.Probed.State)
	}
}

func pathText(p control.Path) string {
	return fmt.Sprintf("%s %s > %s", p.Link, p.Local.Prefix(), p.Remote.Prefix())
}

// lookForm reports that the correspondent runs another stack, by the forms it uses.
func lookForm(e *examination, p *PeerFacts) {
	if p.Session.Checksum == control.ChecksumRFC6741 {
		e.add(Note, "form", "", "checksums follow RFC 6741, with locators as zero: middleboxes that verify or rewrite TCP and UDP checksums will refuse these packets")
	}
	switch p.Session.UpdateForm {
	case "draft":
		e.add(Note, "form", "", "Locator Updates to it have the draft's form, not that of RFC 6743")
	case "linux":
		e.add(Note, "form", "", "Locator Updates to it have the form of a Linux kernel with ILNP, not that of RFC 6743")
	}
	if e.clean("form") {
		e.ok("form", "checksums are those of IPv6, Locator Updates those of RFC 6743")
	}
}

// lookRefused reports the correspondent's packets that this host refused: those with keys one by one, as each has its
// remedy.
func lookRefused(e *examination, p *PeerFacts) {
	var reasons, seen []string
	for _, ev := range p.History {
		if ev.Kind != control.KindRefused || slices.Contains(seen, ev.Reason) {
			continue
		}
		seen = append(seen, ev.Reason)
		if do := control.RefusalHint(ev.Reason); do != "" {
			e.add(Note, "refused", do, "input in its name was refused: %s", ev.Reason)
			continue
		}
		reasons = append(reasons, ev.Reason)
	}
	if len(reasons) > 0 {
		e.add(Note, "refused", "", "input in its name was refused: %s; it may have been forged", strings.Join(reasons, ", "))
	}
}
