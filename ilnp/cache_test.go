package ilnp

import (
	"slices"
	"testing"

	"roam"
)

// twoNodes returns a cache in which two nodes claim peerNID: one where the record has it,
// with the NID as its alias, and one at netQ, under an alias of its own.
func twoNodes() (ca cache, first, second *session) {
	ca = newCache()
	ca.known[peerNID] = &correspondent{nid: peerNID, locators: remotes{{l64: netP}}}
	for i, l := range []roam.L64{netP, netQ} {
		at := roam.ILV{NID: peerNID, L64: l}
		s := &session{localNID: ownNID, remoteNID: peerNID, state: Established, confirmed: true, remoteNonce: Nonce{Len: 4, Bytes: [12]byte{byte(i + 1)}}}
		s.key.Local = ownNID
		s.key.Remote, s.owned = ca.aliasFor(ownNID, at)
		s.remotes = remotes{{l64: l, validated: true}}
		ca.index(s)
		first, second = second, s
	}
	return ca, first, second
}

// TestCacheFindsTheNode: of two nodes with one NID, each is found by its alias, its nonce
// and the locator where it was validated, and only the one where the record has it owns
// the record.
func TestCacheFindsTheNode(t *testing.T) {
	ca, first, second := twoNodes()
	if first.key != theKey || !first.owned || second.key.Remote == peerNID || second.owned {
		t.Fatalf("aliases %v and %v, owned %v and %v", first.key, second.key, first.owned, second.owned)
	}
	for _, s := range []*session{first, second} {
		at := roam.ILV{NID: peerNID, L64: s.remotes[0].l64}
		if ca.sessionOf(s.key) != s || ca.byNonce(ownNID, peerNID, s.remoteNonce) != s || ca.predecessor(ownNID, at) != s || ca.sharesNonce(ownNID, at) != s {
			t.Errorf("%v is not found", s.key)
		}
		if (ca.recordOf(s) != nil) != s.owned || ca.lists(at) != s.owned || ca.isPlace(at) != s.owned {
			t.Errorf("%v and its record: %v", s.key, ca.recordOf(s))
		}
	}
	if ca.holder(ownNID, peerNID) != first || ca.byNonce(ownNID, peerNID, Nonce{}) != nil || ca.predecessor(ownNID, roam.ILV{NID: peerNID, L64: netR}) != nil {
		t.Error("a session is found by an absent nonce, or at a locator where none was validated")
	}
	if got := ca.between(ownNID, peerNID); !slices.IsSortedFunc(got, func(a, b *session) int { return compareKey(a.key, b.key) }) || len(got) != 2 {
		t.Errorf("%d sessions between the two NIDs, or not in order", len(got))
	}
}

// TestCacheMayList: a session takes no locator where another live node was validated.
func TestCacheMayList(t *testing.T) {
	ca, first, second := twoNodes()
	if ca.mayList(first, netQ) || !ca.mayList(second, netQ) || !ca.mayList(first, netR) {
		t.Error("a session may list another node's locator, or may not list a free one or its own")
	}
	if second.dead = true; !ca.mayList(first, netQ) {
		t.Error("the locator of a dead session stays taken")
	}
	if second.dead, second.confirmed = false, false; !ca.mayList(first, netQ) {
		t.Error("a nonce that no probe confirmed keeps a locator")
	}
}

// TestCacheAliases: a session that gets a name is found by both aliases, one that gets
// another alias by that one alone, and one that is removed by none.
func TestCacheAliases(t *testing.T) {
	ca, first, second := twoNodes()
	if ca.name(first) || first.alsoNamed {
		t.Error("a session gets the name twice")
	}
	ca.remove(first)
	if ca.holder(ownNID, peerNID) != nil || len(ca.between(ownNID, peerNID)) != 1 {
		t.Error("a removed session is still there")
	}
	if !ca.name(second) || ca.holder(ownNID, peerNID) != second || ca.sessionOf(second.key) != second {
		t.Error("a named session is not found by both aliases")
	}
	was, to := second.key, SessionKey{ownNID, ca.alias(ownNID, roam.ILV{NID: peerNID, L64: netR})}
	ca.rekey(second, to)
	if ca.sessionOf(was) != nil || ca.holder(ownNID, peerNID) != nil || ca.sessionOf(to) != second || second.alsoNamed {
		t.Error("a session keeps an alias that it had before")
	}
	ca.remove(second)
	if len(ca.sessions)+len(ca.second)+len(ca.byRemote) != 0 {
		t.Errorf("left behind: %d, %d, %d", len(ca.sessions), len(ca.second), len(ca.byRemote))
	}
}
