package control

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/ilnp"

	"github.com/google/go-cmp/cmp"
)

var testNames = Names{
	Link: func(id roam.LinkID) string { return map[roam.LinkID]string{2: "wlan0"}[id] },
	Peer: func(k ilnp.SessionKey) string { return map[roam.NID]string{7: "server"}[k.Remote] },
}

func TestEveryKindHasAName(t *testing.T) {
	seen := make(map[string]bool)
	for k := ilnp.LocatorAdded; k <= ilnp.HandoffReturned; k++ {
		n := KindName(k)
		if strings.HasPrefix(n, "unknown") || seen[n] {
			t.Errorf("kind %d is called %q", k, n)
		}
		seen[n] = true
	}
	if got := KindName(200); got != "unknown-200" {
		t.Errorf("KindName(200) = %q", got)
	}
	if got, want := len(KindNames()), len(seen)+2; got != want {
		t.Errorf("KindNames has %d names, want %d", got, want)
	}
}

func TestParseMode(t *testing.T) {
	for _, m := range []ilnp.Mode{ilnp.Soft, ilnp.Hard, ilnp.Duality} {
		if got, err := ParseMode(ModeName(m)); err != nil || got != m {
			t.Errorf("ParseMode(%q) = %v, %v", ModeName(m), got, err)
		}
	}
	if _, err := ParseMode(""); err == nil {
		t.Error("the empty mode is accepted")
	}
}

func TestLocatorFrom(t *testing.T) {
	in := ilnp.LocalState{LinkLocator: roam.LinkLocator{Link: 3, L64: 5}, State: ilnp.Expired, Preferred: roam.Infinite}
	if got, want := LocatorFrom(in, testNames), (Locator{Link: "if3", LinkIndex: 3, L64: 5, State: "expired"}); !cmp.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	in.LinkName, in.Preferred = "eth0", 90*time.Second
	if got := LocatorFrom(in, testNames); got.Link != "eth0" || got.PreferredS == nil || *got.PreferredS != 90 {
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
	got := SessionFrom(in, roam.DefaultSessionPrefix, testNames)
	if got.Address.String() != "fd69:6c6e:7000:2627::7" || got.RTTMS != 20 || got.LastMoveMS != 1.5 || got.State != "established" || got.ChecksumICMP != "rfc6741" || got.Spread != "length" {
		t.Errorf("got %+v", got)
	}
	if want := []SessionPath{{Path: Path{Link: "wlan0", Local: 5, Remote: 9}, Share: 0.75}, {Path: Path{Link: "if3", Local: 5, Remote: 9}, RTTMS: 70, Share: 0.25, Long: true}}; !cmp.Equal(got.Paths, want) {
		t.Errorf("paths %+v", got.Paths)
	}
	if want := []RemoteLocator{{L64: 9, Preference: 3, State: "active", Validated: true}}; !cmp.Equal(got.Locators, want) {
		t.Errorf("locators %+v", got.Locators)
	}
	if got := SessionFrom(ilnp.PeerState{NID: 7}, 0, Names{}); got.State != StateKnown {
		t.Errorf("a peer without a session is %q", got.State)
	}
	b, err := json.Marshal(SessionFrom(ilnp.PeerState{}, 0, Names{}))
	if err != nil || strings.Contains(string(b), "null") || strings.Contains(string(b), "0001-01-01") {
		t.Errorf("an empty session is %s, %v", b, err)
	}
}

func TestEventFrom(t *testing.T) {
	in := ilnp.Event{
		Time: time.Unix(1, 0), Kind: ilnp.HandoffDone, Key: ilnp.SessionKey{Local: 1, Remote: 7},
		From: []roam.LinkLocator{{Link: 2, L64: 5}}, To: []roam.LinkLocator{{Link: 4, L64: 6}},
		Path: ilnp.Path{Local: roam.LinkLocator{Link: 2, L64: 5}, Remote: 9}, Duration: 20 * time.Millisecond, Reason: "r",
	}
	want := Event{
		Time: time.Unix(1, 0), Kind: "handoff-done", Peer: 7, PeerName: "server",
		From: []LinkLocator{{"wlan0", 5}}, To: []LinkLocator{{"if4", 6}},
		Path: &Path{"wlan0", 5, 9}, DurationMS: 20, Reason: "r",
	}
	if d := cmp.Diff(want, EventFrom(in, testNames)); d != "" {
		t.Errorf("EventFrom (-want +got):\n%s", d)
	}
	b, err := json.Marshal(EventFrom(ilnp.Event{Kind: ilnp.ModeChanged}, Names{}))
	if err != nil || string(b) != `{"time":"0001-01-01T00:00:00Z","kind":"mode-changed"}` {
		t.Errorf("the smallest event is %s, %v", b, err)
	}
}

func TestNoTypeNamesANonce(t *testing.T) {
	b, err := json.Marshal([]any{Status{}, Locator{}, Session{InUse: &Path{}, Locators: []RemoteLocator{{}}}, Event{Path: &Path{}}, Peer{}, Probed{Paths: []ProbedPath{{}}, Echo: &PlainEcho{}}})
	if err != nil || strings.Contains(strings.ToLower(string(b)), "nonce") {
		t.Errorf("a nonce may get out: %s, %v", b, err)
	}
}
