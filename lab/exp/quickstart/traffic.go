package quickstart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"roam/lab/exp"
	"roam/lab/live"
	"roam/lab/scene"
	"roam/lab/workload"
	"roam/lab/workload/tcpflow"
	"roam/lab/workload/udpflow"
)

// udpPort is the correspondent's of the UDP probe.
const udpPort = 7001

// endWithin bounds the wait for an application to finish after the schedule.
const endWithin = 20 * time.Second

// traffic is all traffic between the mobile host and the correspondents. It uses names
// only, never addresses.
type traffic struct {
	udp              *workload.UDP // both ways with CN1
	tcpUp            *workload.TCP // to CN2
	tcpDown          *workload.TCP // from CN1
	iperfTCP         *workload.Iperf
	iperfUDP         *workload.Iperf
	curl             *workload.Download
	ssh              *workload.Shell
	sessions         []workload.Session
	killers          []func()
	curlGrew         []time.Time // when the file last grew, at each sample
	curlSize         uint64
	udpDrain         time.Duration
	outcome          map[string]error  // of each session, when it has ended
	last             map[string]string // the state of each session just before its end
	flowUp, flowDown *udpflow.Flow
	readUp, readDown tcpflow.Stream
	iperf            map[string]workload.IperfReport
	echoes           []workload.Echo // of the ssh session
	bufferErrors     int             // datagrams of the UDP probe that its receiving sockets dropped
	overflows        *scene.Losses   // datagrams of the UDP probe that the emulator dropped unasked
}

// startTraffic starts all sessions and returns when all of them run.
func startTraffic(ctx context.Context, env *exp.Env, n *scene.Scene, length time.Duration,
	arm string) (*traffic, error) {
	t := &traffic{
		outcome:  map[string]error{},
		last:     map[string]string{},
		iperf:    map[string]workload.IperfReport{},
		udpDrain: 4*env.Params.Millis("delay_ms") + 200*time.Millisecond,
	}
	dir := filepath.Join(env.Dir, arm)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	err := t.startApplications(ctx, env, n, length, dir)
	if err == nil {
		err = t.startProbes(ctx, env, n, dir)
	}
	if err != nil {
		t.kill()
		return nil, err
	}
	return t, nil
}

// startApplications starts the programs that people use.
func (t *traffic) startApplications(ctx context.Context, env *exp.Env, n *scene.Scene, length time.Duration,
	dir string) (err error) {
	p := env.Params
	rate := int64(p.Float("curl_kbytes_s") * 1000)
	seconds := int(length.Seconds() + 1.5)
	if t.ssh, err = workload.StartShell(ctx, n.Peer(1).Host, n.Mobile().Host, dir,
		workload.ShellOptions{Name: "ssh", Target: "cn2", Port: 2222}); err != nil {
		return err
	}
	t.add(t.ssh, t.ssh.Kill)
	if t.curl, err = workload.StartDownload(ctx, n.Peer(0).Host, n.Mobile().Host, dir, workload.DownloadOptions{
		Name: "curl", Target: "cn1", Port: 8080, Bytes: rate * int64(seconds), Rate: rate, Seed: env.Seed,
	}); err != nil {
		return err
	}
	t.add(t.curl, t.curl.Kill)
	o := workload.IperfOptions{
		Name:     "iperf3 TCP",
		Target:   "cn1",
		Port:     5201,
		Mbps:     p.Float("iperf_mbps"),
		Length:   4000,
		Seconds:  seconds,
		Interval: 0.1,
		CC:       p.Text("congestion"),
	}
	if t.iperfTCP, err = workload.StartIperf(ctx, n.Peer(0).Host, n.Mobile().Host, o); err != nil {
		return err
	}
	t.add(t.iperfTCP, t.iperfTCP.Kill)
	o.Name, o.Target, o.Port, o.UDP, o.Length = "iperf3 UDP", "cn2", 5202, true, 1000
	if t.iperfUDP, err = workload.StartIperf(ctx, n.Peer(1).Host, n.Mobile().Host, o); err != nil {
		return err
	}
	t.add(t.iperfUDP, t.iperfUDP.Kill)
	return nil
}

// startProbes starts the lab's own flows.
func (t *traffic) startProbes(ctx context.Context, env *exp.Env, n *scene.Scene, dir string) (err error) {
	t.overflows = n.WatchOverflows(udpPort)
	if t.udp, err = workload.StartUDP(ctx, n.Peer(0).Host, n.Mobile().Host, dir, workload.UDPOptions{
		Name: "UDP probe", Target: "cn1", Port: udpPort, Up: env.Params.Int("udp_rate"), Down: env.Params.Int("udp_rate_in"),
		Size: env.Params.Int("udp_size"),
	}); err != nil {
		return err
	}
	t.add(t.udp, t.udp.Kill)
	o := workload.TCPOptions{
		Name:   "TCP out",
		Target: "cn2",
		Port:   7002,
		Size:   1000,
		Every:  time.Millisecond,
		CC:     env.Params.Text("congestion"),
	}
	if t.tcpUp, err = workload.StartTCP(ctx, n.Peer(1).Host, n.Mobile().Host, dir, o); err != nil {
		return err
	}
	t.add(t.tcpUp, t.tcpUp.Kill)
	o.Name, o.Target, o.Port, o.Down = "TCP in", "cn1", 7003, true
	if t.tcpDown, err = workload.StartTCP(ctx, n.Peer(0).Host, n.Mobile().Host, dir, o); err != nil {
		return err
	}
	t.add(t.tcpDown, t.tcpDown.Kill)
	return nil
}

func (t *traffic) add(s workload.Session, kill func()) {
	t.sessions = append(t.sessions, s)
	t.killers = append(t.killers, kill)
}

// flowing reports whether every session delivers data.
func (t *traffic) flowing() bool {
	for _, s := range t.sessions {
		if s.State().Progress == 0 {
			return false
		}
	}
	return true
}

// silent names the sessions that have not delivered data yet, and says more of each.
func (t *traffic) silent() (names, details []string) {
	for _, s := range t.sessions {
		if st := s.State(); st.Progress == 0 {
			names = append(names, s.Name())
			details = append(details, fmt.Sprintf("%s (running: %v) %s", s.Name(), st.Alive, st.Detail))
		}
	}
	return names, details
}

// board returns the sessions for the live view, and records when the download grew.
func (t *traffic) board() (out []live.Session) {
	for _, s := range t.sessions {
		if st := s.State(); s.Name() == "curl" && st.Progress > t.curlSize {
			t.curlSize, t.curlGrew = st.Progress, append(t.curlGrew, st.Last)
		}
		out = append(out, workload.Row(s))
	}
	return out
}

// ending is how a session ends in good order.
type ending struct {
	session workload.Session
	end     func(context.Context) error
}

// endAll ends sessions one after the other and records how each ended. Each has the time within for itself, so that one
// that hangs takes none from another.
func (t *traffic) endAll(ctx context.Context, within time.Duration, list []ending) {
	for _, e := range list {
		alone, cancel := context.WithTimeout(ctx, within)
		t.outcome[e.session.Name()] = e.end(alone)
		cancel()
	}
}

// finish ends all sessions in good order and records how each ended.
func (t *traffic) finish(ctx context.Context) error {
	e, err := workload.End(ctx, endWithin, t.udpDrain, t.udp, t.tcpUp, t.tcpDown)
	if err != nil {
		return err
	}
	t.flowUp, t.flowDown, t.bufferErrors, t.readUp, t.readDown = e.Up, e.Down, e.BufferErrors, e.Reads[0], e.Reads[1]
	t.outcome[t.udp.Name()] = t.udpOutcome()
	t.outcome[t.tcpUp.Name()], t.outcome[t.tcpDown.Name()] = e.Broken[0], e.Broken[1]
	t.last[t.ssh.Name()] = t.ssh.State().Detail
	list := []ending{{t.ssh, t.ssh.Close}}
	for _, i := range []*workload.Iperf{t.iperfTCP, t.iperfUDP} {
		list = append(list, ending{i, func(ctx context.Context) (err error) {
			t.iperf[i.Name()], err = i.Wait(ctx)
			return err
		}})
	}
	t.endAll(ctx, endWithin, append(list, ending{t.curl, t.curl.Wait}))
	t.echoes = t.ssh.Echoes()
	for _, s := range t.sessions {
		if s != workload.Session(t.ssh) { // which has been closed, and reported its result before
			t.last[s.Name()] = s.State().Detail
		}
	}
	t.kill()
	return nil
}

// udpOutcome returns an error unless both directions of the flow delivered data until the
// end.
func (t *traffic) udpOutcome() error {
	for way, f := range map[string]*udpflow.Flow{"out": t.flowUp, "in": t.flowDown} {
		if len(f.Got) == 0 || len(f.Sent) == 0 {
			return fmt.Errorf("nothing went %s", way)
		}
		sent, got := f.Sent[len(f.Sent)-1].At, f.Got[len(f.Got)-1].Sent
		if d := time.Duration(sent - got); d > 500*time.Millisecond {
			return fmt.Errorf("nothing sent in the last %v went %s", d.Round(time.Millisecond), way)
		}
	}
	return nil
}

// abandon ends all sessions at once and reads the probes' logs. The control needs it, since
// its applications hang.
func (t *traffic) abandon(ctx context.Context) error {
	var err error
	t.flowUp, t.flowDown, err = t.udp.Stop(ctx, t.udpDrain)
	if err != nil {
		return fmt.Errorf("read the UDP probe: %w", err)
	}
	// A hanging connection cannot close in good order; its log counts nevertheless.
	sctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var errUp, errDown error
	t.readUp, errUp = t.tcpUp.Stop(sctx)
	t.readDown, errDown = t.tcpDown.Stop(sctx)
	t.outcome[t.tcpUp.Name()], t.outcome[t.tcpDown.Name()] = errUp, errDown
	t.echoes, t.bufferErrors = t.ssh.Echoes(), t.udp.BufferErrors()
	t.kill()
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), errUp, errDown)
	}
	return nil
}

// kill ends all sessions at once, the clients of a session before its server, in the order
// of their start.
func (t *traffic) kill() {
	for _, k := range t.killers {
		k()
	}
	t.killers = nil
}
