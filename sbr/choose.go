package sbr

import "roam"

// Member is a locator of a group and its weight among the others.
type Member struct {
	L64    roam.L64
	Weight uint32
}

// Weights returns the shares of locators by their precedence: that of one is (S - Prec) of
// (N-1) S, where S is the sum of the N precedences. For two locators these are the paper's:
// 50 and 50 halve, 20 and 80 give 80 % to the first. For more the paper's shares add up to
// N-1, so they are divided by that.
func Weights(group []Entry) []Member {
	sum, list := uint32(0), make([]Member, len(group))
	for _, e := range group {
		sum += uint32(e.Prec)
	}
	for i, e := range group {
		list[i] = Member{L64: e.L64, Weight: sum - uint32(e.Prec)}
		if sum == 0 || len(group) == 1 {
			list[i].Weight = 1
		}
	}
	return list
}

// Chooser divides packets among the members of a group by their weights. After any number
// of packets the share of a member differs from its weight by less than one packet of each
// other member. It counts packets, not bytes, as the paper does. A member that comes anew
// gets its share from then on, and nothing for the time before. bpf/sbr/choose.h does the
// same on each processor.
type Chooser struct{ credit [MaxGroup]int64 }

// Choose returns the index of the member for the next packet. members is not empty.
func (c *Chooser) Choose(members []Member) int {
	best, total := 0, int64(0)
	for i, m := range members {
		c.credit[i] += int64(m.Weight)
		total += int64(m.Weight)
		if c.credit[i] > c.credit[best] {
			best = i
		}
	}
	c.credit[best] -= total
	return best
}

// Reset forgets what was sent. A group that changes begins anew.
func (c *Chooser) Reset() { *c = Chooser{} }

// OfConnection returns the index of the member that all packets of a TCP connection take.
// Where all weights are equal it is the one that the correspondent chooses, too
// (bpf/ilnp/flow.h): the greatest hash of both locators and both ports. Else each member
// has as many connections as its weight says. remote is the locator of the other end.
func OfConnection(members []Member, remote roam.L64, a, b uint16) int {
	ports := uint32(a)*uint32(b) + uint32(a^b)
	equal, total := true, uint64(0)
	for _, m := range members {
		equal = equal && m.Weight == members[0].Weight
		total += uint64(m.Weight)
	}
	if !equal {
		at := uint64(mix(0, remote, ports)) * total >> 27
		for i, m := range members {
			if at < uint64(m.Weight) {
				return i
			}
			at -= uint64(m.Weight)
		}
	}
	best, greatest := 0, uint32(0)
	for i, m := range members {
		if w := mix(m.L64, remote, ports); i == 0 || w > greatest {
			best, greatest = i, w
		}
	}
	return best
}

// mix hashes two locators and the ports of a connection to 27 bits.
func mix(a, b roam.L64, ports uint32) uint32 {
	x := uint64(a^b) + uint64(ports)
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return uint32(x >> 37)
}
