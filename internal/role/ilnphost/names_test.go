package ilnphost

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"roam"
	"roam/internal/config"
	"roam/naming"
)

// newKeeper returns a daemon that can write the file of added peers, and no more.
func newKeeper(t *testing.T, hosts, peers string) *Host {
	t.Helper()
	k := &Host{cfg: config.Default()}
	k.cfg.Host.StateDir = filepath.Join(t.TempDir(), "state")
	k.cfg.Host.Hosts = filepath.Join(t.TempDir(), "hosts")
	if err := os.Mkdir(k.cfg.Host.StateDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{k.cfg.Host.Hosts: hosts, k.cfg.Peers(): peers} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// Scripts add many correspondents at once; none gets lost.
func TestPeersThatAreAddedAtOnceAreAllKept(t *testing.T) {
	k := newKeeper(t, "", "")
	const peers = 40
	var added sync.WaitGroup
	for i := range peers {
		added.Go(func() {
			r := naming.Record{NID: roam.NID(1<<32 + i), Names: []string{fmt.Sprintf("peer%d.example", i)}}
			k.keeping.Lock()
			defer k.keeping.Unlock()
			if _, err := k.writeBook(func(b book) (book, error) { return b.add(r, false) }); err != nil {
				t.Error(err)
			}
		})
	}
	added.Wait()
	if h := readHosts(k.cfg); len(h.Faults) > 0 || len(h.Records) != peers {
		t.Errorf("%d correspondents kept, %v, want %d", len(h.Records), h.Faults, peers)
	}
}

// The daemon starts with whatever lines can be used, also when a file cannot be read.
func TestFaultyFilesAreReadAsFarAsTheyGo(t *testing.T) {
	k := newKeeper(t, "nid=1:2:3:4 a\nwhat\n", "nid=1:2:3:5 a\nnid=1:2:3:6 b\n")
	h := readHosts(k.cfg)
	if len(h.Records) != 2 || len(h.Faults) != 2 || unreadable(h) {
		t.Errorf("records %+v, faults %v", h.Records, h.Faults)
	}
	if err := os.Remove(k.cfg.Peers()); err != nil {
		t.Fatal(err)
	}
	if h := readHosts(k.cfg); len(h.Records) != 1 || len(h.Faults) != 1 || unreadable(h) {
		t.Errorf("without added peers: records %+v, faults %v", h.Records, h.Faults)
	}
	if err := os.Mkdir(k.cfg.Peers(), 0o755); err != nil {
		t.Fatal(err)
	}
	h = readHosts(k.cfg)
	if len(h.Records) != 1 || len(h.Faults) != 2 || !unreadable(h) || !strings.HasPrefix(h.Faults[0].Error(), k.cfg.Peers()+": cannot be read") {
		t.Errorf("of a directory: records %+v, faults %v", h.Records, h.Faults)
	}
	if _, err := k.writeBook(func(b book) (book, error) { return b, nil }); err == nil {
		t.Error("what cannot be read is written")
	}
}
