package acceptance

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/node"
	ilnpwire "roam/wire/ilnp"
)

// claim is a host, a correspondent that it knows, and an attacker: a stock daemon
// with the correspondent's Node Identifier in a third network, on no path between
// the two.
//
//	b ==net1,net2.. r0 ---core--- r1 net1-- a
//	                              r1 net1,net2-- x
type claim struct {
	w       *world
	a, b, x *host
	atB     *said
	atX     leaks
}

const claimPort = 7007

func newClaim(t *testing.T, name string) *claim {
	w := newWorld(t, name, 5*time.Millisecond, place{"b", 2, true}, place{"a", 1, false}, place{"x", 2, false})
	c := &claim{
		w: w,
		a: w.newHost("a", settings{accept: "known", hosts: w.hostsFile("b")}),
		b: w.newHost("b", settings{accept: "known", hosts: w.hostsFile("a")}),
		x: w.newHost("x", settings{accept: "known", hosts: w.hostsFile("a"), nid: w.nid("b")}),
	}
	c.atB = w.ledger(t, "b", claimPort)
	c.atX = leaks{heard: w.ledger(t, "x", claimPort), taps: []*wiretap{w.tap(t, w.r1, "x1"), w.tap(t, w.r1, "x2")}}
	w.echo(t, "a", claimPort)
	for _, n := range []*host{c.a, c.b, c.x} {
		n.start()
	}
	c.b.becomes("net2")
	return c
}

// contact has the attacker speak to a as an application would, or not at all.
func (c *claim) contact(t *testing.T, kind string) {
	t.Helper()
	switch kind {
	case "none":
		return
	case "ping":
		out, _ := c.w.run("x", "ping", "-6", "-c", "3", "-i", "0.3", "-W", "1", "a")
		t.Logf("x pings: %s", lastLine(out))
		return
	}
	talk := c.w.talk(t, "x", kind, "a", claimPort)
	if talk.connected() {
		talk.say(t, "hello")
		testutil.Wait(time.Second, func() bool { return talk.heard("hello") })
	}
	t.Logf("x speaks %s: %q", kind, talk.out.text())
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// kept fails if anything of the owner's went to the attacker.
func (c *claim) kept(t *testing.T) {
	t.Helper()
	if n := c.atX.count(); n > 0 {
		t.Errorf("%d packets and words for b went to x", n)
	}
}

// TestTakeoverName lets an attacker with b's identifier contact first: data to the name b
// reach b, or no node.
func TestTakeoverName(t *testing.T) {
	for _, tc := range []struct {
		contact string
		away    bool // b is unreachable
	}{{"none", false}, {"ping", false}, {"udp6", false}, {"tcp6", false}, {"ping", true}} {
		t.Run(fmt.Sprintf("%s, away %t", tc.contact, tc.away), func(t *testing.T) {
			c := newClaim(t, "name")
			if tc.away {
				c.w.cable("b", "net1", false)
				c.w.cable("b", "net2", false)
				c.b.becomes()
			}
			c.contact(t, tc.contact)
			for _, network := range []string{"tcp6", "udp6"} {
				word := marker + "-" + network
				talk := c.w.talk(t, "a", network, "b", claimPort)
				if talk.connected() {
					talk.say(t, word)
				}
				heard := !tc.away && testutil.Wait(10*time.Second, func() bool { return strings.Contains(c.atB.text(), word) })
				if heard == tc.away {
					t.Errorf("%s: b heard %q, away %t; the connection: %q", network, c.atB.text(), tc.away, talk.out.text())
				}
			}
			c.kept(t)
		})
	}
}

// TestTakeoverAway has an attacker come while the owner of a live session is away.
func TestTakeoverAway(t *testing.T) {
	for _, attacked := range []bool{false, true} {
		t.Run(fmt.Sprintf("attacked %t", attacked), func(t *testing.T) { away(t, attacked) })
	}
}

func away(t *testing.T, attacked bool) {
	c := newClaim(t, "away")
	s := c.w.stream(t, "a", "tcp6", "b", claimPort)
	idle := c.w.talk(t, "a", "tcp6", "b", claimPort)
	idle.echoed(t, marker+"-idle")
	began := c.a.with("b").Since
	c.w.cable("b", "net1", false)
	c.w.cable("b", "net2", false)
	words, since := len(s.words()), time.Now()
	testutil.Eventually(t, patience, func() bool {
		if n := len(s.words()); n > words {
			words, since = n, time.Now()
		}
		return time.Since(since) > 2*time.Second
	}, "2 s without b")
	if attacked {
		out, _ := c.w.run("x", "ping", "-6", "-c", "20", "-i", "0.5", "-W", "1", "a")
		t.Logf("x pings: %s", lastLine(out))
	}
	c.w.talk(t, "a", "udp6", "b", claimPort).say(t, marker+"-meanwhile")
	c.w.cable("b", "net1", true)
	c.w.cable("b", "net2", true)
	back := time.Now()
	s.goesOn(t, 50, patience)
	t.Logf("goes on %v after the cable", time.Since(back).Round(time.Millisecond))
	s.whole(t)
	_, _ = fmt.Fprintln(idle.in, marker+"-idle-again") // that it has ended is seen below
	if !testutil.Wait(5*time.Second, func() bool { return idle.heard(marker + "-idle-again") }) {
		t.Errorf("the idle connection: %q", idle.out.text())
	}
	if now := c.a.with("b").Since; !now.Equal(began) {
		t.Errorf("the session of %v is one of %v", began, now)
	}
	talk := c.w.talk(t, "a", "tcp6", "b", claimPort)
	if talk.connected() {
		talk.say(t, marker+"-after")
	}
	if !testutil.Wait(5*time.Second, func() bool { return strings.Contains(c.atB.text(), marker+"-after") }) {
		t.Errorf("the next connection to b: %q", talk.out.text())
	}
	c.kept(t)
}

// attacks are the possible attacks of an off-path node on a healthy session.
var attacks = []struct {
	name string
	run  func(t *testing.T, c *claim)
}{
	{"none", func(*testing.T, *claim) {}},
	{"one ping", func(t *testing.T, c *claim) { c.contact(t, "ping") }},
	{"pings while it moves", func(t *testing.T, c *claim) {
		c.b.roam("locator", "disable", "net2")
		c.contact(t, "ping")
		c.b.roam("locator", "enable", "net2")
		c.contact(t, "ping")
	}},
	{"an update that lists the owner's locator", listOwners},
	{"many locators", func(t *testing.T, c *claim) { manyLocators(t, c, false, 90) }},
	{"many locators, the owner's among them", func(t *testing.T, c *claim) { manyLocators(t, c, true, 90) }},
	{"spoofed packets from the owner's locator", func(t *testing.T, c *claim) {
		spoofed(t, c, func(*rand.Rand) roam.L64 { return l64(c.w, "b", 2) })
	}},
	{"spoofed packets from anywhere", func(t *testing.T, c *claim) { spoofed(t, c, anywhere) }},
}

// TestTakeoverHealthy attacks a live session: the session continues as if there were no
// attack.
func TestTakeoverHealthy(t *testing.T) {
	for _, attack := range attacks {
		t.Run(attack.name, func(t *testing.T) {
			c := newClaim(t, "healthy")
			tcp, udp := c.w.stream(t, "a", "tcp6", "b", claimPort), c.w.stream(t, "b", "udp6", "a", claimPort)
			stops := map[string]func() time.Duration{"tcp": tcp.watch(), "udp": udp.watch()}
			attack.run(t, c)
			tcp.goesOn(t, 80, 10*time.Second)
			udp.goesOn(t, 80, 10*time.Second)
			for what, stop := range stops {
				gap := stop()
				t.Logf("%s: longest gap %v", what, gap.Round(time.Millisecond))
				switch {
				case gap > 4*time.Second: // a gap that an attack did cause
					t.Errorf("%s: no word for %v", what, gap.Round(time.Millisecond))
				case gap > time.Second:
					tooLate(t, "%s: no word for %v", what, gap.Round(time.Millisecond))
				}
			}
			tcp.whole(t)
			c.kept(t)
		})
	}
}

// listOwners has the attacker's daemon list the owner's locators as its own.
func listOwners(t *testing.T, c *claim) {
	c.contact(t, "ping")
	// The prefixes of the networks that b sends from, as a rogue router on x's
	// link would advertise them.
	for n := 1; n <= 2; n++ {
		own := c.w.prefix("b", n).Addr().As16()
		own[15] = 0x77
		c.w.must("x", "ip", "-6", "addr", "add", netip.AddrFrom16(own).String()+"/64", "dev", "net2", "nodad")
	}
	testutil.Eventually(t, patience, func() bool {
		return slices.ContainsFunc(c.x.locators(), func(l node.Locator) bool { return l.L64 == l64(c.w, "b", 2) })
	}, "x has b's locator")
	c.contact(t, "ping")
}

// spoofed sends packets of all kinds under b's identifier, from addresses that answer
// nothing.
func spoofed(t *testing.T, c *claim, source func(*rand.Rand) roam.L64) {
	s, random := c.w.stage(t), rand.New(rand.NewPCG(6740, 5))
	kinds := []string{"ping", "udp", "syn", "update"}
	s.flood(100, 300, func(i int) []byte {
		from := roam.ILV{L64: source(random), NID: c.w.nid("b")}
		return first(kinds[i%len(kinds)], from, roam.ILVFromAddr(c.w.wire("a", 1)), nonceOf(i/2))
	})
}

// manyLocators opens sessions under b's identifier that list more locators than the
// data plane has rows for, and b's own before them or not. An update of 90 of them
// fits a packet.
func manyLocators(t *testing.T, c *claim, own bool, each int) {
	s := c.w.stage(t)
	a := roam.ILVFromAddr(c.w.wire("a", 1))
	const newcomers = 14
	for i := range newcomers {
		at := roam.ILV{L64: firstOffPath + roam.L64(i)<<16, NID: c.w.nid("b")}
		s.answers(at, nonceOf(i))
		lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement}
		for n := 1; own && n <= 2; n++ {
			lu.Locators = append(lu.Locators, entry(l64(c.w, "b", n), 5, 600))
		}
		lu.Locators = append(lu.Locators, entry(at.L64, 10, 600))
		for k := range each {
			lu.Locators = append(lu.Locators, entry(firstOffPath+roam.L64(1000+i*each+k)<<16, 20, 600))
		}
		update, err := ilnpwire.BuildUpdate(at, a, nonceOf(i), lu)
		if err != nil {
			t.Fatal(err)
		}
		s.flood(1000, 1, func(int) []byte { return first("ping", at, a, nonceOf(i)) })
		reached := func(packets int) func() bool {
			return func() bool { came, _ := s.to(at.Addr()); return came.packets >= packets }
		}
		testutil.Wait(time.Second, reached(2)) // the answer, and a probe, which is answered
		came, _ := s.to(at.Addr())
		s.flood(20, 3, func(int) []byte { return update })
		testutil.Wait(time.Second, reached(came.packets+1)) // an acknowledgement
	}
	c.b.roam("locator", "disable", "net2") // packets must then reach b at its other locator
	c.b.becomes("net1")
}

// TestTakeoverCrowded has honest b, and another honest host with its identifier,
// connect after liars have come under it, with few locators, and with more than
// there are rows for.
func TestTakeoverCrowded(t *testing.T) {
	for _, each := range []int{2, 90} {
		t.Run(fmt.Sprintf("%d locators each", each), func(t *testing.T) {
			c := newClaim(t, "crowded")
			manyLocators(t, c, false, each)
			for _, from := range []string{"b", "x"} {
				talk := c.w.talk(t, from, "tcp6", "a", claimPort)
				if !talk.connected() {
					t.Errorf("%s connects: %q", from, talk.out.text())
					continue
				}
				for i := range 20 {
					word := fmt.Sprintf("word-%d", i)
					talk.say(t, word)
					if !testutil.Wait(2*time.Second, func() bool { return talk.heard(word) }) {
						t.Errorf("%s: no echo of %s: %q", from, word, talk.out.text())
						break
					}
				}
			}
		})
	}
}

// TestTakeoverLaptop tests a legitimate case: a mobile host that is known by `roam add`
// only starts in a network that no record lists, and moves. Its real programs continue, and
// at home it has its name besides.
func TestTakeoverLaptop(t *testing.T) {
	needs(t, "curl", "ssh", "sshd")
	w := newWorld(t, "laptop", 5*time.Millisecond, place{"b", 3, true}, place{"a", 1, false})
	for _, link := range []string{"net2", "net3"} {
		w.cable("b", link, false)
	}
	a := w.newHost("a", settings{accept: "known", hosts: "# nobody\n"}).start()
	b := w.newHost("b", settings{accept: "known", hosts: "# nobody\n"}).start()
	b.becomes("net1")
	a.roam("add", strings.TrimSpace(fmt.Sprintf("nid=%s l64=%s b", w.nid("b"), w.prefix("b", 1))))
	b.roam("add", strings.TrimSpace(w.hostsFile("a")))
	w.echo(t, "a", claimPort)
	w.echo(t, "b", claimPort)
	b.down()
	w.cable("b", "net2", true)
	w.cable("b", "net1", false)
	b.start()
	b.becomes("net2")
	tcp, udp := w.stream(t, "b", "tcp6", "a", claimPort), w.stream(t, "b", "udp6", "a", claimPort)
	ssh, curl := w.shell(t, "b", "a", "a", 2222), w.download(t, "b", "a", "a", 8080, 3_000_000, 200_000)
	for _, move := range [][2]string{{"net2", "net3"}, {"net3", "net1"}} {
		stops := map[string]func() time.Duration{"tcp": tcp.watch(), "udp": udp.watch()}
		w.cable("b", move[1], true)
		b.becomes(move[1])
		b.sendsFrom("a", move[1])
		w.cable("b", move[0], false)
		tcp.goesOn(t, 100, patience)
		udp.goesOn(t, 100, patience)
		flows(t, ssh, 5)
		for what, stop := range stops {
			if gap := stop(); gap > time.Second {
				tooLate(t, "%s to %s: no word for %v", what, move[1], gap.Round(time.Millisecond))
			}
		}
	}
	tcp.whole(t)
	if talk := w.talk(t, "a", "tcp6", "b", claimPort); !talk.connected() {
		t.Errorf("a reaches b at home: %q", talk.out.text())
	} else {
		talk.echoed(t, "home")
	}
	// Two aliases of one session: that of the sockets that it has opened elsewhere, and its
	// name.
	if list := a.sessions(); len(list) != 1 || list[0].Address == w.session("b") {
		t.Errorf("sessions of a: %+v", list)
	}
	if at := resolved(w, "a", "b"); at != w.session("b").String() {
		t.Errorf("b is %s on a", at)
	}
	flows(t, ssh, 5)
	tcp.goesOn(t, 50, patience)
	ctx := w.within(patience)
	if err := curl.Wait(ctx); err != nil {
		t.Error(err)
	}
	if err := ssh.Close(ctx); err != nil {
		t.Error(err)
	}
	if talk := w.talk(t, "b", "udp6", "a", claimPort); talk.connected() {
		talk.echoed(t, "once more")
	}
}

// TestTakeoverReboot has the true owner come back without its state to a locator
// that is listed: what lives at a goes on, whether or not an attacker has spoken
// meanwhile, and nothing of it goes there.
func TestTakeoverReboot(t *testing.T) {
	for _, attacked := range []bool{false, true} {
		t.Run(fmt.Sprintf("attacked %t", attacked), func(t *testing.T) {
			c := newClaim(t, "reboot")
			udp := c.w.stream(t, "a", "udp6", "b", claimPort)
			for range 2 {
				c.b.down()
				if attacked {
					out, _ := c.w.run("x", "ping", "-6", "-c", "12", "-i", "0.5", "-W", "1", "a")
					t.Logf("x pings: %s", lastLine(out))
				}
				if err := c.b.Forget(); err != nil {
					t.Fatal(err)
				}
				c.b.start()
				c.b.becomes("net2")
				before := len(udp.words())
				talk := c.w.talk(t, "b", "tcp6", "a", claimPort)
				if !talk.connected() {
					t.Errorf("b connects again: %q", talk.out.text())
					continue
				}
				talk.echoed(t, "back")
				if !testutil.Wait(10*time.Second, func() bool { return len(udp.words()) >= before+50 }) {
					t.Errorf("a's socket: %d words more; %q", len(udp.words())-before, udp.tail())
				}
			}
			c.kept(t)
		})
	}
}
