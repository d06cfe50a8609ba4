package workload

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"roam/lab/topo"
	"roam/lab/workload/tcpflow"
	"roam/lab/workload/udpflow"
)

// UDPOptions describe a flow of numbered datagrams, see package udpflow.
type UDPOptions struct {
	Name     string
	Target   string // name or address as the probe is given it
	Port     int
	Up, Down int // datagrams per second from and to the beginning end
	Size     int // bytes of payload
	// What the beginning end makes up for at once, at most, after it did not run; 0: udpflow.BurstMost. A longer burst
	// than a queue holds is lost there, whatever is measured.
	Burst time.Duration
	// Of what the beginning end sends, for rules that match flows.
	Class  uint8  // traffic class
	Cgroup string // directory of the cgroup2 in which that end runs; "" is the host's
}

// UDP is a running flow.
type UDP struct {
	opt         UDPOptions
	wait, begin *process
	waitOut     string
	beginOut    string
	errors      [2]int // datagrams refused by the receive buffers of each end
}

// StartUDP starts the listening end on one host and the initiating end on another. The logs
// are in dir.
func StartUDP(ctx context.Context, server, client *topo.Host, dir string, opt UDPOptions) (*UDP, error) {
	u := &UDP{opt: opt, waitOut: filepath.Join(dir, opt.Name+"-cn"), beginOut: filepath.Join(dir, opt.Name+"-mn")}
	size := strconv.Itoa(opt.Size)
	argv, err := Agent("udp-flow", "--listen", fmt.Sprintf("[::]:%d", opt.Port), "--rate", strconv.Itoa(opt.Down),
		"--size", size, "--out", u.waitOut)
	if err != nil {
		return nil, err
	}
	if u.wait, err = start(server.AppCommand(ctx, argv...), func(p *process, l string) { u.hear(p, 0, l) }); err != nil {
		return nil, err
	}
	if err := listening(ctx, server, "udp6", opt.Port); err != nil {
		u.wait.kill()
		return nil, err
	}
	argv, err = Agent("udp-flow", "--to", hostPort(opt.Target, opt.Port), "--rate", strconv.Itoa(opt.Up), "--size",
		size, "--class", strconv.Itoa(int(opt.Class)), "--burst", cmp.Or(opt.Burst, udpflow.BurstMost).String(),
		"--out", u.beginOut)
	if err == nil {
		argv = inCgroup(opt.Cgroup, argv)
		u.begin, err = start(client.AppCommand(ctx, argv...), func(p *process, l string) { u.hear(p, 1, l) })
	}
	if err != nil {
		u.wait.kill()
		return nil, err
	}
	return u, nil
}

// inCgroup returns a command line that runs another one in a cgroup.
func inCgroup(cgroup string, argv []string) []string {
	if cgroup == "" {
		return argv
	}
	return append([]string{"/bin/sh", "-c", `echo $$ >"$0"/cgroup.procs && exec "$@"`, cgroup}, argv...)
}

// hear parses a status line of one of the ends.
func (u *UDP) hear(p *process, end int, line string) {
	f := strings.Fields(line)
	switch {
	case len(f) == 2 && f[0] == "rcvbuf_errors":
		u.errors[end], _ = strconv.Atoi(f[1])
	case len(f) == 3:
		got, _ := strconv.ParseUint(f[1], 10, 64)
		p.grow(got, f[1]+" datagrams")
	}
}

// Name returns the name given in the options.
func (u *UDP) Name() string { return u.opt.Name }

// State returns the progress of the flow: the arrivals at the listening end, or at the
// initiating one if only that receives.
func (u *UDP) State() State {
	if u.opt.Up == 0 {
		return u.begin.state()
	}
	return u.wait.state()
}

// Stop ends the sending, waits for datagrams in flight, and reads both logs: from the
// initiating end to the listening one, and back.
func (u *UDP) Stop(ctx context.Context, drain time.Duration) (up, down *udpflow.Flow, err error) {
	for _, p := range []*process{u.begin, u.wait} {
		_, _ = fmt.Fprintln(p.stdin, "stop") // wait reports an end that has died
	}
	u.settle(ctx, drain)
	for _, p := range []*process{u.begin, u.wait} {
		_ = p.stdin.Close()
	}
	ctx, cancel := context.WithTimeout(ctx, drainWithin)
	defer cancel()
	for _, p := range []*process{u.begin, u.wait} {
		if err := p.wait(ctx); err != nil {
			return nil, nil, err
		}
	}
	if up, err = udpflow.Load(u.beginOut, u.waitOut); err != nil {
		return nil, nil, err
	}
	down, err = udpflow.Load(u.waitOut, u.beginOut)
	return up, down, err
}

// settle waits until nothing has arrived at either end for a while.
func (u *UDP) settle(ctx context.Context, quiet time.Duration) {
	began := time.Now()
	_ = topo.Wait(ctx, "datagrams under way", func() bool {
		last := began
		for _, p := range []*process{u.begin, u.wait} {
			if s := p.state(); s.Last.After(last) {
				last = s.Last
			}
		}
		return time.Since(last) > quiet
	})
}

// BufferErrors returns the number of datagrams that the receive buffers of both ends
// dropped; valid after Stop. Unless it is 0, losses cannot be measured.
func (u *UDP) BufferErrors() int { return u.errors[0] + u.errors[1] }

// Kill kills both ends.
func (u *UDP) Kill() {
	u.begin.kill()
	u.wait.kill()
}

// TCPOptions describe a paced connection, see package tcpflow.
type TCPOptions struct {
	Name   string
	Target string
	Port   int
	Size   int           // bytes of a message
	Every  time.Duration // pause between messages
	Down   bool          // the waiting end sends
	Answer bool          // the receiving end answers each message with a byte
	CC     string        // congestion control of the sender; "" for the kernel's default
	MPTCP  bool          // both ends use the kernel's Multipath TCP
}

// TCP is a running paced connection.
type TCP struct {
	opt     TCPOptions
	tx, rx  *process
	rxOut   string
	broken  uint64
	outcome string
}

// StartTCP starts the listening end on one host and the connecting one on another. The log
// is in dir.
func StartTCP(ctx context.Context, server, client *topo.Host, dir string, opt TCPOptions) (*TCP, error) {
	t := &TCP{opt: opt}
	base := []string{"tcp-flow", "--size", strconv.Itoa(opt.Size), "--every", opt.Every.String(), "--cc", opt.CC}
	if opt.MPTCP {
		base = append(base, "--mptcp")
	}
	end := func(h *topo.Host, sends bool, where ...string) (*process, error) {
		out := filepath.Join(dir, opt.Name+map[bool]string{true: "-tx", false: "-rx"}[sends])
		args := append(append([]string{}, base...), append(where, "--out", out)...)
		if opt.Answer {
			args = append(args, "--answer")
		}
		if sends {
			args = append(args, "--send")
		} else {
			t.rxOut = out
		}
		argv, err := Agent(args...)
		if err != nil {
			return nil, err
		}
		var p *process
		p, err = start(h.AppCommand(ctx, argv...), func(p *process, l string) { t.hear(p, sends, l) })
		if sends {
			t.tx = p
		} else {
			t.rx = p
		}
		return p, err
	}
	wait, err := end(server, opt.Down, "--listen", fmt.Sprintf("[::]:%d", opt.Port))
	if err != nil {
		return nil, err
	}
	if err := listening(ctx, server, "tcp6", opt.Port); err != nil {
		wait.kill()
		return nil, err
	}
	if _, err := end(client, !opt.Down, "--to", hostPort(opt.Target, opt.Port)); err != nil {
		wait.kill()
		return nil, err
	}
	return t, nil
}

// hear parses a status line; only those of the receiving end count.
func (t *TCP) hear(p *process, sends bool, line string) {
	if sends {
		return
	}
	if reason, ok := strings.CutPrefix(line, "end "); ok {
		t.outcome = reason
		return
	}
	var bytes uint64
	if _, err := fmt.Sscan(line, &bytes, &t.broken); err == nil {
		p.grow(bytes, fmt.Sprintf("%.1f MB", float64(bytes)/1e6))
	}
}

// Name returns the name given in the options.
func (t *TCP) Name() string { return t.opt.Name }

// State returns the progress at the receiving end.
func (t *TCP) State() State { return t.rx.state() }

// Stop closes the connection in good order and reads the log. Its error reports a broken
// connection, or data that differ from those sent; the log has what came until then.
func (t *TCP) Stop(ctx context.Context) (tcpflow.Stream, error) {
	_, _ = fmt.Fprintln(t.tx.stdin, "stop") // wait reports an end that has died
	err := t.rx.wait(ctx)
	for _, p := range []*process{t.tx, t.rx} {
		_ = p.stdin.Close()
	}
	if err != nil { // the receiving end of a connection that hangs still has its log to write
		wctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainWithin)
		_ = t.rx.wait(wctx)
		cancel()
	}
	t.Kill()
	s, lerr := tcpflow.Load(t.rxOut)
	switch {
	case err != nil:
		return s, err
	case lerr != nil:
		return s, lerr
	case t.outcome != "closed":
		return s, fmt.Errorf("connection %s ended: %s", t.opt.Name, t.outcome)
	case t.broken > 0:
		return s, fmt.Errorf("connection %s: %d messages out of place", t.opt.Name, t.broken)
	}
	return s, nil
}

// Kill kills both ends.
func (t *TCP) Kill() {
	t.tx.kill()
	t.rx.kill()
}

// Ended is what a flow of datagrams and the connections beside it have logged.
type Ended struct {
	Up, Down     *udpflow.Flow
	BufferErrors int
	Reads        []tcpflow.Stream // of each connection
	Broken       []error          // of each: why it did not end in good order with what was sent; nil if it did
}

// End ends a flow of datagrams and then the connections beside it. Each has the time within for itself, so that one
// that hangs takes none from another. The error says that the flow cannot be read, or that ctx is over.
func End(ctx context.Context, within, drain time.Duration, flow *UDP, tcp ...*TCP) (e Ended, err error) {
	alone, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if e.Up, e.Down, err = flow.Stop(alone, drain); err != nil {
		return e, fmt.Errorf("read the flow %s: %w", flow.Name(), err)
	}
	e.BufferErrors = flow.BufferErrors()
	for _, t := range tcp {
		alone, cancel := context.WithTimeout(ctx, within)
		reads, broken := t.Stop(alone)
		cancel()
		if broken != nil {
			broken = fmt.Errorf("%s: %w", t.Name(), broken)
		}
		e.Reads, e.Broken = append(e.Reads, reads), append(e.Broken, broken)
	}
	return e, ctx.Err()
}

// hostPort joins a name or an address with a port.
func hostPort(host string, port int) string {
	if a, err := netip.ParseAddr(host); err == nil {
		return netip.AddrPortFrom(a, uint16(port)).String()
	}
	return host + ":" + strconv.Itoa(port)
}

// run runs a program outside all hosts and returns its output.
func run(ctx context.Context, argv ...string) ([]byte, error) {
	return exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
}
