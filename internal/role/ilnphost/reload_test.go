package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/internal/hostnet"
)

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
