package doctor

import (
	"fmt"
	"slices"

	"roam/internal/control"
)

const doPaths = "docs/howto/paths.md"

// passed reports whether any probe of a path was answered.
func passed(p control.ProbedPath) bool { return p.Answered || p.UDP || p.Padded || p.Full }

// lookWays finds the packets that the network on a working path drops: each path is probed
// in several forms, and the answered ones reveal the reason.
func lookWays(e *examination, p *PeerFacts) {
	for _, path := range p.Probed.Paths {
		if !passed(path) {
			continue
		}
		lookForms(e, p, path)
		lookSize(e, p, path)
		if path.Relabelled {
			e.add(Note, "label", "", "%s: a router on the way rewrites the flow label; Roam does not rely on it, and routers "+
				"that spread load by it may send one flow over several paths", pathText(path.Path))
		}
	}
	lookOneWay(e, p)
	if p.Session.Spread == "flow" {
		e.add(Note, "path", "nothing has to be done; UDP and different connections use all paths: "+doPaths,
			"TCP with %s stalled although each path works: a firewall on one of them tracks connections, so each connection "+
				"keeps to one path", p.Word)
	}
	if p.Session.Spread == "length" {
		e.add(Note, "path", "nothing has to be done: "+doPaths, "some paths to %s take more than twice as long as others: "+
			"TCP uses the short ones only, since it mistakes late packets for lost ones; UDP uses all", p.Word)
	}
	if n := p.Probed.Opened; n > 0 {
		e.add(Note, "path", "nothing has to be done; on a router of yours `sysctl "+
			"net.netfilter.nf_conntrack_tcp_be_liberal=1` saves the pause: docs/firewall.md", "%d times a TCP connection with "+
			"%s stalled after a move until the session resynced conntrack on the path: a firewall there had lost the connection", n,
			p.Word)
	}
}

// lookForms compares the probes of the RFCs with those encapsulated in UDP.
func lookForms(e *examination, p *PeerFacts, path control.ProbedPath) {
	const udp = "Locator Updates and probes go in UDP, and data without the nonce"
	switch {
	case path.Answered && path.Bytes != 0 && !path.UDP:
		e.add(Note, "path", "let UDP to that port pass at both ends, or ignore it: "+doPaths,
			"%s: echoes with the option are answered, those in UDP are not: %s has another ilnp.udp_port or another stack, or "+
				"a firewall drops UDP; nothing needs it here", pathText(path.Path), p.Word)
	case path.Answered:
	case path.Padded:
		e.add(Warning, "path", "let ICMPv6 pass (RFC 4890 says which types); or leave it so: "+doPaths,
			"%s: ICMPv6 is dropped, destination options are not: %s; Packet Too Big may be lost too", pathText(path.Path), udp)
	case path.UDP:
		e.add(Warning, "path", "nothing has to be done; to have it otherwise let option 0x8B pass: "+doPaths,
			"%s: packets with destination options are dropped: %s; a packet sent right after a move may be lost until the "+
				"update has come", pathText(path.Path), udp)
	}
}

// lookSize reports a path with a smaller MTU than its link.
func lookSize(e *examination, p *PeerFacts, path control.ProbedPath) {
	if path.Bytes == 0 || path.Full || !path.UDP {
		return
	}
	// Our own stack reports a local error for a missing router in the same way.
	narrowed := slices.ContainsFunc(p.History, func(e control.Event) bool {
		return e.Kind == control.KindPathNarrowed && e.Path != nil && *e.Path == path.Path
	})
	if !narrowed && (p.PathMTU > 0 && p.PathMTU < path.Bytes || p.Probed.TooBig > 0) {
		e.add(Note, "mtu", "", "%s: packets of %d bytes are too big, and a router says so (%d pass): senders adapt",
			pathText(path.Path), path.Bytes, leastOf(p.PathMTU, p.Probed.TooBig))
		return
	}
	e.add(Warning, "mtu", fmt.Sprintf("`ip link set %s mtu 1280`, or find the router that drops Packet Too Big: %s",
		path.Link, doPaths), "%s: packets of %d bytes vanish, smaller ones pass, and no Packet Too Big arrives: a black "+
		"hole; Roam keeps TCP and UDP to 1280 bytes there", pathText(path.Path), path.Bytes)
}

// leastOf returns the lesser of two sizes; 0 means unknown.
func leastOf(a, b int) int {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// lookOneWay reports a path that answers no probe although the correspondent's packets
// arrive on it, as far as this end can know.
func lookOneWay(e *examination, p *PeerFacts) {
	s := p.Session
	if s.InUse == nil || s.RxPackets == 0 {
		return
	}
	i := slices.IndexFunc(p.Probed.Paths, func(f control.ProbedPath) bool { return f.Path == *s.InUse })
	if i < 0 || passed(p.Probed.Paths[i]) || !slices.ContainsFunc(p.Probed.Paths, passed) {
		return
	}
	e.add(Note, "path", doPaths, "%s was in use and answers nothing, others do: one of its directions is lost, or a "+
		"firewall there lets only answers in", pathText(*s.InUse))
}

// lookUpdates reports that Locator Updates of the session are not acknowledged although
// probes are answered, or are acknowledged only in UDP.
func lookUpdates(e *examination, p *PeerFacts) {
	last, encap := "", false
	for _, ev := range p.History {
		switch {
		case ev.Time.Before(p.Session.Since): // of an earlier session, in which the peer may have been off
		case ev.Kind == control.KindSessionStarted, ev.Kind == control.KindSessionReplaced:
			last, encap = "", false
		case ev.Kind == control.KindUpdateAcked, ev.Kind == control.KindUpdateFailed:
			last, encap = ev.Kind, ev.Encapsulated
		}
	}
	whole := slices.ContainsFunc(p.Probed.Paths, func(f control.ProbedPath) bool { return f.Answered })
	switch {
	case last == control.KindUpdateFailed:
		e.add(Fault, "updates",
			"let ICMPv6 type 156, or UDP port ilnp.udp_port, pass on the way and at both ends: docs/firewall.md",
			"%s does not acknowledge Locator Updates, and answers probes: something drops ICMPv6 type 156", p.Word)
	case encap && whole:
		e.add(Warning, "updates", "let ICMPv6 type 156 pass on the way and at both ends: docs/firewall.md; or leave it so",
			"the last Locator Update was acknowledged in UDP only, and echoes pass: something drops ICMPv6 type 156; each "+
				"move is acknowledged only after a retransmission")
	case encap:
		e.ok("updates", "it acknowledged the last Locator Update, in UDP")
	case last != "":
		e.ok("updates", "it acknowledged the last Locator Update")
	}
}
