package topo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// drainWithin bounds how long Wait reads on after the process ended, for the
// case that a child of it holds the pipe open.
const drainWithin = 2 * time.Second

// Cmd is an exec.Cmd whose process starts on a host. Fields and methods are those of
// exec.Cmd; Cmd replaces the methods that start the process.
type Cmd struct {
	*exec.Cmd
	host *Host
	app  bool
}

// Command prepares a command in the host's network namespace and cgroup, but in the
// caller's mount namespace, whose files and mounts it shares. Daemons run so. The command
// is a session of its own, as a service is: kernels share processors among sessions, and a busy
// program in the lab's session would keep it waiting for seconds. It is killed when ctx ends,
// when the lab closes, or when this process dies.
func (h *Host) Command(ctx context.Context, argv ...string) *Cmd {
	return h.command(ctx, false, argv)
}

// AppCommand is Command for applications. They run in a mount namespace in which
// /etc/resolv.conf and /etc/hosts are the host's files.
func (h *Host) AppCommand(ctx context.Context, argv ...string) *Cmd {
	return h.command(ctx, true, argv)
}

func (h *Host) command(ctx context.Context, app bool, argv []string) *Cmd {
	if len(argv) == 0 {
		argv = []string{""} // exec.Cmd reports it when it starts
	}
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.WaitDelay = drainWithin
	c.SysProcAttr = &syscall.SysProcAttr{
		UseCgroupFD: true,
		CgroupFD:    int(h.cgFile.Fd()),
		Setsid:      true,
		Pdeathsig:   syscall.SIGKILL,
	}
	return &Cmd{Cmd: c, host: h, app: app}
}

// Start starts the process, see exec.Cmd.
func (c *Cmd) Start() error {
	w, err := c.host.worker(c.app)
	if err != nil {
		return err
	}
	return w.do(func() error {
		// The emulator makes all threads of this process real-time threads; processes on a
		// host must not inherit that.
		err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}, 0)
		if err != nil {
			return fmt.Errorf("become an ordinary thread: %w", err)
		}
		if c.app {
			if err := c.host.bindFiles(); err != nil {
				return err
			}
		}
		return c.Cmd.Start()
	})
}

// Run starts the process and waits for it, see exec.Cmd.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the process and returns what it wrote to standard output, see
// exec.Cmd. An error quotes the end of standard error.
func (c *Cmd) Output() ([]byte, error) {
	var out, diag bytes.Buffer
	c.Stdout = &out
	if c.Stderr == nil {
		c.Stderr = &diag
	}
	err := c.Run()
	if err != nil && diag.Len() > 0 {
		err = fmt.Errorf("%w: %s", err, tail(diag.Bytes(), 500))
	}
	return out.Bytes(), err
}

// CombinedOutput runs the process and returns all that it wrote, see
// exec.Cmd.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}

// tail returns at most n bytes from the end of b, without surrounding space.
func tail(b []byte, n int) []byte {
	b = bytes.TrimSpace(b)
	return b[max(0, len(b)-n):]
}

// worker is an OS thread in a namespace that starts processes. A child is killed when the
// thread that started it ends (PR_SET_PDEATHSIG is per thread), so these threads live as
// long as the host.
type worker struct {
	jobs chan func()
	quit chan struct{} // closed to end the thread
	gone chan struct{} // closed when it takes no more jobs
}

// newWorker starts a thread that runs enter first.
func newWorker(enter func() error) (*worker, error) {
	w := &worker{jobs: make(chan func()), quit: make(chan struct{}), gone: make(chan struct{})}
	ready := make(chan error)
	go func() {
		// Never unlocked: the thread is of no use to anyone else.
		runtime.LockOSThread()
		defer close(w.gone)
		err := enter()
		ready <- err
		if err == nil {
			w.serve()
		}
	}()
	if err := <-ready; err != nil {
		return nil, err
	}
	return w, nil
}

// serve runs jobs until stop is called.
func (w *worker) serve() {
	for {
		select {
		case job := <-w.jobs:
			job()
		case <-w.quit:
			return
		}
	}
}

// do runs f on the thread.
func (w *worker) do(f func() error) error {
	ch := make(chan error)
	select {
	case w.jobs <- func() { ch <- f() }:
		return <-ch
	case <-w.gone:
		return errClosed
	}
}

// stop ends the thread after its current job.
func (w *worker) stop() {
	close(w.quit)
	<-w.gone
}

// errClosed is the error of a start after the lab was closed.
var errClosed = errors.New("lab is closed")

// worker returns the thread that starts the host's processes, and makes it
// for the first one.
func (h *Host) worker(app bool) (*worker, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errClosed
	}
	slot, enter := &h.net, h.enterNet
	if app {
		slot, enter = &h.app, h.enterApp
	}
	if *slot == nil {
		w, err := newWorker(enter)
		if err != nil {
			return nil, fmt.Errorf("start thread of host %s: %w", h.name, err)
		}
		*slot = w
	}
	return *slot, nil
}

// stopWorkers prevents the start of further processes.
func (h *Host) stopWorkers() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, w := range []*worker{h.net, h.app} {
		if w != nil {
			w.stop()
		}
	}
	h.net, h.app = nil, nil
}

// enterNet moves the calling thread into the host's network namespace.
func (h *Host) enterNet() error {
	if err := unix.Setns(int(h.netns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
	}
	return nil
}

// enterApp is the same with a mount namespace of the thread's own. Mounts propagate into
// it, none propagates out.
func (h *Host) enterApp() error {
	if err := h.enterNet(); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("close mount namespace: %w", err)
	}
	return nil
}

// bindFiles mounts the host's files over those in /etc, on the thread of applications. A
// bind mount refers to one file, so bindFiles repeats it after a file was replaced.
func (h *Host) bindFiles() error {
	for src, dst := range map[string]string{
		h.ResolvConf(): "/etc/resolv.conf",
		h.HostsFile():  "/etc/hosts",
	} {
		var have, want unix.Stat_t
		if err := unix.Stat(src, &want); err != nil {
			return fmt.Errorf("look at %s: %w", filepath.Base(src), err)
		}
		// Follow symbolic links, as the mount below does.
		if err := unix.Stat(dst, &have); err != nil {
			return fmt.Errorf("look at %s: %w", dst, err)
		}
		if have.Ino == want.Ino && have.Dev == want.Dev {
			continue
		}
		// The kernel mounts nothing on a removed file, so unmount the old one first.
		// EINVAL: it was not mounted.
		if err := unix.Unmount(dst, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unbind %s: %w", dst, err)
		}
		if err := unix.Mount(src, dst, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s: %w", dst, err)
		}
	}
	return nil
}

// killInNetns kills the processes that live in a named namespace, other than
// this one, and waits until none is left.
func killInNetns(name string) error {
	var st unix.Stat_t
	err := unix.Stat(filepath.Join(netnsDir, name), &st)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at namespace %s: %w", name, err)
	}
	want := fmt.Sprintf("net:[%d]", st.Ino)
	err = wait(killWithin, func() bool {
		pids := pidsInNetns(want)
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		return len(pids) == 0
	})
	if err != nil {
		return fmt.Errorf("kill processes in namespace %s: %w", name, err)
	}
	return nil
}

// pidsInNetns lists the processes of a network namespace, which want names as
// /proc/PID/ns/net does.
func pidsInNetns(want string) (pids []int) {
	for _, pid := range allPids() {
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err == nil && ns == want && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}
