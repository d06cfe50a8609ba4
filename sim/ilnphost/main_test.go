package ilnphost

import (
	"os"
	"runtime/debug"
	"testing"
)

// The heap of a simulation is small and each packet is garbage soon: collecting it four times less often takes a
// fifth off the tests.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}
