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
	sys := t.TempDir()
	for link, counters := range map[string]map[string]string{
		"wlan0": {"rx_packets": "1\n", "rx_bytes": "2\n", "tx_packets": "3\n", "tx_bytes": "4\n"},
		"eth0":  {"rx_packets": "5\n", "rx_bytes": "6\n", "tx_packets": "7\n", "tx_bytes": "18446744073709551615\n"},
		"half":  {"rx_packets": "5\n"},
	} {
		dir := filepath.Join(sys, link, "statistics")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, n := range counters {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(n), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	uplinks := map[roam.LinkID]hostnet.Uplink{1: {Name: "wlan0"}, 2: {Name: "eth0"}, 3: {Name: "half"}, 4: {Name: "gone"}}
	got := uplinkTraffic(sys, uplinks)
	want := []metrics.Uplink{
		{Link: "eth0", RxPackets: 5, RxBytes: 6, TxPackets: 7, TxBytes: 1<<64 - 1},
		{Link: "wlan0", RxPackets: 1, RxBytes: 2, TxPackets: 3, TxBytes: 4},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
