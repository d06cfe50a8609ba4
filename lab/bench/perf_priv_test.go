package bench

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam/internal/testutil"
	"roam/lab/topo"
)

const (
	profileFor   = 2 * time.Second // of processor time, of each contender
	profileTurns = 2               // by which that is divided
	profileRate  = "3989"          // samples a second, which no tick of the kernel divides
	leastShare   = 8               // ns; less is summed up
)

// shares logs what the functions of the kernel and the programs take, of plain IPv6 and of
// this build, if perf is installed. The samples are those of the threads that do the work.
func shares(b *testing.B, threads crew, all []*contender, units int) {
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
			for symbol, share := range profile(b, threads, c) {
				sum[symbol] += share / profileTurns
			}
		}
		found[i], ns[i] = sum, testutil.Estimated(c.times[whole]).Mid/float64(units)
	}
	b.Logf("shares of perf, times the medians above:\n%s", sharesTable(names, found, ns, leastShare))
}

// profile samples the threads while a contender works.
func profile(b *testing.B, threads crew, c *contender) map[string]float64 {
	b.Helper()
	var ids []string
	for i := range threads.size() {
		threads.do(b, i, func() error {
			ids = append(ids, strconv.Itoa(unix.Gettid()))
			return nil
		})
	}
	file := filepath.Join(b.TempDir(), "perf.data")
	ctx, cancel := context.WithTimeout(b.Context(), within)
	defer cancel()
	record := exec.CommandContext(ctx, topo.Program("perf"), "record", "-q", "-e", "cpu-clock", "-F", profileRate,
		"-t", strings.Join(ids, ","), "-o", file)
	var said bytes.Buffer
	record.Stderr = &said
	must(b, record.Start())
	begun := func() bool { s, err := os.Stat(file); return err == nil && s.Size() > 0 }
	testutil.Eventually(b, within, begun, "perf to record")
	var worked time.Duration
	for n := 0; worked < profileFor/profileTurns; n++ {
		threads.do(b, n, func() error {
			s := newStopwatch(threadTime)
			s.thread = n % threads.size()
			began := threadTime()
			defer func() { worked += threadTime() - began }()
			return c.slice(s)
		})
	}
	must(b, record.Process.Signal(syscall.SIGINT))
	_ = record.Wait() // interrupted, as asked
	out, err := exec.CommandContext(ctx, topo.Program("perf"), "report", "-i", file, "--stdio", "--no-children",
		"-g", "none", "-F", "overhead,sym").Output()
	must(b, err)
	found := parseShares(string(out))
	if len(found) == 0 {
		b.Errorf("no samples: %s%s", said.String(), out)
	}
	return found
}
