package ilnphost

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"roam"
	"roam/ilnp"
	"roam/internal/control"
	"roam/internal/hostnet"
	"roam/internal/metrics"
)

// TestUplinkTraffic reads the kernel's counters of the uplinks, by name; one that has gone has
// none.
func TestUplinkTraffic(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dev")
	err := os.WriteFile(file, []byte(`Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
 wlan0:       2       1    0    0    0     0          0         0        4       3    0    0    0     0       0          0
    lo:       8       9    0    0    0     0          0         0       10      11    0    0    0     0       0          0
  eth0:6 5 0 0 0 0 0 0 18446744073709551615 7 0 0 0 0 0 0
  half:6 5 0 0
   odd:6 x 0 0 0 0 0 0 1 7 0 0 0 0 0 0
`), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	uplinks := map[roam.LinkID]hostnet.Uplink{1: {Name: "wlan0"}, 2: {Name: "eth0"}, 3: {Name: "half"}, 4: {Name: "gone"}, 5: {Name: "odd"}}
	got := uplinkTraffic(file, uplinks)
	want := []metrics.Uplink{
		{Link: "eth0", RxPackets: 5, RxBytes: 6, TxPackets: 7, TxBytes: 1<<64 - 1},
		{Link: "wlan0", RxPackets: 1, RxBytes: 2, TxPackets: 3, TxBytes: 4},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestPeerMoves: updates that renew lifetimes are no moves.
func TestPeerMoves(t *testing.T) {
	var moves tally
	for _, e := range []ilnp.Event{
		{Kind: ilnp.UpdateReceived}, {Kind: ilnp.PeerMoved}, {Kind: ilnp.UpdateReceived},
		{Kind: ilnp.UpdateReceived, Moved: true},
	} {
		moves.count(e)
	}
	if moves.peerMoves != 2 {
		t.Errorf("%d moves, want 2", moves.peerMoves)
	}
}

// TestProofs: each session with ILNP counts once, by what says who its peer is.
func TestProofs(t *testing.T) {
	tally := ilnp.Tally{Keyed: 2, Listed: 3}
	tally.Sessions[ilnp.Initiated], tally.Sessions[ilnp.Established], tally.Sessions[ilnp.Plain] = 1, 5, 7
	want := map[string]uint64{control.ProofKeyed: 2, control.ProofListed: 3, control.ProofNonce: 1}
	if got := proofs(tally); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for want, p := range map[string]ilnp.PeerState{
		control.ProofKeyed: {Keyed: true, Listed: true}, control.ProofListed: {Listed: true}, control.ProofNonce: {},
		control.ProofNone: {State: ilnp.Plain},
	} {
		if got := sessionFrom(p, 1, shownNames{}).Proof; got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
}
