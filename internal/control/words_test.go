package control

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestParseMode(t *testing.T) {
	for _, m := range []Mode{Soft, Hard, Duality} {
		if got, err := ParseMode(string(m)); err != nil || got != m {
			t.Errorf("ParseMode(%q) = %v, %v", m, got, err)
		}
	}
	if _, err := ParseMode(""); err == nil {
		t.Error("the empty mode is accepted")
	}
}

func TestNoTypeNamesANonce(t *testing.T) {
	b, err := json.Marshal([]any{Status{}, Locator{}, Session{InUse: &Path{}, Locators: []RemoteLocator{{}}}, Event{Path: &Path{}}, Peer{}, Probed{Paths: []ProbedPath{{}}, Echo: &PlainEcho{}}})
	if err != nil || strings.Contains(strings.ToLower(string(b)), "nonce") {
		t.Errorf("a nonce may get out: %s, %v", b, err)
	}
}
