package daemon

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"roam"
	"roam/internal/config"
	"roam/naming"
)

// Scripts add many correspondents at once; none gets lost.
func TestPeersThatAreAddedAtOnceAreAllKept(t *testing.T) {
	d := &Daemon{cfg: config.Default()}
	d.cfg.Host.StateDir = filepath.Join(t.TempDir(), "state")
	d.cfg.Host.Hosts = filepath.Join(t.TempDir(), "hosts")
	const peers = 40
	var added sync.WaitGroup
	for i := range peers {
		added.Go(func() {
			r := naming.Record{NID: roam.NID(1<<32 + i), Names: []string{fmt.Sprintf("peer%d.example", i)}}
			if err := d.keepPeer(r); err != nil {
				t.Error(err)
			}
		})
	}
	added.Wait()
	records, err := readRecords(d.cfg)
	if err != nil || len(records) != peers {
		t.Errorf("%d correspondents kept, %v, want %d", len(records), err, peers)
	}
}
