package ilnp

import (
	"slices"
	"time"

	"roam"
)

// Anti-amplification (RFC 9000 §8): a bound on packets to a locator that is not
// validated. A node that names a locator, as a source or in a Locator Update, may name a
// victim's. So towards an address that only the other side named, this host sends at most
// three times the bytes that came from there and 100, and three times the packets and
// one. The programs use two of the three parts, for data and for answers to echo requests
// (bpf/ilnp/amplification.h); the third one and the rest are for packets of the core.
//
// An address that a file, the user or the DNS gave has the allowance of plain IPv6:
// 10 packets, then one per second, until a packet comes back.
const (
	allowedBytes   = 100
	allowedPackets = 1
	givenPackets   = 10
	givenEvery     = time.Second
	replyBytes     = 80 // of an answer to a token, at least
	maxAccounts    = 16384
	accountLife    = 10 * time.Minute
)

// Limits of probes to locators of a session that only its correspondent named: a burst,
// and the same number again per second. So at most twice the number leaves in a second.
const (
	probesPerSession = 4   // 8 a second
	probesPerSite    = 32  // 64 a second to one /48
	probesPerHost    = 500 // 1,000 a second
	maxSites         = 4096
)

// account counts the bytes and packets that have come from an address and those that the
// core has sent there, as on the wire, from the IPv6 header.
type account struct {
	rxBytes, rxPackets int
	ofSessions         []counted // besides: what the programs count of sessions
	txBytes, txPackets int
	given              bucket // of packets to an address that people named
	since              time.Time
	probed             time.Time // when a pending peer there was last probed
}

// came returns what has come from an address in all.
func (a *account) came() (bytes, packets int) {
	bytes, packets = a.rxBytes, a.rxPackets
	for _, c := range a.ofSessions {
		bytes, packets = bytes+c.bytes, packets+c.packets
	}
	return bytes, packets
}

// counted is what the programs have counted of a session at an address, since they began
// to count anew: they do so after countedFor.
type counted struct {
	key            SessionKey
	since          time.Time // of the first report
	bytes, packets int
}

const (
	countedFor = 5 * time.Second // ALLOWANCE_AFRESH of the programs
	maxCounted = 4               // sessions at one address
)

// countOf returns the present count of a session. Once that is over, it adds to what came
// before. It returns nil if too many other sessions count at this address.
func (a *account) countOf(now time.Time, key SessionKey) *counted {
	i := slices.IndexFunc(a.ofSessions, func(c counted) bool { return c.key == key })
	isOver := func(c counted) bool { return now.Sub(c.since) >= countedFor }
	if i < 0 && len(a.ofSessions) >= maxCounted {
		i = slices.IndexFunc(a.ofSessions, isOver)
	}
	switch {
	case i < 0 && len(a.ofSessions) >= maxCounted:
		return nil
	case i < 0:
		a.ofSessions, i = append(a.ofSessions, counted{key: key, since: now}), len(a.ofSessions)
	case isOver(a.ofSessions[i]):
		c := a.ofSessions[i]
		a.rxBytes, a.rxPackets = a.rxBytes+c.bytes, a.rxPackets+c.packets
		a.ofSessions[i] = counted{key: key, since: now}
	}
	return &a.ofSessions[i]
}

// accounts are those of all addresses that are not validated, the oldest first. A further
// one replaces the oldest: it could be a victim's, which gets one packet more for that.
type accounts struct {
	byAddr map[roam.ILV]*account
	order  []roam.ILV
	host   bucket
	sites  map[uint64]*bucket
}

// of returns the account of an address, a new one if it has none.
func (as *accounts) of(now time.Time, at roam.ILV) *account {
	if a := as.byAddr[at]; a != nil {
		return a
	}
	if as.byAddr == nil {
		as.byAddr, as.sites = make(map[roam.ILV]*account), make(map[uint64]*bucket)
	}
	for len(as.order) > 0 && (len(as.order) >= maxAccounts || now.Sub(as.byAddr[as.order[0]].since) > accountLife) {
		delete(as.byAddr, as.order[0])
		as.order = as.order[1:]
	}
	a := &account{since: now}
	as.byAddr[at], as.order = a, append(as.order, at)
	return a
}

// received counts bytes and packets that have come from an address.
func (as *accounts) received(now time.Time, at roam.ILV, bytes, packets int) {
	a := as.of(now, at)
	a.rxBytes, a.rxPackets = a.rxBytes+bytes, a.rxPackets+packets
}

// receivedInAll is received for counts of a session since the programs began to count.
// They add to what came before: else a node that forges an address in time could keep its
// owner from being probed there, and so could the owner's last visit to that network.
func (as *accounts) receivedInAll(now time.Time, key SessionKey, at roam.ILV, bytes, packets int) {
	if c := as.of(now, at).countOf(now, key); c != nil {
		c.bytes, c.packets = max(c.bytes, bytes), max(c.packets, packets)
	}
}

// answered counts an answer to a token as received from its address. Without that a set-up along a path that loses
// packets would use up what may go there, by probes, before its offer. It is no more: the programs of a node answer
// whoever asks, so the answer to a probe that a forged packet has caused must not lift the bound.
func (as *accounts) answered(now time.Time, at roam.ILV) { as.received(now, at, replyBytes, 1) }

// allows reports whether so many bytes may go to an address now, and counts them if so.
func (as *accounts) allows(now time.Time, at roam.ILV, bytes int, given bool) bool {
	a := as.of(now, at)
	rxBytes, rxPackets := a.came()
	within := a.txBytes+bytes <= rxBytes+allowedBytes && a.txPackets+1 <= rxPackets+allowedPackets
	if !within && !(given && a.given.take(now, givenPackets, givenEvery)) {
		return false
	}
	if within {
		a.txBytes, a.txPackets = a.txBytes+bytes, a.txPackets+1
	}
	return true
}

// probeLimits returns the limits of probes to a locator that only the correspondent of a
// session named.
func (as *accounts) probeLimits(s *session, l roam.L64) [3]limit {
	if as.sites == nil {
		as.sites = make(map[uint64]*bucket)
	}
	site := as.sites[siteOf(l)]
	if site == nil {
		if len(as.sites) >= maxSites {
			clear(as.sites) // the host's own limit still holds
		}
		site = &bucket{}
		as.sites[siteOf(l)] = site
	}
	return [3]limit{{&s.probeBucket, probesPerSession}, {site, probesPerSite}, {&as.host, probesPerHost}}
}

// siteOf returns the first 48 bits of a locator: one site, as addresses are assigned
// (RFC 6177).
func siteOf(l roam.L64) uint64 { return uint64(l) >> 16 }

// bucket is a token bucket; its zero value is full.
type bucket struct{ empty time.Time } // when it held no token, had it been used evenly

// has reports whether there is a token, where one is gained every d.
func (b *bucket) has(now time.Time, d time.Duration) bool { return now.Sub(b.empty) >= d }

// take takes a token, if there is one in a bucket of n that gains one every d.
func (b *bucket) take(now time.Time, n int, d time.Duration) bool {
	if !b.has(now, d) {
		return false
	}
	if full := now.Add(-time.Duration(n) * d); b.empty.Before(full) {
		b.empty = full
	}
	b.empty = b.empty.Add(d)
	return true
}

// limit is a bucket of n tokens that gains as many in a second.
type limit struct {
	*bucket
	n int
}

func (l limit) each() time.Duration { return time.Second / time.Duration(l.n) }

// mayReach reports whether so many bytes of the core may go to a locator of a
// session now, and counts them if so. A validated locator has no bound. Where listed, a
// record has the correspondent there: that bound counts, also if only another node
// announced the locator.
func (as *accounts) mayReach(now time.Time, s *session, l roam.L64, listed bool, bytes int, probe bool) bool {
	r := s.remotes.find(l)
	if r != nil && r.validated {
		return true
	}
	at := roam.ILV{NID: s.remoteNID, L64: l}
	given := r != nil && r.given || listed
	if given || !probe {
		return as.allows(now, at, bytes, given)
	}
	limits := as.probeLimits(s, l)
	for _, x := range limits {
		if !x.has(now, x.each()) {
			return false
		}
	}
	if !as.allows(now, at, bytes, false) {
		return false
	}
	for _, x := range limits {
		x.take(now, x.n, x.each())
	}
	return true
}
