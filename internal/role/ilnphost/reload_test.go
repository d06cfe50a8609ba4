package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/internal/config"
	"roam/internal/hostnet"
)

// TestReloadTakesOverEachKey: a key of the host that needs no restart is in force after a reload.
func TestReloadTakesOverEachKey(t *testing.T) {
	h, _ := newForgetful(t)
	next, err := config.Parse("roam.conf", []byte(`[host]
mode = "hard"
hosts = "/elsewhere"
[uplinks]
disabled = ["a"]
preference = { a = 80 }
border = ["border.example"]
[dns]
upstream = ["192.0.2.1"]
`))
	if err != nil {
		t.Fatal(err)
	}
	var taken []config.Key
	for _, k := range config.Keys() {
		if k.Role() != config.RoleHost || k.Restart {
			continue
		}
		if taken = append(taken, k); k.Value(h.cfg) == k.Value(next) {
			t.Errorf("%s is not changed by this test", k.Name)
		}
	}
	h.apply(time.Now(), next)
	for _, k := range taken {
		if got := k.Value(h.cfg); got != k.Value(next) {
			t.Errorf("%s is %s after a reload, want %s", k.Name, got, k.Value(next))
		}
	}
}

// TestReloadKeepsCommandsAboutLinks: a reload that says nothing new about a link leaves it as a command has.
func TestReloadKeepsCommandsAboutLinks(t *testing.T) {
	h, _ := newForgetful(t)
	now, at := time.Now(), roam.LinkLocator{Link: 7, L64: 0x2001_0db8_0001_0001}
	h.engine.Links()[7] = hostnet.Uplink{Link: 7, Name: "a"}
	h.engine.Core().HandleLocator(now, roam.PrefixEvent{LinkLocator: at, Present: true, LinkName: "a"})
	outOfUse := func() bool { return h.engine.Core().Locals(now)[0].Disabled }
	next := h.cfg
	next.Uplinks.Disabled = []string{"a"}
	if h.apply(now, next); !outOfUse() {
		t.Fatal("a reload does not disable the link that it has found")
	}
	h.engine.SetDisabled(now, "a", false)
	if h.apply(now, next); outOfUse() {
		t.Error("a reload without a change undoes `roam locator enable`")
	}
	next.Uplinks.Disabled = nil
	h.engine.SetDisabled(now, "a", true)
	if h.apply(now, next); outOfUse() {
		t.Error("a link that has left the list stays out of use")
	}
}
