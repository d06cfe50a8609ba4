package bench

import (
	"context"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam/internal/testutil"
	"roam/lab/topo"
)

const (
	profileFor   = 4 * time.Second // of each contender
	profileTurns = 4               // by which that is divided
	profileRate  = "3989"          // samples a second, which no tick of the kernel divides
	leastShare   = 8               // ns; less is summed up
)

// shares logs what the functions of the kernel and the programs take, of plain IPv6 and of
// this build, if perf is installed. The samples are those of the thread that does the work.
func shares(b *testing.B, all []*contender, units int) {
	b.Helper()
	if !topo.Installed("perf") {
		b.Log("perf is not installed: no shares")
		return
	}
	names := [2]string{"plain", "now"}
	var found [2]map[string]float64
	var ns [2]float64
	for i, name := range names {
		c, sum := contenderOf(all, name), map[string]float64{}
		for range profileTurns {
			for symbol, share := range profile(b, c) {
				sum[symbol] += share / profileTurns
			}
		}
		found[i], ns[i] = sum, testutil.Estimated(c.times[whole]).Mid/float64(units)
	}
	b.Logf("shares of perf, times the medians above:\n%s", sharesTable(names, found, ns, leastShare))
}

// profile samples this thread while a contender works.
func profile(b *testing.B, c *contender) map[string]float64 {
	b.Helper()
	file := filepath.Join(b.TempDir(), "perf.data")
	ctx, cancel := context.WithTimeout(b.Context(), within)
	defer cancel()
	record := exec.CommandContext(ctx, topo.Program("perf"), "record", "-q", "-e", "cpu-clock", "-F", profileRate,
		"-t", strconv.Itoa(unix.Gettid()), "-o", file)
	must(b, record.Start())
	for began := time.Now(); time.Since(began) < profileFor/profileTurns; {
		must(b, c.slice(&stopwatch{parts: map[string]float64{}}))
	}
	must(b, record.Process.Signal(syscall.SIGINT))
	_ = record.Wait() // interrupted, as asked
	out, err := exec.CommandContext(ctx, topo.Program("perf"), "report", "-i", file, "--stdio", "--no-children",
		"-g", "none", "-F", "overhead,sym").Output()
	must(b, err)
	return parseShares(string(out))
}
