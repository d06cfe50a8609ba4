package topo

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// A capture that a full disk cut short must not pass for a whole one.
func TestCaptureIsWhole(t *testing.T) {
	file := make([]byte, 24)
	for range 3 {
		record := make([]byte, 16+60)
		binary.NativeEndian.PutUint32(record[8:], 60)
		file = append(file, record...)
	}
	path := filepath.Join(t.TempDir(), "x.pcap")
	for _, tt := range []struct {
		size, want int
		ok         bool
	}{{len(file), 3, true}, {len(file), 4, false}, {len(file) - 1, 3, false}, {len(file) - 70, 2, true},
		{24, 0, true}, {0, 1, false}} {
		if err := os.WriteFile(path, file[:tt.size], 0o644); err != nil {
			t.Fatal(err)
		}
		if err := holds(path, tt.want); (err == nil) != tt.ok {
			t.Errorf("%d bytes for %d packets: %v", tt.size, tt.want, err)
		}
	}
}
