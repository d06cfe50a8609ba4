package acceptance

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"roam/internal/testutil"
)

// TestDisabledLinks: links stay in or out of use by command through reloads, restarts and renames; `roam down` ends
// that, and the configuration holds again.
func TestDisabledLinks(t *testing.T) {
	needs(t)
	w := newWorld(t, "disabled", 0, place{"mn", 2, true})
	mn := w.newHost("mn", settings{more: "[uplinks]\ndisabled = [\"net2\"]\n"}).start()
	become := func(when string, want ...string) {
		t.Helper()
		testutil.Eventually(t, patience, func() bool {
			var list []struct {
				Link     string
				Disabled bool
			}
			var disabled []string
			err := mn.AskFor(t.Context(), &list, "locator", "show")
			for _, l := range list {
				if l.Disabled {
					disabled = append(disabled, l.Link)
				}
			}
			return err == nil && len(list) == 2 && slices.Equal(disabled, want)
		}, fmt.Sprintf("%s: %v out of use", when, want))
	}
	restart := func() {
		mn.signal(syscall.SIGTERM)
		mn.start()
	}
	become("at first", "net2")
	mn.roam("locator", "enable", "net2")
	mn.roam("locator", "disable", "net1")
	become("by command", "net1")
	mn.roam("config", "reload")
	become("after a reload", "net1")
	restart()
	become("after a restart", "net1")
	w.must("mn", "ip", "link", "set", "net1", "down")
	w.must("mn", "ip", "link", "set", "net1", "name", "wan1")
	w.must("mn", "ip", "link", "set", "wan1", "up")
	become("renamed", "wan1")
	restart()
	become("after another restart", "wan1")
	mn.down()
	mn.start()
	become("after roam down", "net2")
}
