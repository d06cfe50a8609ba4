package engine

import (
	"testing"
	"time"

	"roam"
	"roam/flowrule"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/hostnet"
)

// ruled is a data plane that keeps whether the rules as last written may use a link.
type ruled struct {
	table
	at    roam.LinkLocator
	there bool
}

func (p *ruled) WriteRules(number uint32, r dataplane.FlowRules) (uint32, error) {
	_, p.there = r.Link(p.at)
	return max(number, 1), nil
}

// TestRulesFollowLinksInUse: a link that is taken back into use serves flows with rules at
// once, and does not wait until something else about a link changes.
func TestRulesFollowLinksInUse(t *testing.T) {
	e, _ := withSession(t, ilnp.Established)
	p := &ruled{table: table{entries: map[ilnp.SessionKey]ilnp.Entry{}}, at: roam.LinkLocator{Link: 7, L64: here}}
	e.cfg.Plane = p
	e.links[7] = hostnet.Uplink{Link: 7, Name: "net7", Up: true, Routed: true}
	if err := e.SetRules(time.Now(), flowrule.Set{{Policy: flowrule.Equal}}); err != nil || !p.there {
		t.Fatalf("rules: %v, the link is there: %t", err, p.there)
	}
	for _, disabled := range []bool{true, false, true, false} {
		e.SetDisabled(time.Now(), "net7", disabled)
		if p.there == disabled {
			t.Errorf("disabled: %t, but rules have the link: %t", disabled, p.there)
		}
	}
}
