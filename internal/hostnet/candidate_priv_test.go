package hostnet

import (
	"testing"

	"roam"
	"roam/internal/testutil"
)

// Links that may become uplinks are told before they do, when they come, change and go;
// those that never may are not, nor an uplink.
func TestCandidatesAreTold(t *testing.T) {
	host, router := hostAndRouter(t)
	cfg := testConfig(t)
	cfg.Exclude = []string{"box*"}
	if _, err := host.Try("ip", "link", "add", "try0", "type", "bridge"); err != nil {
		testutil.NeedKernel(t, "bridges", false)
	}
	host.Run("ip", "link", "del", "try0")
	const vanished = roam.LinkID(9999)
	h := openIn(t, host, cfg)
	setupIn(t, h)
	h.WereCandidates(vanished)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	want := func(name string, still bool) {
		t.Helper()
		e := next(t, h, func(Candidate) bool { return true })
		if e.Name != name || e.Still != still || name != "" && still && e.Link != roam.LinkID(host.Index(name)) {
			t.Fatalf("told of %+v, want %s, %t", e, name, still)
		}
	}
	want("upA", true)
	want("", false) // the one that has vanished
	host.Run("ip", "link", "add", "box0", "type", "veth", "peer", "name", "box1")
	host.Run("ip", "link", "set", "box0", "up")
	host.Run("ip", "link", "set", "box1", "up")
	if _, err := host.Try("ip", "link", "add", "dumb0", "type", "dummy"); err == nil { // not every kernel has them
		host.Run("ip", "link", "set", "dumb0", "up")
	}
	host.Run("ip", "link", "add", "br0", "type", "bridge")
	// A veth that is given to a bridge before it is up is a container's.
	host.Run("ip", "link", "add", "c0", "type", "veth", "peer", "name", "c1")
	host.Run("ip", "link", "set", "c0", "master", "br0")
	host.Run("ip", "link", "set", "c0", "up")
	host.Run("ip", "link", "set", "c1", "up")
	want("c1", true) // its end elsewhere
	host.Run("ip", "link", "set", "br0", "up")
	want("br0", true)
	host.Run("ip", "link", "set", "c1", "down")
	host.Run("ip", "link", "del", "br0")
	want("br0", false)
	router.Advertise("lan", advert(netA))
	next(t, h, present(netA))
	host.Run("ip", "link", "set", "c1", "name", "box7")
	want("c1", false)
	host.Run("ip", "link", "add", "br1", "type", "bridge")
	host.Run("ip", "link", "set", "upA", "master", "br1")
	next(t, h, func(e LinkGone) bool { return e.Name == "upA" })
	host.Run("ip", "link", "set", "br1", "up")
	want("br1", true)
}
