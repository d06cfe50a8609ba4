package ilnphost

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"roam"
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
