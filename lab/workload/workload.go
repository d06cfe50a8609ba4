// Package workload runs real, unmodified applications inside the hosts of a topology, and
// the lab's own probes where exact counts are needed.
//
// It implements iperf3 over TCP and UDP, a curl download with its checksum, an interactive
// ssh session that proves that it is one connection, a video that ffmpeg sends, and the
// flows of packages udpflow, tcpflow and rtpflow. It omits topology and schedule. It is
// driven by experiments; it needs root, because hosts are network namespaces.
package workload

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"roam/lab/stallmonitor"
	"roam/lab/topo"
	"roam/lab/workload/fetch"
	"roam/lab/workload/rtpflow"
	"roam/lab/workload/tcpflow"
	"roam/lab/workload/udpflow"
)

// AgentArg is the hidden first argument with which a binary of the lab runs itself as a
// probe inside a host. A test binary that starts probes passes the following arguments to
// AgentMain in its TestMain.
const AgentArg = "lab-agent"

// AgentMain runs the probe that args name, udp-flow, tcp-flow, fetch, rtp-record or
// stall monitor, and returns the exit status.
func AgentMain(args []string) int {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	var err error
	switch name {
	case "udp-flow":
		err = udpflow.Main(args)
	case "tcp-flow":
		err = tcpflow.Main(args)
	case "fetch":
		err = fetch.Main(args)
	case "rtp-record":
		err = rtpflow.Main(args)
	case "stall-monitor":
		err = stallmonitor.Main(args)
	default:
		err = fmt.Errorf("no probe is called %q; there are udp-flow, tcp-flow, fetch, rtp-record and stall monitor", name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab-agent:", err)
		return 1
	}
	return 0
}

// Agent returns the command line of a probe.
func Agent(args ...string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own binary: %w", err)
	}
	return append([]string{self, AgentArg}, args...), nil
}

// State is how an application fares at the moment.
type State struct {
	Alive    bool      // its process runs, or ended without error
	Progress uint64    // grows with the data that its receiving end delivers
	Last     time.Time // when Progress last grew
	Detail   string    // for people
}

// Session is a running application.
type Session interface {
	Name() string
	State() State
}

// Tools names the programs that the workloads start, as the packages of Debian
// that hold them.
var Tools = map[string]string{"iperf3": "iperf3", "curl": "curl", "ssh": "openssh-client", "sshd": "openssh-server",
	"ssh-keygen": "openssh-client", "python3": "python3"}

// VideoTools are the additional tools of video streams and their clips.
var VideoTools = map[string]string{"ffmpeg": "ffmpeg", "ffprobe": "ffmpeg"}

// Missing lists the Debian packages that the workloads lack on this machine.
func Missing() (packages []string) {
	for tool, pkg := range Tools {
		if _, err := program(tool); err != nil {
			packages = append(packages, pkg)
		}
	}
	return packages
}

// program finds a program also where the PATH of an ordinary account does not
// look.
func program(name string) (string, error) {
	for _, dir := range []string{"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"} {
		if p, err := exec.LookPath(dir + "/" + name); err == nil {
			return p, nil
		}
	}
	p, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("find program %s (Debian package %s): %w", name, cmp.Or(Tools[name], VideoTools[name]), err)
	}
	return p, nil
}

// process is a running program whose output is read line by line.
type process struct {
	cmd   *topo.Cmd
	stdin io.WriteCloser
	pipes []io.Closer   // our ends of its output
	done  chan struct{} // closed after its end, when its output has been read

	mu       sync.Mutex
	err      error  // why it ended
	errs     string // the last part of its standard error
	progress uint64
	last     time.Time
	detail   string
}

// start runs a command; line is called with the process and each line of its
// standard output.
func start(cmd *topo.Cmd, line func(*process, string)) (*process, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("open standard input of %s: %w", cmd.Args[0], err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("open standard output of %s: %w", cmd.Args[0], err)
	}
	diag, err := cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("open standard error of %s: %w", cmd.Args[0], err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Args[0], err)
	}
	p := &process{cmd: cmd, stdin: in, pipes: []io.Closer{out, diag}, done: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() {
		scan(out, func(l string) {
			if line != nil {
				line(p, l)
			}
		})
	})
	wg.Go(func() { scan(diag, p.complain) })
	go func() {
		wg.Wait()
		err := cmd.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(p.done)
	}()
	return p, nil
}

func scan(r io.Reader, line func(string)) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		line(s.Text())
	}
	_, _ = io.Copy(io.Discard, r) // a line too long must not block the program
}

// complain stores the last few hundred bytes of standard error.
func (p *process) complain(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs += line + "\n"
	p.errs = p.errs[max(0, len(p.errs)-600):]
}

// grow records progress now, if there is any.
func (p *process) grow(progress uint64, detail string) { p.grewAt(time.Now(), progress, detail) }

// grewAt records progress that was made at a known time.
func (p *process) grewAt(at time.Time, progress uint64, detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if progress > p.progress {
		p.progress, p.last = progress, at
	}
	p.detail = detail
}

// state is alive while the process runs, and after it ended without error; the detail of a
// failure is the output of the process.
func (p *process) state() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := State{Alive: !p.ended() || p.err == nil, Progress: p.progress, Last: p.last, Detail: p.detail}
	if !s.Alive {
		s.Detail = strings.TrimSpace(fmt.Sprintf("%v %s", p.err, p.errs))
	}
	return s
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wait waits for the end of the process; its error quotes standard error. One that has ended has done so even if ctx is
// over.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.done:
	case <-ctx.Done():
		if !p.ended() {
			return fmt.Errorf("wait for %s: %w", p.cmd.Args[0], ctx.Err())
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return fmt.Errorf("%s: %w: %s", p.cmd.Args[0], p.err, strings.TrimSpace(p.errs))
	}
	return nil
}

// killGrace is how long the output of a killed process may stay open before it is closed: a
// child of it may hold the other end.
const killGrace = 300 * time.Millisecond

// kill kills the process.
func (p *process) kill() {
	if !p.ended() && p.cmd.Process != nil {
		_ = p.cmd.Process.Kill()
	}
	select {
	case <-p.done:
		return
	case <-time.After(killGrace):
	}
	for _, c := range p.pipes {
		_ = c.Close()
	}
	<-p.done
}

// listening waits until a socket of that protocol ("tcp6", "udp6", "tcp",
// "udp") on the host is bound to the port.
func listening(ctx context.Context, h *topo.Host, proto string, port int) error {
	table := "/proc/thread-self/net/" + proto
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return topo.Wait(ctx, fmt.Sprintf("%s port %d on %s", proto, port, h.Name()), func() bool {
		var b []byte
		_ = h.Do(func() (err error) {
			b, err = os.ReadFile(table)
			return err
		})
		return bound(string(b), port)
	})
}

// bound looks for a local port in a table of /proc/net. A TCP socket counts
// only when it listens (state 0A).
func bound(table string, port int) bool {
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
			continue
		}
		if f[3] == "0A" || f[3] == "07" {
			return true
		}
	}
	return false
}
