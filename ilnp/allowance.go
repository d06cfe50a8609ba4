package ilnp

import (
	"time"

	"roam"
)

// What may go to a locator that is not validated (RFC 9000 §8). Whoever names a
// locator, as a source or in a Locator Update, may name a victim's. So towards an
// address that only the other side named, all that leaves is at most three times
// what has come from there and 100 bytes, and three times the packets and one. The
// programs keep two of the three parts, for data and for answers to echo requests
// (bpf/lib/amplification.h); the third one and the rest are for what the core sends.
//
// An address that a file, the user or the DNS gave has what plain IPv6 has there:
// 10 packets, then one a second, until something comes back.
const (
	allowedBytes   = 100
	allowedPackets = 1
	givenPackets   = 10
	givenEvery     = time.Second
	maxAccounts    = 16384
	accountLife    = 10 * time.Minute
)

// Limits of probes to locators of a session that only its correspondent named: so
// many at once, and as many again in a second. So no second sees more than twice
// as many.
const (
	probesPerSession = 4   // 8 a second
	probesPerSite    = 32  // 64 a second to one /48
	probesPerHost    = 500 // 1,000 a second
	maxSites         = 4096
)

// account is what has come from an address and what the core has sent there, as on
// the wire, from the IPv6 header.
type account struct {
	rxBytes, rxPackets int
	txBytes, txPackets int
	given              bucket // what goes to an address that people named
	since              time.Time
	probed             time.Time // when a pending peer there was asked last
}

// accounts are those of all addresses that are not validated, the oldest first. The
// oldest one makes room for another: it could be a victim's, which gets one packet
// more for it.
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

// received counts what has come from an address.
func (as *accounts) received(now time.Time, at roam.ILV, bytes, packets int) {
	a := as.of(now, at)
	a.rxBytes, a.rxPackets = a.rxBytes+bytes, a.rxPackets+packets
}

// receivedInAll is received for counts since the beginning.
func (as *accounts) receivedInAll(now time.Time, at roam.ILV, bytes, packets int) {
	a := as.of(now, at)
	a.rxBytes, a.rxPackets = max(a.rxBytes, bytes), max(a.rxPackets, packets)
}

// allows reports whether so many bytes may go to an address now, and counts them if so.
func (as *accounts) allows(now time.Time, at roam.ILV, bytes int, given bool) bool {
	a := as.of(now, at)
	within := a.txBytes+bytes <= a.rxBytes+allowedBytes && a.txPackets+1 <= a.rxPackets+allowedPackets
	if !within && !(given && a.given.take(now, givenPackets, givenEvery)) {
		return false
	}
	if within {
		a.txBytes, a.txPackets = a.txBytes+bytes, a.txPackets+1
	}
	return true
}

// probeLimits returns what bounds the probes to a locator that only the
// correspondent of a session named.
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
// session now, and counts them if so. Where its correspondent was validated
// everything may.
func (c *node) mayReach(now time.Time, s *session, l roam.L64, bytes int, probe bool) bool {
	r := s.remotes.find(l)
	if r != nil && r.validated {
		return true
	}
	at := roam.ILV{NID: s.remoteNID, L64: l}
	given := r != nil && r.given || c.lists(at) // it is the owner's, whoever else announced it
	if given || !probe {
		return c.accounts.allows(now, at, bytes, given)
	}
	limits := c.accounts.probeLimits(s, l)
	for _, x := range limits {
		if !x.has(now, x.each()) {
			return false
		}
	}
	if !c.accounts.allows(now, at, bytes, false) {
		return false
	}
	for _, x := range limits {
		x.take(now, x.n, x.each())
	}
	return true
}
