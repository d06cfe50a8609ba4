package acceptance

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	ilnpwire "roam/wire/ilnp"
)

// forgedFrom makes datagrams under b's identifier with random nonces.
func forgedFrom(w *world, source func(r *rand.Rand) roam.L64) func(int) []byte {
	random := rand.New(rand.NewPCG(6740, 6743))
	a := roam.ILVFromAddr(w.wire("a", 1))
	return func(int) []byte {
		return first("udp", roam.ILV{L64: source(random), NID: w.nid("b")}, a, nonceOf(int(random.Uint32())))
	}
}

// anywhere is a locator of offPath that hardly was there before.
func anywhere(r *rand.Rand) roam.L64 { return firstOffPath + roam.L64(r.Uint64N(1<<28)) }

// exchange is one Locator Update exchange, seen from the network.
type exchange struct {
	copies int
	began  time.Time     // of the first copy
	took   time.Duration // from then to the acknowledgement
}

// exchanges reads the Locator Update exchanges of a host with another.
func (tap *wiretap) exchanges(of, with roam.NID) (list []exchange) {
	const udpPort = 6740
	var began time.Time
	copies := 0
	for _, r := range tap.records() {
		p, err := ilnpwire.ParseControl(r.packet, udpPort)
		switch {
		case err != nil:
		case updateFrom(of, ilnpwire.Advertisement)(p):
			if copies++; copies == 1 {
				began = r.at
			}
		case updateFrom(with, ilnpwire.Acknowledgement)(p) && copies > 0:
			list = append(list, exchange{copies, began, r.at.Sub(began)})
			copies = 0
		}
	}
	return list
}

// noncesOf returns the nonces in a host's Locator Updates and acknowledgements.
func (tap *wiretap) noncesOf(nid roam.NID) map[ilnpwire.Nonce]bool {
	m := map[ilnpwire.Nonce]bool{}
	for _, r := range tap.records() {
		if p, err := ilnpwire.ParsePacket(r.packet); err == nil && p.Src.NID == nid && p.Nonce.Present() {
			m[p.Nonce] = true
		}
	}
	return m
}

// received is how many packets an interface has taken.
func (w *world) received(name, ifname string) int {
	w.t.Helper()
	var links []struct {
		Stats struct {
			Rx struct{ Packets int }
		} `json:"stats64"`
	}
	if err := json.Unmarshal([]byte(w.must(name, "ip", "-j", "-s", "link", "show", "dev", ifname)), &links); err != nil ||
		len(links) != 1 {
		w.t.Fatalf("statistics of %s: %v", ifname, err)
	}
	return links[0].Stats.Rx.Packets
}

const (
	starveDelay = 5 * time.Millisecond // of b's link, one way
	starveRTT   = 2 * starveDelay
	starveMoves = 20
)

// TestStarve moves b repeatedly while an attacker forges datagrams under its identifier:
// the first copy of each of its Locator Updates is accepted.
func TestStarve(t *testing.T) {
	w := newWorld(t, "starve", starveDelay, place{"b", 2, true}, place{"a", 1, false})
	a := w.newHost("a", settings{accept: "known", hosts: w.hostsFile("b")})
	b := w.newHost("b", settings{accept: "known", hosts: w.hostsFile("a")})
	w.echo(t, "a", claimPort)
	s := w.stage(t)
	own := func(*rand.Rand) roam.L64 { return l64(w, "b", 1) }
	a.start()
	b.start()
	b.becomes("net2")
	for _, tc := range []flood{
		{"none", 0, own},
		{"300 a second from b's locator", 300, own},
		{"300 a second from anywhere", 300, anywhere},
		{"10,000 a second from b's locator", 10000, own},
		{"10,000 a second from anywhere", 10000, anywhere},
	} {
		w.sub(tc.name, func(t *testing.T) {
			fresh(a, b)
			b.becomes("net2")
			w.talk(t, "b", "udp6", "a", claimPort).echoed(t, "hello")
			b.reaches("a", "established")
			a.reaches("b", "established")
			tap := w.tap(t, w.r0, "core", "ip6 proto 60 and ip6[48] == 156 or udp port 6740")
			before := a.counters()
			came, sentBefore := s.total()
			toB := w.received("r0", "core")
			stop := s.start(tc.rate, forgedFrom(w, tc.source))
			testutil.Wait(patience, func() bool { _, n := s.total(); return float64(n-sentBefore) >= 2*tc.rate })
			starvedMoves(t, w, b, tap)
			sent := stop()
			s.quiet(time.Second, 10*time.Second)
			now, _ := s.total()
			toB = w.received("r0", "core") - toB
			s.unshown(t, tap.noncesOf(w.nid("a")))
			judgeStarved(t, tap.exchanges(w.nid("b"), w.nid("a")), sent, now-came, toB)
			t.Log(grown(before, a.counters()))
		})
	}
}

// starvedMoves withdraws b's link and takes it back, and waits each time until the
// correspondent has acknowledged that, but not for ever.
func starvedMoves(t *testing.T, w *world, b *host, tap *wiretap) {
	t.Helper()
	for i := range starveMoves {
		verb, link := "disable", "net1"
		if i%2 == 1 {
			verb, link = "enable", "net2"
		}
		moved := time.Now()
		b.roam("locator", verb, "net2")
		b.becomes(link)
		testutil.Wait(2*time.Second, func() bool {
			list := tap.exchanges(w.nid("b"), w.nid("a"))
			return len(list) > 0 && list[len(list)-1].began.After(moved)
		})
	}
}

// judgeStarved holds what the network saw against the bounds.
func judgeStarved(t *testing.T, list []exchange, sent, came, toB int) {
	t.Helper()
	if len(list) < starveMoves {
		t.Errorf("%d exchanges of %d moves were acknowledged", len(list), starveMoves)
	}
	if len(list) == 0 {
		return
	}
	var copies []int
	var took []time.Duration
	for _, e := range list {
		copies, took = append(copies, e.copies), append(took, e.took)
	}
	slices.Sort(took)
	median, last := took[len(took)/2], took[len(took)-1]
	t.Logf("copies until acknowledged %v; median %v, longest %v", copies, median, last)
	t.Logf("%d forged, answered by %d packets to their sources and %d to b", sent, came, toB)
	if median > 2*starveRTT+10*time.Millisecond || last > 4*starveRTT+20*time.Millisecond {
		tooLate(t, "updates were acknowledged after %v in the median, %v at worst", median, last)
	}
	// The answers to b's own packets count as well: some packets for each move.
	if most := sent + 20*starveMoves; came+toB > most {
		t.Errorf("%d forged packets drew %d", sent, came+toB)
	}
}

// grown lists the refusals that have grown.
func grown(before, after map[string]uint64) string {
	var list []string
	for name, v := range after {
		if v > before[name] && !strings.HasPrefix(name, "tx_") && name != "rx_packets" {
			list = append(list, fmt.Sprintf("%s+%d", name, v-before[name]))
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// flood is the traffic of an attacker during connections.
type flood struct {
	name   string
	rate   float64
	source func(*rand.Rand) roam.L64
}

const (
	firstTries = 4
	slowPort   = 7008 // of a server that answers slowly
	slowness   = "4ms"
)

// TestStarveFirst makes b open its first connection, and send its first datagram, while an
// attacker spoofs first packets under its identifier.
func TestStarveFirst(t *testing.T) {
	w := newWorld(t, "first", starveDelay, place{"b", 1, true}, place{"a", 1, false})
	a := w.newHost("a", settings{accept: "known", hosts: w.hostsFile("b")}).start()
	b := w.newHost("b", settings{accept: "known", hosts: w.hostsFile("a")}).start()
	w.echo(t, "a", claimPort)
	w.agent(t, "a", io.Discard, "slow", fmt.Sprint(slowPort), slowness)
	s := w.stage(t)
	own := func(*rand.Rand) roam.L64 { return l64(w, "b", 1) }
	for _, tc := range []flood{
		{"none", 0, own},
		{"1,000 a second from b's locator", 1000, own},
		{"1,000 a second from anywhere", 1000, anywhere},
	} {
		w.sub(tc.name, func(t *testing.T) {
			var took []int
			lost := 0
			for i := range 2 * firstTries {
				fresh(a, b)
				_, before := s.total()
				stop := s.start(tc.rate, forgedFrom(w, tc.source))
				testutil.Wait(patience, func() bool { _, n := s.total(); return float64(n-before) >= tc.rate })
				if i < firstTries {
					c := w.talk(t, "b", "tcp6", "a", claimPort)
					c.echoed(t, "hello")
					took = append(took, c.ms)
				} else {
					// A datagram is not repeated by anybody.
					c := w.talk(t, "b", "udp6", "a", slowPort)
					c.say(t, "hello")
					if !testutil.Wait(time.Second, func() bool { return c.heard("hello") }) {
						lost++
					}
				}
				stop()
			}
			judgeConnects(t, took, int(2*starveRTT/time.Millisecond)+50)
			if lost > 0 {
				t.Errorf("%d of %d first datagrams had no answer", lost, firstTries)
			}
		})
	}
}

// judgeConnects holds times to connect, in ms, against a bound of the median.
func judgeConnects(t *testing.T, took []int, most int) {
	t.Helper()
	t.Logf("connected after %v ms", took)
	slices.Sort(took)
	if median := took[len(took)/2]; median > most {
		tooLate(t, "connected after %d ms in the median, at most %d", median, most)
	}
}

const (
	sprayers = 2   // as many as a small host has processors
	others   = 100 // known correspondents: more than have entries in advance
)

// TestStarveLocal makes local programs without privileges send to addresses of unknown
// correspondents, while first connections are opened in both directions: by a
// correspondent, and to one that has no entry yet.
func TestStarveLocal(t *testing.T) {
	w := newWorld(t, "local", starveDelay, place{"b", 1, true}, place{"a", 1, false})
	var hosts strings.Builder
	for i := range others {
		at := roam.ILV{L64: firstOffPath, NID: 0x1000_0000_f000_0000 + roam.NID(i)}
		fmt.Fprintf(&hosts, "nid=%s l64=%s other-%d\n", at.NID, at.L64, i)
	}
	a := w.newHost("a", settings{accept: "known", hosts: hosts.String() + w.hostsFile("b")}).start()
	b := w.newHost("b", settings{accept: "known", hosts: w.hostsFile("a")}).start()
	w.echo(t, "a", claimPort)
	w.echo(t, "b", claimPort)
	for _, rate := range []string{"", "100000"} {
		for range sprayers {
			if rate != "" {
				w.agent(t, "a", io.Discard, "spray", w.session("a").String(), rate)
			}
		}
		for _, from := range []string{"b", "a"} {
			w.sub(fmt.Sprintf("spray %s, %s connects", rate, from), func(t *testing.T) {
				var took []int
				for range 5 {
					fresh(a, b)
					if rate != "" {
						testutil.Eventually(t, patience, func() bool {
							counts := a.counters()
							return counts["miss_handed_over"]+counts["drop_miss_rate"] > 1000
						}, "misses")
					}
					c := w.talk(t, from, "tcp6", w.session(map[string]string{"a": "b", "b": "a"}[from]).String(), claimPort)
					c.echoed(t, "hello")
					took = append(took, c.ms)
					after := a.counters()
					t.Logf("drop_ring_full %d, misses %d", after["drop_ring_full"], after["miss_handed_over"])
				}
				judgeConnects(t, took, int(2*starveRTT/time.Millisecond)+20)
			})
		}
	}
}

// TestStarveFull fills the sessions of a host from one network, and has that host
// make a connection of its own to a known correspondent.
func TestStarveFull(t *testing.T) {
	const sessions = 256 // the least that can be configured
	w := newWorld(t, "full", starveDelay, place{"b", 1, true}, place{"a", 1, false})
	a := w.newHost("a", settings{accept: "any", hosts: w.hostsFile("b"),
		more: fmt.Sprintf("[ilnp]\nmax_sessions = %d\n", sessions)}).start()
	w.newHost("b", settings{accept: "known", hosts: w.hostsFile("a")}).start()
	w.echo(t, "b", claimPort)
	s := w.stage(t)
	to := roam.ILVFromAddr(w.wire("a", 1))
	from := func(i int) roam.ILV {
		return roam.ILV{L64: firstOffPath, NID: 0x1000_0000_e000_0000 + roam.NID(i)}
	}
	const newcomers = 2 * sessions
	for i := range newcomers {
		s.answers(from(i), nonceOf(i))
	}
	s.flood(500, newcomers, func(i int) []byte { return first("ping", from(i), to, nonceOf(i)) })
	s.quiet(time.Second, patience)
	have, _ := a.Established(w.top.Context())
	c := w.talk(t, "a", "tcp6", "b", claimPort)
	t.Logf("%d sessions of %d newcomers in one network; connected after %d ms: %q", have, newcomers, c.ms, c.out.text())
	if !c.connected() {
		t.Errorf("own connection to a known correspondent: %q", c.out.text())
	} else if c.ms > 200 {
		tooLate(t, "own connection to a known correspondent: %q", c.out.text())
	}
}
