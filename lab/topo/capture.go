package topo

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Capture is a tcpdump that writes the packets of an interface to a file.
type Capture struct {
	cmd  *Cmd
	file string
	log  watcher
}

// captureBuffer is tcpdump's buffer in the kernel, in KiB: a quarter of a second at 1 Gb/s,
// in case tcpdump is not scheduled.
const captureBuffer = 32768

// Capture starts a capture of the first snaplen bytes of every packet on an interface (0:
// all bytes) that matches filter (empty: every packet). It returns when the capture is
// running, which ends with ctx, Stop, or the lab.
func (h *Host) Capture(ctx context.Context, ifname, file string, snaplen int, filter ...string) (*Capture, error) {
	// Immediate mode hands each packet to tcpdump on arrival, and -U to the file, so that
	// an experiment can read the file while it grows.
	argv := append([]string{sbin("tcpdump"), "-i", ifname, "-n", "-U", "--immediate-mode", "-Z", "root",
		"-B", strconv.Itoa(captureBuffer), "-s", strconv.Itoa(snaplen), "-w", file}, filter...)
	c := &Capture{file: file, cmd: h.Command(ctx, argv...)}
	c.cmd.Stderr = &c.log
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(os.Interrupt) }
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("capture on %s of %s: %w", ifname, h.name, err)
	}
	err := wait(startWithin, func() bool { return c.log.has("listening on") || !running(c.cmd.Process.Pid) })
	if err != nil || !c.log.has("listening on") {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		return nil, fmt.Errorf("capture on %s of %s: it does not begin: %s", ifname, h.name, strings.TrimSpace(c.log.text()))
	}
	return c, nil
}

// droppedRE matches tcpdump's count of dropped packets, caughtRE that of captured ones.
var (
	droppedRE = regexp.MustCompile(`(\d+) packets? dropped by kernel`)
	caughtRE  = regexp.MustCompile(`(\d+) packets? captured`)
)

// Stop ends the capture, completes the file, and returns the number of packets that the
// kernel dropped. Unless it is 0, the file cannot prove that a packet was absent.
func (c *Capture) Stop() (dropped int, err error) {
	_ = c.cmd.Process.Signal(syscall.SIGINT) // it may have ended with ctx
	err = c.cmd.Wait()
	m := droppedRE.FindStringSubmatch(c.log.text())
	if m == nil {
		return 0, fmt.Errorf("end capture: %w: %s", orUnknown(err), strings.TrimSpace(c.log.text()))
	}
	if n := caughtRE.FindStringSubmatch(c.log.text()); n != nil {
		caught, _ := strconv.Atoi(n[1]) // digits, by the expression
		if err := holds(c.file, caught); err != nil {
			return 0, fmt.Errorf("end capture: %w", err)
		}
	}
	return strconv.Atoi(m[1])
}

// holds reports whether a file has as many whole packets as tcpdump counted: tcpdump
// ignores a full disk.
func holds(path string, want int) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("look at capture: %w", err)
	}
	defer f.Close()
	const fileHeader, recordHeader = 24, 16 // pcap-savefile(5)
	r := bufio.NewReader(f)
	_, err = r.Discard(fileHeader)
	var head [recordHeader]byte
	n := -1
	for ; err == nil; n++ {
		if _, err = io.ReadFull(r, head[:]); err == nil {
			_, err = r.Discard(int(binary.NativeEndian.Uint32(head[8:])))
		}
	}
	if n = max(n, 0); n < want {
		return fmt.Errorf("%s holds %d of %d packets: %w", path, n, want, fullOr(path))
	}
	return nil
}

// fullOr is the likely reason why a file was cut short.
func fullOr(path string) error {
	var s unix.Statfs_t
	if unix.Statfs(path, &s) == nil && s.Bavail*uint64(s.Bsize) < 1<<20 {
		return unix.ENOSPC
	}
	return io.ErrUnexpectedEOF
}

// orUnknown replaces the nil error of a process that exited with status 0 but too early.
func orUnknown(err error) error {
	if err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

// running reports whether a child has not ended yet. It does not reap it.
func running(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// watcher collects the output of a process, and can be read while the process runs.
type watcher struct {
	mu sync.Mutex
	b  strings.Builder
}

// Write implements io.Writer.
func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *watcher) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

func (w *watcher) has(s string) bool { return strings.Contains(w.text(), s) }
