package runner

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"roam/lab/exp"
	"roam/lab/result"
	"roam/lab/topo"
)

// guestVariable is set in the guests of the engine vm.
const guestVariable = "ROAM_LAB_GUEST"

func inGuest() bool { return os.Getenv(guestVariable) != "" }

// guestScript starts a guest; its own comment says how. It belongs to the source tree, so
// the engine vm needs a bin/roam-lab inside one.
const guestScript = "../build/kernels/lab"

// guest measures once in a guest with virtual time: it runs the same command there and
// reads its result.
func (r *runner) guest(ctx context.Context, n int, _ *exp.Store) (*result.Result, bool, error) {
	script := filepath.Join(r.bin, guestScript)
	if _, err := os.Stat(script); err != nil {
		return nil, false, fmt.Errorf("find what starts guests: %w: the engine vm takes the bin/roam-lab of a source tree",
			err)
	}
	dir, err := topo.TempDir()
	if err != nil {
		return nil, false, err
	}
	defer os.RemoveAll(dir)
	pcap, err := r.pcapDir(n)
	if err != nil {
		return nil, false, err
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, script, append(append([]string{dir}, r.guestTools()...), r.guestArgs(n)...)...)
	cmd.Env = append(os.Environ(), "SEED="+strconv.FormatUint(r.seed(n), 10))
	// In a process group of its own, which an interrupt ends; the script ends the guest,
	// also when this process is killed. The death signal follows the thread that
	// started it, so that thread must not end.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	r.say("%s runs in a guest; it takes some times as long as in real time, and shows nothing before it is over",
		r.exp.Name)
	runErr := cmd.Run()
	b, err := os.ReadFile(filepath.Join(dir, guestResult))
	if err != nil {
		return nil, false, fmt.Errorf("run in a guest: %w: %s", cmp.Or(runErr, err), tail(said.Bytes(), 2000))
	}
	res := result.New("")
	if err := json.Unmarshal(b, res); err != nil {
		return nil, false, fmt.Errorf("decode the guest's result: %w: %s", err, tail(said.Bytes(), 2000))
	}
	sum := sha256.Sum256(b)
	res.Guest = &result.Guest{WallSeconds: time.Since(began).Seconds(), SHA256: hex.EncodeToString(sum[:])}
	if pcap != "" {
		if err := os.CopyFS(pcap, os.DirFS(filepath.Join(dir, guestPcap))); err != nil {
			return nil, false, fmt.Errorf("keep the guest's captures: %w", err)
		}
		res.Captures = filesIn(pcap)
	}
	return res, false, nil
}

// Files that the guest leaves in its directory.
const (
	guestResult = "result.json"
	guestPcap   = "pcap"
)

// guestTools are the programs that the guest needs of this machine.
func (r *runner) guestTools() []string { return slices.Sorted(maps.Keys(r.exp.Tools)) }

// guestArgs is the command that runs in the guest.
func (r *runner) guestArgs(n int) []string {
	args := []string{"--", "run", r.exp.Name, "--engine", exp.VM, "--preset", r.opt.Preset,
		"--seed", strconv.FormatUint(r.seed(n), 10), "--json", guestResult}
	for _, s := range r.opt.Set {
		args = append(args, "--set", s)
	}
	if r.opt.Pcap != "" {
		args = append(args, "--pcap", guestPcap)
	}
	return args
}

// tail returns the end of a program's output.
func tail(b []byte, n int) []byte {
	if len(b) > n {
		b = b[len(b)-n:]
	}
	return bytes.TrimSpace(b)
}
