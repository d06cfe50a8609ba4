package acceptance

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
)

const (
	coursesEnv   = "ROAM_COURSES" // how many courses TestTakeoverCourses runs
	courseEnv    = "ROAM_COURSE"  // the seed of the first one, to run it again
	coursesUsual = 3
)

// course is one play of an attacker, who has the victim's identifier and all public
// fields, against a session, whose owner lives, idles, is away, reboots or moves.
type course struct {
	*claim
	t      *testing.T
	random *rand.Rand
	stage  *stage
	link   int // of b: 1 or 2
	log    []string
	nonces int
	path   *onPath // nil: the attacker is not on the path
}

func (c *course) say(format string, args ...any) {
	c.log = append(c.log, fmt.Sprintf(format, args...))
}

// attack does one thing that an off-path attacker can do, or one on the path.
func (c *course) attack() {
	a := roam.ILVFromAddr(c.w.wire("a", 1))
	if c.path != nil && c.random.IntN(3) > 0 {
		c.path.act(c)
		return
	}
	switch c.random.IntN(5) {
	case 0:
		n := 1 + c.random.IntN(4)
		c.say("x pings %d times", n)
		_, _ = c.w.run("x", "ping", "-6", "-c", strconv.Itoa(n), "-i", "0.2", "-W", "1", "a")
	case 1:
		network := []string{"tcp6", "udp6"}[c.random.IntN(2)]
		c.say("x speaks %s", network)
		c.contact(c.t, network)
	case 2:
		verb, link := []string{"disable", "enable"}[c.random.IntN(2)], fmt.Sprintf("net%d", 1+c.random.IntN(2))
		c.say("x: %s %s", verb, link)
		_, _, _ = c.x.command("locator", verb, link) // each Locator Update is one of x's
	case 3:
		own := c.random.IntN(2) == 0
		n := 1 + c.random.IntN(40)
		c.say("%d spoofed packets, from b's locator: %v", n, own)
		kinds := []string{"ping", "udp", "syn", "update"}
		c.stage.flood(200, n, func(int) []byte {
			at := anywhere(c.random)
			if own {
				at = l64(c.w, "b", 1+c.random.IntN(2))
			}
			c.nonces++
			return first(kinds[c.random.IntN(len(kinds))], roam.ILV{L64: at, NID: c.w.nid("b")}, a,
				nonceOf(c.nonces/(1+c.random.IntN(3))))
		})
	case 4:
		// A correspondent of the script's own that answers, with few locators or many.
		at := roam.ILV{L64: firstOffPath + roam.L64(c.random.IntN(1<<12))<<16, NID: c.w.nid("b")}
		c.nonces++
		nonce := nonceOf(c.nonces)
		c.say("a scripted node at %v", at.L64)
		c.stage.answers(at, nonce)
		for range 1 + c.random.IntN(3) {
			kind := []string{"ping", "udp", "syn", "update"}[c.random.IntN(4)]
			c.stage.flood(50, 1, func(int) []byte { return first(kind, at, a, nonce) })
		}
	}
}

// owner puts the true node into a condition and back, with attacks meanwhile. It reports
// whether that has forgotten all, and whether it then came elsewhere than it was.
func (c *course) owner(attacks func()) (rebooted, elsewhere bool) {
	switch c.random.IntN(5) {
	case 0:
		c.say("b lives")
		attacks()
	case 1:
		away := time.Second + time.Duration(c.random.IntN(9000))*time.Millisecond
		c.say("b is away for %v", away)
		until := time.Now().Add(away)
		c.w.cable("b", "net1", false)
		c.w.cable("b", "net2", false)
		attacks()
		testutil.Wait(time.Until(until), func() bool { return false })
		c.w.cable("b", "net1", true)
		c.w.cable("b", "net2", true)
	case 2:
		c.link = 3 - c.link
		c.say("b moves to its other network")
		verb := map[int]string{1: "disable", 2: "enable"}[c.link]
		_, _, _ = c.b.command("locator", verb, "net2")
		attacks()
	case 3:
		c.say("b's daemon restarts")
		c.b.signal(syscall.SIGTERM)
		attacks()
		c.b.start()
	case 4:
		c.say("b reboots without its state")
		c.b.down()
		attacks()
		if err := c.b.Forget(); err != nil {
			c.t.Fatal(err)
		}
		c.b.start()
		rebooted, elsewhere = true, c.link != 2
		c.link = 2
	}
	return rebooted, elsewhere
}

// play runs a course: nothing of b's goes to x, and the session goes on by its owner.
func (c *course) play() {
	t := c.t
	if c.random.IntN(2) == 0 {
		for range c.random.IntN(3) {
			c.attack()
		}
	}
	tcp, udp := c.w.stream(t, "a", "tcp6", "b", claimPort), c.w.stream(t, "a", "udp6", "b", claimPort)
	whole := true // b has not forgotten its end of the TCP connection
	for range 1 + c.random.IntN(2) {
		words := len(udp.words())
		forgot, elsewhere := c.owner(func() {
			for range 1 + c.random.IntN(3) {
				c.attack()
			}
		})
		whole = whole && !forgot
		if forgot {
			// A host that has forgotten speaks first, as in TestTakeoverReboot.
			if talk := c.w.talk(t, "b", "tcp6", "a", claimPort); !talk.connected() {
				t.Errorf("b connects again: %q", talk.out.text())
			}
		}
		ended := func() bool { return strings.Contains(udp.tail(), "connection abort") }
		if elsewhere && testutil.Wait(patience, func() bool { return ended() || len(udp.words()) >= words+50 }) && ended() {
			// Nothing showed that it is the same node: a's sockets had to end.
			udp, words = c.w.stream(t, "a", "udp6", "b", claimPort), 0
		}
		if !testutil.Wait(patience, func() bool { return len(udp.words()) >= words+50 }) {
			t.Errorf("a's datagrams to b: %d words more; %q", len(udp.words())-words, udp.tail())
		}
		if whole {
			tcp.goesOn(t, 50, patience)
			tcp.whole(t)
		}
	}
	word := marker + "-by-name"
	talk := c.w.talk(t, "a", "tcp6", "b", claimPort)
	if talk.connected() {
		talk.say(t, word)
	}
	if !testutil.Wait(10*time.Second, func() bool { return strings.Contains(c.atB.text(), word) }) {
		t.Errorf("the next connection to b: %q", talk.out.text())
	}
	c.kept(t)
}

// TestTakeoverCourses draws courses from seeds.
func TestTakeoverCourses(t *testing.T) {
	count, first := fromEnv(t, coursesEnv, coursesUsual), fromEnv(t, courseEnv, 1)
	for i := range count {
		seed := uint64(first + i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c := &course{claim: newClaim(t, "course"), t: t, random: rand.New(rand.NewPCG(6740, seed)), link: 2}
			c.stage = c.w.stage(t)
			c.play()
			t.Logf("%s", strings.Join(c.log, "; "))
		})
	}
}
