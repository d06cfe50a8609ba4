package ilnp

import (
	"errors"
	"strings"
	"testing"
	"time"

	"roam"
)

// rebooted makes a core that has the record of another one, and nothing else of it.
func (b *bench) rebooted(t testing.TB, after time.Duration, change ...func(*Config)) *bench {
	t.Helper()
	n := newBench(t, change...)
	n.now = b.now.Add(after)
	if err := n.Recall(n.now, b.Export()); err != nil {
		t.Fatal(err)
	}
	n.drain()
	return n
}

func TestCorrespondentGoesOnAfterAReboot(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	before := b.entries[theKey]

	n := b.rebooted(t, time.Minute)
	p := n.entries[theKey]
	if p.State != Established || p.LocalNonce != before.LocalNonce || p.RemoteNonce != before.RemoteNonce {
		t.Fatalf("entry %+v, want the nonces of %+v", p, before)
	}
	if len(p.Paths) != 0 || len(n.sent) != 0 {
		t.Errorf("%d paths and %d packets before there is a locator", len(p.Paths), len(n.sent))
	}
	n.prefix(5, netC, roam.Infinite) // another network, and another index of the link
	if p = n.entries[theKey]; len(p.Paths) != 1 || p.Paths[0].Local != (roam.LinkLocator{Link: 5, L64: netC}) {
		t.Errorf("paths %v", p.Paths)
	}
	if list := n.updates(); len(list) != 1 || list[0].Locators[0].L64 != netC {
		t.Errorf("told %v, want the new locator", list)
	}
}

func TestRebootEndsWhatWasUnderWay(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.prefix(2, netB, roam.Infinite)
	b.open(netP)
	b.SetMode(b.now, Duality)
	b.SetLinkDisabled(b.now, 1, true)
	silence(b)
	b.pass(5 * time.Second)
	if !b.entries[theKey].Dead {
		t.Fatal("not dead, so nothing is tested")
	}
	n := b.rebooted(t, time.Second)
	if n.Mode() != Soft || len(n.host.disabled) != 0 || len(n.host.locals) != 0 {
		t.Errorf("mode %v, disabled %v, %d locators of before", n.Mode(), n.host.disabled, len(n.host.locals))
	}
	n.prefix(1, netA, roam.Infinite)
	if n.entries[theKey].Dead || len(n.updates()) != 1 {
		t.Errorf("dead %v, %d updates", n.entries[theKey].Dead, len(n.updates()))
	}
	// It may have lost its half meanwhile, and lives by the same rules as before.
	n.see(Observation{Trigger: SeenSilence, Key: theKey})
	n.pass(5 * time.Second)
	if !n.entries[theKey].Dead {
		t.Error("nobody asks whether it lives")
	}
}

func TestRecordOfAnotherTime(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	if n := b.rebooted(t, time.Hour); len(n.entries) != 0 {
		t.Error("a session idle for an hour is back")
	}
	n := b.rebooted(t, -24*365*time.Hour) // the clock has lost the time
	if len(n.entries) != 1 {
		t.Fatal("no session")
	}
	n.prefix(1, netA, roam.Infinite)
	n.pass(n.cfg.IdleTimeout + idleUnread + time.Second)
	if len(n.entries) != 0 {
		t.Error("the session stays, as its times are in the future")
	}
}

func TestRecordHoldsWhatTheCorrespondentConfirmed(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	b.see(Observation{Trigger: SeenMiss, Key: theKey})
	if n := b.rebooted(t, time.Second); len(n.entries) != 0 || len(n.known) != 1 {
		t.Errorf("%d sessions of which the peer may know nothing, %d known", len(n.entries), len(n.known))
	}
}

func TestRecordThatIsRefused(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	good := string(b.Export())
	if n := b.rebooted(t, 0, func(c *Config) { c.NIDs = []roam.NID{42} }); len(n.sessions) != 0 {
		t.Error("sessions of another identifier")
	}
	long := newBench(t, func(c *Config) { c.NonceLength = 12 })
	long.prefix(1, netA, roam.Infinite)
	long.open(netP)
	if n := long.rebooted(t, 0); len(n.sessions) != 0 {
		t.Error("a session whose packets have no room for its nonce")
	}
	if n := long.rebooted(t, 0, func(c *Config) { c.NonceLength = 12 }); len(n.sessions) != 1 {
		t.Error("no session though its nonce is of the configured length")
	}
	for name, bad := range map[string]string{
		"empty": "", "cut": good[:len(good)/2],
		"nonce cut": strings.Replace(good, `"remote_nonce":"AQIDBA=="`, `"remote_nonce":"AQID"`, 1),
	} {
		n := newBench(t)
		if err := n.Recall(n.now, []byte(bad)); !errors.Is(err, ErrState) {
			t.Errorf("%s: %v, want ErrState", name, err)
		}
		if len(n.sessions) != 0 || len(n.known) != 0 {
			t.Errorf("%s: the core is not empty after an error", name)
		}
	}
}
