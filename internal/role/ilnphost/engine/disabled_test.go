package engine

import (
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/hostnet"
)

// unplugged is a data plane whose links may go.
type unplugged struct{ table }

func (*unplugged) DetachUplink(roam.LinkID) error { return nil }

// startedWith starts an engine with that configuration of links out of use, beside what a predecessor has left.
func startedWith(t *testing.T, disabled []string, state []byte) *Engine {
	t.Helper()
	core, err := ilnp.New(ilnp.Config{NIDs: []roam.NID{ourNID}, Rand: chance{rand.New(rand.NewPCG(3, 4))}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "state")
	if state != nil {
		if err := os.WriteFile(file, state, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := &outside{}
	p := &unplugged{table{entries: make(map[ilnp.SessionKey]ilnp.Entry)}}
	e := New(Config{Core: core, Plane: p, Network: o, Sender: o, SessionPrefix: roam.DefaultSessionPrefix,
		StateFile: file, Disabled: disabled, Log: slog.New(slog.DiscardHandler)})
	if err := e.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// plug has a link of that name appear.
func plug(e *Engine, link roam.LinkID, name string) {
	now := time.Now()
	u := hostnet.Uplink{Link: link, Name: name, Up: true, Routed: true, HasMAC: true}
	e.handleNetwork(now, hostnet.UplinkChanged{Uplink: u})
	at := roam.LinkLocator{Link: link, L64: here}
	e.handleNetwork(now, hostnet.LocatorChanged{
		PrefixEvent: roam.PrefixEvent{LinkLocator: at, Present: true, Preferred: time.Hour, LinkName: name},
	})
}

// outOfUse reports whether the core does not use the locator of a link.
func outOfUse(t *testing.T, e *Engine, link roam.LinkID) bool {
	t.Helper()
	for _, l := range e.core.Locals(time.Now()) {
		if l.Link == link {
			return l.Disabled
		}
	}
	t.Fatalf("no locator on link %d", link)
	return false
}

// TestCommandsAboutLinksLast: a command about a link lasts across reloads, restarts and the link's return under another
// index, until the configuration changes about that link.
func TestCommandsAboutLinksLast(t *testing.T) {
	const enable, disable = "enable", "disable"
	a, ab, none := []string{"a"}, []string{"a", "b"}, []string(nil)
	for name, c := range map[string]struct {
		before  []string
		command string
		after   []string
		old     bool // the predecessor is of a build that kept no names
		want    bool
	}{
		"configured":                      {a, "", a, false, true},
		"configured since":                {none, "", a, false, true},
		"configured no more":              {a, "", none, false, false},
		"enabled":                         {a, enable, a, false, false},
		"enabled, another is configured":  {a, enable, ab, false, false},
		"disabled":                        {none, disable, none, false, true},
		"disabled, another is configured": {none, disable, []string{"b"}, false, true},
		"disabled, then in no list":       {a, disable, none, false, false},
		"enabled, then configured":        {none, enable, a, false, true},
		"disabled under an older build":   {none, disable, none, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			first := startedWith(t, c.before, nil)
			plug(first, 7, "a")
			if c.command != "" {
				first.SetDisabled(time.Now(), "a", c.command == disable)
			}
			state := first.core.Export()
			if c.old {
				state = regexp.MustCompile(`"links":\{[^}]*\},`).ReplaceAll(state, nil)
			}
			next := startedWith(t, c.after, state)
			plug(next, 7, "a")
			if got := outOfUse(t, next, 7); got != c.want {
				t.Errorf("after a restart: out of use %v", got)
			}
			next.ConfigureDisabled(time.Now(), c.after)
			if got := outOfUse(t, next, 7); got != c.want {
				t.Errorf("after a reload: out of use %v", got)
			}
			next.handleNetwork(time.Now(), hostnet.LinkGone{Link: 7, Name: "a"})
			plug(next, 8, "a")
			if got := outOfUse(t, next, 8); got != c.want {
				t.Errorf("plugged in again: out of use %v", got)
			}
		})
	}
}

// TestRenamedLinkKeepsItsPlace: a link that is out of use stays so under another name, when it is plugged in again too;
// one that gets the name of a link out of use is out of use.
func TestRenamedLinkKeepsItsPlace(t *testing.T) {
	rename := func(e *Engine, name string) {
		u := e.links[7]
		u.Name = name
		e.handleNetwork(time.Now(), hostnet.UplinkChanged{Uplink: u})
	}
	for name, c := range map[string]struct {
		configured []string
		command    bool // takes the link out of use
		a, b       bool // what another link of that name is then
	}{
		"by command":                       {nil, true, false, true},
		"by configuration":                 {[]string{"a"}, false, true, true},
		"to a name that is configured":     {[]string{"b"}, false, false, true},
		"in use, and another one is named": {[]string{"c"}, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := startedWith(t, c.configured, nil)
			plug(e, 7, "a")
			if c.command {
				e.SetDisabled(time.Now(), "a", true)
			}
			rename(e, "b")
			plug(e, 7, "b")
			if got := outOfUse(t, e, 7); got != c.b {
				t.Errorf("out of use %v", got)
			}
			e.handleNetwork(time.Now(), hostnet.LinkGone{Link: 7, Name: "b"})
			plug(e, 8, "a")
			plug(e, 9, "b")
			if a, b := outOfUse(t, e, 8), outOfUse(t, e, 9); a != c.a || b != c.b {
				t.Errorf("other links: a is out of use %v, b %v", a, b)
			}
			if next := startedWith(t, c.configured, e.core.Export()); next.disabled["b"] != c.b {
				t.Errorf("after a restart %v", next.disabled)
			}
		})
	}
}
