package ilnphost

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/config"
	"roam/internal/control"

	"github.com/google/go-cmp/cmp"
)

var testNames = shownNames{
	Link: func(id roam.LinkID) string { return map[roam.LinkID]string{2: "wlan0"}[id] },
	Peer: func(k ilnp.SessionKey) string { return map[roam.NID]string{7: "server"}[k.Remote] },
}

func TestEveryKindHasAName(t *testing.T) {
	seen := make(map[string]bool)
	for k := ilnp.LocatorAdded; k <= ilnp.PacketsLost; k++ {
		n := kindName(k)
		if strings.HasPrefix(n, "unknown") || seen[n] {
			t.Errorf("kind %d is called %q", k, n)
		}
		seen[n] = true
	}
	if got := kindName(200); got != "unknown-200" {
		t.Errorf("KindName(200) = %q", got)
	}
	others := []string{control.KindUpdateSeen, control.KindLost} // that no host says
	if got, want := len(control.KindNames()), len(seen)+len(others); got != want {
		t.Errorf("the commands know %d kinds, want %d", got, want)
	}
	for _, n := range control.KindNames() {
		if !seen[n] && !slices.Contains(others, n) {
			t.Errorf("the commands know the kind %q, which no event has", n)
		}
	}
}

// TestWordsOfTheCommands compares the words that the commands judge by with those that a
// host says.
func TestWordsOfTheCommands(t *testing.T) {
	for word, said := range map[string]string{
		string(control.Soft): modeName(ilnp.Soft), string(control.Hard): modeName(ilnp.Hard),
		string(control.Duality): modeName(ilnp.Duality), control.AcceptKnown: acceptName(ilnp.Known),
		control.StatePlain: sessionStateName(ilnp.Plain), control.ChecksumRFC6741: ilnp.RuleRFC6741.String(),
		control.WhyNoILNP: ilnp.WhyNoILNP, control.WhyRemembered: ilnp.WhyRemembered, control.WhyNoNonce: ilnp.WhyNoNonce,
		control.WhyNoProof:             ilnp.WhyNoProof,
		control.KindSessionEstablished: kindName(ilnp.SessionEstablished),
		control.KindSessionFellBack:    kindName(ilnp.SessionFellBack),
		control.KindUpdateAcked:        kindName(ilnp.UpdateAcked), control.KindUpdateFailed: kindName(ilnp.UpdateFailed),
		control.KindPathAnswered: kindName(ilnp.PathAnswered), control.KindPathNarrowed: kindName(ilnp.PathNarrowed),
		control.KindRefused: kindName(ilnp.Refused),
	} {
		if word != said {
			t.Errorf("the commands know %q, a host says %q", word, said)
		}
	}
}

func TestLocatorFrom(t *testing.T) {
	in := ilnp.LocalState{LinkLocator: roam.LinkLocator{Link: 3, L64: 5}, State: ilnp.Expired, Preferred: roam.Infinite}
	if got, want := locatorFrom(in, testNames), (control.Locator{Link: "if3", LinkIndex: 3, L64: 5, State: "expired"}); !cmp.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	in.LinkName, in.Preferred, in.Preference = "eth0", 90*time.Second, 30
	got := locatorFrom(in, testNames)
	if got.Link != "eth0" || got.PreferredS == nil || *got.PreferredS != 90 || got.Preference != 30 {
		t.Errorf("got %+v", got)
	}
}

func TestSessionFrom(t *testing.T) {
	in := ilnp.PeerState{
		Key: ilnp.SessionKey{Local: 1, Remote: 7}, NID: 7, Names: []string{"server"}, State: ilnp.Established,
		Locators: []ilnp.RemoteState{{RemoteLocator: ilnp.RemoteLocator{L64: 9, Preference: 3, Lifetime: roam.Infinite}, State: ilnp.Active, Validated: true}},
		Paths:    []ilnp.Path{{Local: roam.LinkLocator{Link: 2, L64: 5}, Remote: 9}, {Local: roam.LinkLocator{Link: 3, L64: 5}, Remote: 9}}, RTT: 20 * time.Millisecond,
		ICMPRule: "rfc6741", LastMoveRTT: 1500 * time.Microsecond, Since: time.Unix(1, 0), Spread: ilnp.ByLength,
	}
	in.RTTs, in.Long = map[ilnp.Path]time.Duration{in.Paths[1]: 70 * time.Millisecond}, in.Paths[1:]
	in.Shares = map[ilnp.Path]float64{in.Paths[0]: 0.75, in.Paths[1]: 0.25}
	got := sessionFrom(in, roam.DefaultSessionPrefix, testNames)
	if got.Address.String() != "fd69:6c6e:7000:2627::7" || got.RTTMS != 20 || got.LastMoveMS != 1.5 || got.State != "established" || got.ChecksumICMP != "rfc6741" || got.Spread != "length" {
		t.Errorf("got %+v", got)
	}
	if want := []control.SessionPath{{Path: control.Path{Link: "wlan0", Local: 5, Remote: 9}, Share: 0.75}, {Path: control.Path{Link: "if3", Local: 5, Remote: 9}, RTTMS: 70, Share: 0.25, Long: true}}; !cmp.Equal(got.Paths, want) {
		t.Errorf("paths %+v", got.Paths)
	}
	if want := []control.RemoteLocator{{L64: 9, Preference: 3, State: "active", Validated: true}}; !cmp.Equal(got.Locators, want) {
		t.Errorf("locators %+v", got.Locators)
	}
	if got := sessionFrom(ilnp.PeerState{NID: 7}, 0, shownNames{}); got.State != control.StateKnown {
		t.Errorf("a peer without a session is %q", got.State)
	}
	b, err := json.Marshal(sessionFrom(ilnp.PeerState{}, 0, shownNames{}))
	if err != nil || strings.Contains(string(b), "null") || strings.Contains(string(b), "0001-01-01") {
		t.Errorf("an empty session is %s, %v", b, err)
	}
}

// TestViewFrom: rules have the numbers of roam.conf.
func TestViewFrom(t *testing.T) {
	rules := []ilnp.RuleShare{{Rule: 0, Share: 1}, {Rule: 3, Share: 0.2}}
	v := viewFrom(ilnp.PathView{InUse: true, Rules: rules}, testNames)
	if want := []control.RuleShare{{Rule: 1, Share: 1}, {Rule: 4, Share: 0.2}}; !v.InUse || !cmp.Equal(v.Rules, want) {
		t.Errorf("%+v", v)
	}
}

func TestEventFrom(t *testing.T) {
	in := ilnp.Event{
		Time: time.Unix(1, 0), Kind: ilnp.HandoffDone, Key: ilnp.SessionKey{Local: 1, Remote: 7},
		From: []roam.LinkLocator{{Link: 2, L64: 5}}, To: []roam.LinkLocator{{Link: 4, L64: 6}},
		Path: ilnp.Path{Local: roam.LinkLocator{Link: 2, L64: 5}, Remote: 9}, Duration: 20 * time.Millisecond, Reason: "r",
	}
	want := control.Event{
		Time: time.Unix(1, 0), Kind: "handoff-done", Peer: 7, PeerName: "server",
		From: []control.LinkLocator{{Link: "wlan0", L64: 5}}, To: []control.LinkLocator{{Link: "if4", L64: 6}},
		Path: &control.Path{Link: "wlan0", Local: 5, Remote: 9}, DurationMS: 20, Reason: "r",
	}
	if d := cmp.Diff(want, eventFrom(in, testNames)); d != "" {
		t.Errorf("EventFrom (-want +got):\n%s", d)
	}
	b, err := json.Marshal(eventFrom(ilnp.Event{Kind: ilnp.ModeChanged}, shownNames{}))
	if err != nil || string(b) != `{"time":"0001-01-01T00:00:00Z","kind":"mode-changed"}` {
		t.Errorf("the smallest event is %s, %v", b, err)
	}
}

// TestConfiguredValuesOfTheCore compares the words of roam.conf with those of the core's
// values that stand for them.
func TestConfiguredValuesOfTheCore(t *testing.T) {
	for _, tc := range []struct {
		key  string
		word func(config.Config) string
	}{
		{"host.mode", func(c config.Config) string { return modeName(coreMode[c.Host.Mode]) }},
		{"host.accept", func(c config.Config) string { return acceptName(coreAccept[c.Host.Accept]) }},
		{"ilnp.checksum", func(c config.Config) string { return coreRule[c.ILNP.Checksum].String() }},
	} {
		i := slices.IndexFunc(config.Keys(), func(k config.Key) bool { return k.Name == tc.key })
		words := strings.Split(strings.TrimPrefix(config.Keys()[i].Allowed, "one of "), ", ")
		if len(words) < 2 {
			t.Errorf("%s: %q are not all words", tc.key, words)
		}
		for _, word := range words {
			c, err := config.Parse("t", []byte(tc.key+" = "+word))
			if err != nil || strconv.Quote(tc.word(c)) != word {
				t.Errorf("%s = %s is %q to the core, %v", tc.key, word, tc.word(c), err)
			}
		}
	}
}
