package ilnphost

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"roam/ilnp"
)

// Names are looked up again while somebody is lost, when they have changed, and
// not too often.
func TestRendezvous(t *testing.T) {
	hosts, peers := filepath.Join(t.TempDir(), "hosts"), filepath.Join(t.TempDir(), "peers")
	write := func(text string) {
		if err := os.WriteFile(hosts, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("here")
	r := rendezvous{marks: marksOf(hosts, peers)}
	now := time.Unix(1000, 0)
	key := ilnp.SessionKey{Local: 1, Remote: 2}
	want := func(what string, is bool) {
		t.Helper()
		if r.due(now, hosts, peers) != is {
			t.Errorf("%s: due is %t", what, !is)
		}
	}
	write("somewhere else")
	want("nobody lost", false)
	r.note(ilnp.Event{Kind: ilnp.PeerDead, Key: key})
	want("lost, and the file has changed", true)
	want("just looked", false)
	now = now.Add(lookEvery)
	want("still lost", true)
	r.marks = marksOf(hosts, peers)
	now = now.Add(lookEvery)
	want("nothing has changed", false)
	write("moved once more")
	now = now.Add(lookEvery)
	r.note(ilnp.Event{Kind: ilnp.PeerAlive, Key: key})
	want("found", false)
}
