package ilnp

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"roam"
)

// successor makes a core that has taken over the state of another one.
func (b *bench) successor(t *testing.T, change ...func(*Config)) *bench {
	t.Helper()
	n := newBench(t, change...)
	n.now = b.now
	if err := n.Restore(n.now, b.Export()); err != nil {
		t.Fatal(err)
	}
	n.drain()
	return n
}

func TestRestoreKeepsEverything(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP, netQ)
	b.prefix(2, netB, time.Minute)
	b.acknowledgeLast()
	b.SetMode(b.now, Duality)
	b.SetLinkDisabled(b.now, 7, true)
	b.drain()
	b.acknowledgeLast()
	b.AddPeer(b.now, Peer{NID: 99, Names: []string{"other"}, Locators: []RemoteLocator{{L64: netR, Lifetime: time.Hour}}})
	b.pass(3 * time.Second)

	n := b.successor(t)
	if len(n.sent) != 0 || n.count(HandoffStarted) != 0 {
		t.Errorf("%d packets sent by taking over", len(n.sent))
	}
	if !sameEntry(n.entries[theKey], b.entries[theKey]) || n.entries[theKey].Seq <= b.entries[theKey].Seq {
		t.Errorf("entry\n%+v, want\n%+v with a later Seq", n.entries[theKey], b.entries[theKey])
	}
	if n.Mode() != Duality || !n.host.disabled[7] {
		t.Error("mode or disabled link lost")
	}
	if len(n.Peers(n.now)) != 2 || len(n.known[99].locators) != 1 || !slices.Equal(n.known[99].names, []string{"other"}) {
		t.Error("known correspondent lost")
	}
	n.prefix(1, netA, roam.Infinite)
	n.prefix(2, netB, time.Minute)
	n.pass(10 * time.Second)
	if len(n.updates()) != 0 || len(n.host.locals) != 2 {
		t.Errorf("%d updates and %d locators after the system has shown the same again", len(n.updates()), len(n.host.locals))
	}
	n.pass(50 * time.Second)
	if len(n.updates()) == 0 {
		t.Error("lifetimes at the correspondent are not kept fresh any more")
	}
}

func TestRestoreContinuesAnExchange(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.prefix(2, netB, roam.Infinite)
	n := b.successor(t)
	n.pass(time.Second)
	if len(n.updates()) == 0 {
		t.Error("the unacknowledged update is not retransmitted")
	}
	b.withdraw(1, netA)
	b.withdraw(2, netB)
	n = b.successor(t)
	n.prefix(3, netC, roam.Infinite)
	if list := n.updates(); len(list) != 1 || list[0].Locators[0].L64 != netC {
		t.Errorf("told %v on return, want the new locator", list)
	}
}

func TestRestoreOfADeadSession(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	silence(b)
	b.pass(5 * time.Second)
	n := b.successor(t)
	if !n.entries[theKey].Dead {
		t.Error("not dead any more")
	}
	n.pass(2 * time.Second)
	if len(n.probesSent()) == 0 {
		t.Error("nobody asks whether it lives")
	}
}

func TestRestoreOfAnInitiatedSession(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	b.see(Observation{Trigger: SeenMiss, Key: theKey})
	n := b.successor(t)
	n.pass(2 * time.Second)
	if n.entries[theKey].State != Plain {
		t.Error("does not fall back")
	}
}

func TestUnconfirmedLocatorsGo(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.prefix(2, netB, roam.Infinite)
	b.open(netP)
	n := b.successor(t)
	n.prefix(1, netA, roam.Infinite)
	n.pass(confirmWithin)
	if got := n.states(); len(got) != 1 || got[netA] != Active {
		t.Errorf("locators %v, want the confirmed one", got)
	}
	if list := n.updates(); len(list) == 0 || !slices.Equal(list[len(list)-1].Locators, updateOf(entry(netA, 10, 65535)).Locators) {
		t.Errorf("told %v, want the confirmed one alone at last", list)
	}
}

func TestIdleSessionsAreNotRestored(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	n := newBench(t)
	n.now = b.now.Add(time.Hour)
	if err := n.Restore(n.now, b.Export()); err != nil {
		t.Fatal(err)
	}
	n.drain()
	if len(n.entries) != 0 {
		t.Error("a session idle for an hour is back")
	}
}

func TestConfiguredModeWinsOverAnOlderCommand(t *testing.T) {
	b := newBench(t)
	b.SetMode(b.now, Hard)
	if n := b.successor(t, inMode(Duality)); n.Mode() != Duality {
		t.Errorf("mode %v, want the one configured since", n.Mode())
	}
}

func TestLinkIndexThatMeansAnotherLink(t *testing.T) {
	b := newBench(t)
	b.HandleLocator(b.now, roam.PrefixEvent{LinkLocator: roam.LinkLocator{Link: 1, L64: netA}, Present: true, Preferred: roam.Infinite, LinkName: "wlan0"})
	b.SetLinkDisabled(b.now, 1, true)
	n := b.successor(t)
	n.HandleLocator(n.now, roam.PrefixEvent{LinkLocator: roam.LinkLocator{Link: 1, L64: netB}, Present: true, Preferred: roam.Infinite, LinkName: "eth0"})
	n.drain()
	if n.states()[netB] != Active {
		t.Error("another link is disabled because it has the index of one that was")
	}
}

// TestRenamedLinkStaysDisabled: a link that this process has seen is the same one under another name, also where a
// predecessor had disabled it or its locators were gone meanwhile.
func TestRenamedLinkStaysDisabled(t *testing.T) {
	for name, c := range map[string]struct{ restart, down bool }{
		"live": {}, "down and up": {down: true}, "after a restart": {restart: true}, "both": {true, true},
	} {
		b := newBench(t)
		b.announce("a", true)
		b.SetLinkDisabled(b.now, 1, true)
		if c.restart {
			b = b.successor(t)
			b.announce("a", true)
		}
		if c.down {
			b.announce("a", false)
		}
		b.announce("b", true)
		if l := b.Locals(b.now); !l[0].Disabled || l[0].LinkName != "b" {
			t.Errorf("%s: %q is disabled: %v", name, l[0].LinkName, l[0].Disabled)
		}
	}
}

// TestCommandBeforeALocator: what is said of a link after a restart is about that link, whatever its index meant.
func TestCommandBeforeALocator(t *testing.T) {
	b := newBench(t)
	b.announce("wlan0", true)
	b.SetLinkDisabled(b.now, 1, true)
	n := b.successor(t)
	n.SetLinkDisabled(n.now, 1, true)
	n.announce("eth0", true)
	if !n.Locals(n.now)[0].Disabled {
		t.Error("a link that a command disabled is in use because another one had its index")
	}
}

func TestStateThatIsRefused(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	good := string(b.Export())
	foreign := newBench(t, func(c *Config) { c.NIDs = []roam.NID{42} })
	if err := foreign.Restore(b.now, []byte(good)); err != nil || len(foreign.sessions) != 0 {
		t.Errorf("sessions of another identifier: %v, %d sessions, want none", err, len(foreign.sessions))
	}
	for name, bad := range map[string]string{
		"empty":         "",
		"not JSON":      "{",
		"no version":    "{}",
		"other version": strings.Replace(good, `"version":1`, `"version":2`, 1),
		"nonce cut":     strings.Replace(good, `"remote_nonce":"AQIDBA=="`, `"remote_nonce":"AQID"`, 1),
		"nonce missing": strings.Replace(good, `"remote_nonce":"AQIDBA=="`, `"remote_nonce":""`, 1),
		"enumeration":   strings.Replace(good, `"update":0`, `"update":17`, 1),
		"locator":       strings.Replace(good, `"remotes":[{"l64":"2001:0db8:0001:0000"`, `"remotes":[{"l64":"fe80:0000:0000:0000"`, 1),
		"no locator":    strings.Replace(good, `"remotes":[{`, `"remotes":[],"x":[{`, 1),
	} {
		n := newBench(t)
		if bad == good {
			t.Fatalf("%s: the state does not look as expected: %s", name, good)
		}
		if err := n.Restore(n.now, []byte(bad)); !errors.Is(err, ErrState) {
			t.Errorf("%s: %v, want ErrState", name, err)
		}
		if len(n.sessions) != 0 || len(n.host.locals) != 0 {
			t.Errorf("%s: the core is not empty after an error", name)
		}
	}
}
