package acceptance

import (
	"math/rand/v2"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	ilnpwire "roam/wire/ilnp"
)

// Bounds of what goes to an address that only the other side named (RFC 9000 §8),
// as on the wire.
const (
	amplifyFactor  = 3
	amplifyBytes   = 100
	amplifyPackets = 1
	probeBytes     = 100 // of the one probe to a locator that a Locator Update named
	perSession     = 8   // probes a second
	perSite        = 64  // to one /48
	perHost        = 1000
)

// watched is how long after an attack its victims are watched: the repetitions of
// probes and of segments come with growing pauses.
const watched = 8 * time.Second

// amplified sums up what became of the victims of one attack.
type amplified struct {
	victims, beyond        int
	sent, came             tally
	worstPackets, worstLen float64 // of one victim, in multiples of what it sent
}

func (m *amplified) add(came, sent tally) {
	m.victims++
	if came.bytes > amplifyFactor*sent.bytes+amplifyBytes || came.packets > amplifyFactor*sent.packets+amplifyPackets {
		m.beyond++
	}
	m.sent.packets, m.sent.bytes = m.sent.packets+sent.packets, m.sent.bytes+sent.bytes
	m.came.packets, m.came.bytes = m.came.packets+came.packets, m.came.bytes+came.bytes
	m.worstPackets = max(m.worstPackets, float64(came.packets)/float64(sent.packets))
	m.worstLen = max(m.worstLen, float64(came.bytes)/float64(sent.bytes))
}

// TestAmplifySpoofed sends first packets under the identifier of a known correspondent from
// thousands of addresses of uninvolved hosts.
func TestAmplifySpoofed(t *testing.T) {
	w := newWorld(t, "spoofed", 0, place{"b", 1, true}, place{"a", 1, false})
	w.newHost("a", settings{accept: "known", hosts: w.hostsFile("b")}).start()
	w.echo(t, "a", claimPort)
	a, s := roam.ILVFromAddr(w.wire("a", 1)), w.stage(t)
	const each, mixes = 2000, 1000
	kinds := []string{"ping", "udp", "syn", "update"}
	victim := func(group, i int) roam.ILV {
		return roam.ILV{L64: firstOffPath + roam.L64(group)<<24 + roam.L64(i), NID: w.nid("b")}
	}
	s.flood(2500, each*len(kinds), func(i int) []byte {
		k, n := i%len(kinds), i/len(kinds)
		return first(kinds[k], victim(k, n), a, nonceOf(i))
	})
	// Any packets in any order, with one nonce or several.
	random := rand.New(rand.NewPCG(6740, 13))
	s.flood(2500, mixes*4, func(i int) []byte {
		n := random.IntN(mixes)
		return first(kinds[random.IntN(len(kinds))], victim(len(kinds), n), a, nonceOf(each*len(kinds)+2*n+random.IntN(2)))
	})
	s.quiet(watched, watched)
	for group, kind := range append(kinds, "mixed") {
		var m amplified
		for i := range each {
			if came, sent := s.to(victim(group, i).Addr()); sent.packets > 0 {
				m.add(came, sent)
			}
		}
		t.Logf("%s: %d victims: %d packets, %d bytes sent, %d and %d came: %.1f and %.1f times; one victim at worst %.1f "+
			"and %.1f times",
			kind, m.victims, m.sent.packets, m.sent.bytes, m.came.packets, m.came.bytes,
			float64(m.came.packets)/float64(m.sent.packets), float64(m.came.bytes)/float64(m.sent.bytes),
			m.worstPackets, m.worstLen)
		if m.beyond > 0 {
			t.Errorf("%s: %d of %d victims had more than 3 times what came from them", kind, m.beyond, m.victims)
		}
	}
}

// liars are scripted correspondents with sessions, who list addresses of others.
type liars struct {
	s     *stage
	a     roam.ILV
	count int
}

const foreignEach = 8

func (l liars) own(i int) roam.ILV {
	return roam.ILV{L64: firstOffPath + roam.L64(i)<<16, NID: 0x1000_0000_d000_0000 + roam.NID(i)}
}

// foreign is in one of sixteen sites.
func (l liars) foreign(i, k int) roam.ILV {
	n := i*foreignEach + k
	return roam.ILV{L64: firstOffPath + roam.L64(0x800+n%16)<<16 + roam.L64(n+1), NID: l.own(i).NID}
}

// open has them all open sessions, and waits until they have them.
func (l liars) open(t *testing.T, n *host) {
	t.Helper()
	for i := range l.count {
		l.s.answers(l.own(i), nonceOf(i))
	}
	l.s.flood(500, l.count, func(i int) []byte { return first("ping", l.own(i), l.a, nonceOf(i)) })
	testutil.Eventually(t, patience, func() bool {
		have, _ := n.Established(n.w.top.Context())
		return have >= l.count
	}, "sessions of all scripted correspondents")
}

// update lists foreign locators before its own one, which every second leaves out.
func (l liars) update(i int) []byte {
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement}
	for k := range foreignEach {
		lu.Locators = append(lu.Locators, entry(l.foreign(i, k).L64, 5, 600))
	}
	if i%2 == 0 {
		lu.Locators = append(lu.Locators, entry(l.own(i).L64, 10, 600))
	}
	b, err := ilnpwire.BuildUpdate(l.own(i), l.a, nonceOf(i), lu)
	if err != nil {
		panic(err)
	}
	return b
}

// TestAmplifyUpdates has correspondents with sessions of their own list addresses of
// others in Locator Updates.
func TestAmplifyUpdates(t *testing.T) {
	w := newWorld(t, "lies", 0, place{"b", 1, true}, place{"a", 1, false})
	n := w.newHost("a", settings{accept: "any", hosts: "# nobody\n"}).start()
	l := liars{s: w.stage(t), a: roam.ILVFromAddr(w.wire("a", 1)), count: 200}
	l.open(t, n)
	for range 2 {
		l.s.flood(1000, l.count, l.update)
	}
	l.s.quiet(watched, watched)
	var all, came tally
	beyond := 0
	sites, sessions := map[roam.L64][]time.Time{}, 0
	for i := range l.count {
		var session []time.Time
		for k := range foreignEach {
			f := l.foreign(i, k)
			came, _ = l.s.to(f.Addr())
			if came.packets > 1 || came.largest > probeBytes {
				beyond++
			}
			all.packets, all.bytes, all.largest = all.packets+came.packets, all.bytes+came.bytes, max(all.largest, came.largest)
			all.at, session = append(all.at, came.at...), append(session, came.at...)
			sites[f.L64>>16] = append(sites[f.L64>>16], came.at...)
		}
		sessions = max(sessions, rateOf(session, time.Second))
	}
	site := 0
	for _, at := range sites {
		site = max(site, rateOf(at, time.Second))
	}
	host := rateOf(all.at, time.Second)
	t.Logf("%d packets of %d bytes to %d addresses that updates named, the largest of %d; most in a second: %d of a "+
		"session, %d to a site, %d in all",
		all.packets, all.bytes, l.count*foreignEach, all.largest, sessions, site, host)
	if beyond > 0 {
		t.Errorf("%d addresses had more than one probe of %d bytes", beyond, probeBytes)
	}
	for _, r := range []struct {
		what       string
		most, have int
	}{{"of a session", perSession, sessions}, {"to one site", perSite, site}, {"of the host", perHost, host}} {
		// A thread that does not run for a while sees two seconds' probes as one's.
		if r.have > r.most+r.most/10+1 {
			t.Errorf("%d probes a second %s, at most %d", r.have, r.what, r.most)
		}
	}
}
