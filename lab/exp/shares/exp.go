// Package shares is the experiment shares: rules for flows, judged by what each link carries.
//
// It implements the rules, the loads of each part and their order. It omits the answers of the
// peer, which leave by its own choice, and paths that fail. It is driven by lab/runner.
package shares

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/packets"
	"roam/lab/scene"
	"roam/lab/topo"
	"roam/lab/workload"
	"roam/lab/workload/udpflow"
)

//go:embed drawing.txt params.json expect.json README.md
var files embed.FS

// Experiment is the declaration that package runner lists.
var Experiment = exp.Experiment{
	Name:   "shares",
	Title:  "Rules for flows: shares of links, several rules at once, and reloads under load",
	Group:  "Beyond the papers",
	Source: "claim of Roam: every flow is where its rule says, in the share that it says",
	Tools: map[string]string{
		"radvd": "radvd", "ip": "iproute2", "nft": "nftables", "tcpdump": "tcpdump",
	},
	Run: run,
}.With(files)

// Ports of the correspondent.
const (
	portTwo = 7001 + iota
	portThree
	portPort
	portCgroup
	portDSCP
	portReload
)

const (
	lead     = 3 * time.Second // of a load before its shares count
	between  = time.Second     // two parts, in which their programs end and begin
	patience = 20 * time.Second
	dscp     = 46
	marker   = "# rules\n" // the rules follow it in roam.conf
)

// home keeps the mobile host on the link at which its correspondent knows it.
const home = "[uplinks]\nprefer = [\"net1\"]\n"

var links = []string{"net1", "net2", "net3"}

// part is a load under one rule with shares.
type part struct {
	name   string
	port   int
	shares []int // of links, in per cent
}

var parts = []part{{"two", portTwo, []int{80, 20, 0}}, {"three", portThree, []int{50, 30, 20}}}

// lone is a flow that a rule tells from others and sends by one link.
type lone struct {
	name, match, link string
	port, rate        int
}

// lones are sent at once, none by the link that the mobile host uses without rules.
var lones = []lone{
	{"cgroup", "cgroup = %q", "net2", portCgroup, 300},
	{"dscp", fmt.Sprintf("dscp = [%d]", dscp), "net3", portDSCP, 200},
	{"port", fmt.Sprintf("protocol = \"udp\"\nports = [%d]", portPort), "net3", portPort, 400},
}

// target is the link of the n-th rule for the flow that goes on while rules change.
func target(n int) string { return links[(n+1)%len(links)] }

// rules returns all rules of the mobile host.
func rules(cgroup string, reloads int) string {
	var b strings.Builder
	b.WriteString(marker)
	for _, l := range lones {
		match := l.match
		if strings.Contains(match, "%q") {
			match = fmt.Sprintf(match, cgroup)
		}
		fmt.Fprintf(&b, "[[rule]]\nname = %q\n%s\npolicy = \"failover\"\nlinks = [%q]\n", l.name, match, l.link)
	}
	for _, p := range parts {
		var shares []string
		for i, s := range p.shares {
			if s > 0 {
				shares = append(shares, fmt.Sprintf("%s = %d", links[i], s))
			}
		}
		fmt.Fprintf(&b, "[[rule]]\nname = %q\nports = [%d]\npolicy = \"weighted\"\nshares = { %s }\n", p.name, p.port,
			strings.Join(shares, ", "))
	}
	fmt.Fprintf(&b, "[[rule]]\nname = \"reload\"\nports = [%d]\npolicy = \"failover\"\nlinks = [%q]\n", portReload,
		target(reloads))
	return b.String()
}

// seen holds all measurements of one mode.
type seen struct {
	mode string
	*scene.Trace
	sent         []packets.Packet // of the flows at once, at the links of the mobile host
	capture      int              // packets that the captures lost
	fast         *udpflow.Flow    // while rules changed
	bufferErrors int
}

func run(ctx context.Context, env *exp.Env) error {
	var all []*seen
	for mode := range strings.SplitSeq(env.Params.Text("modes"), ",") {
		t, err := measure(ctx, env, mode)
		if err != nil {
			return err
		}
		all = append(all, t)
	}
	judge(env, all)
	return nil
}

// work is one mode being measured.
type work struct {
	env    *exp.Env
	net    *scene.Scene
	cgroup string
	seen   *seen
	udp    *workload.UDP // of the part that runs
	tcp    *workload.TCP
	lones  []*workload.UDP
	caps   *scene.Captures
	dir    string
}

// measure runs all parts in one mode.
func measure(ctx context.Context, env *exp.Env, mode string) (t *seen, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := env.Params
	link := scene.Symmetric(linkem.Params{Delay: p.Millis("delay_ms"), Rate: int64(p.Float("rate_mbps") * 1e6)})
	link.Up = true
	w := &work{env: env, seen: &seen{mode: mode}, dir: filepath.Join(env.Dir, mode)}
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory of %s: %w", mode, err)
	}
	w.net, err = scene.Build(ctx, env, scene.Config{
		Name: "shares" + mode[:1], Arm: arm.Roam, Seed: env.Seed, Mode: mode,
		Mobile: []scene.Access{link, link, link}, More: map[string]string{"mn": home},
		Advert: scene.RA{Min: p.Seconds("ra_min_s"), Max: p.Seconds("ra_max_s")},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.net.Close()) }()
	mn := w.net.Mobile()
	w.cgroup = filepath.Join(mn.Host.Cgroup(), "flow")
	if err := os.Mkdir(w.cgroup, 0o755); err != nil {
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	if err := mn.Node.WaitUsable(ctx, links...); err != nil {
		return nil, err
	}
	if err := w.reload(ctx, 0); err != nil {
		return nil, err
	}
	defer w.kill()
	if err := w.begin(ctx, parts[0]); err != nil {
		return nil, err
	}
	w.seen.Trace, err = w.net.Run(ctx, w.plan(), nil)
	return w.seen, err
}

// reload gives the mobile host its rules.
func (w *work) reload(ctx context.Context, reloads int) error {
	n := w.net.Mobile().Node
	b, err := os.ReadFile(n.Config)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	rest, _, _ := strings.Cut(string(b), marker)
	if err := os.WriteFile(n.Config, []byte(rest+rules(w.cgroup, reloads)), 0o644); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	_, err = n.Ask(ctx, "config", "reload")
	return err
}

// The names of steps that the judge looks for. Those of parts have the name of the part behind.
const (
	stepFrom   = "shares from: "
	stepTo     = "shares to: "
	stepReload = "reload: "
	stepEnd    = "end of reloads"
)

// plan is the order of all parts.
func (w *work) plan() (s scene.Schedule) {
	p, at := w.env.Params, lead
	call := func(name string, do func(context.Context) error) {
		s.Steps = append(s.Steps, scene.Step{At: at, Op: scene.Call, Name: name, Do: do})
	}
	for i, one := range parts {
		s.Add(at, scene.Mark, "", "", stepFrom+one.name)
		at += p.Seconds("share_s")
		s.Add(at, scene.Mark, "", "", stepTo+one.name)
		call("", w.end)
		if i+1 < len(parts) {
			call("", func(ctx context.Context) error { return w.begin(ctx, parts[i+1]) })
			at += between + lead
		}
	}
	at += between
	call("three flows at once", w.beginLones)
	at += p.Seconds("once_s")
	call("", w.endLones)
	at += between
	call("", w.beginFast)
	for n := range p.Int("reloads") {
		at += p.Seconds("every_s")
		call(stepReload+target(n+1), func(ctx context.Context) error { return w.reload(ctx, n+1) })
	}
	at += p.Seconds("every_s")
	call(stepEnd, w.endFast)
	s.Length = at
	return s
}

// begin starts the load of a part.
func (w *work) begin(ctx context.Context, p part) (err error) {
	cn, mn := w.net.Peer(0).Host, w.net.Mobile().Host
	w.udp, err = workload.StartUDP(ctx, cn, mn, w.dir, workload.UDPOptions{
		Name: p.name + "-udp", Target: "cn1", Port: p.port, Up: 800, Down: 10, Size: 1000,
	})
	if err != nil {
		return err
	}
	w.tcp, err = workload.StartTCP(ctx, cn, mn, w.dir, workload.TCPOptions{
		Name: p.name + "-tcp", Target: "cn1", Port: p.port, Size: 10000, Every: 10 * time.Millisecond, CC: "cubic",
	})
	if err != nil {
		return err
	}
	return flows(ctx, "load of "+p.name, w.udp, w.tcp)
}

// flows waits until data of all sessions arrive.
func flows(ctx context.Context, what string, all ...workload.Session) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, s := range all {
		if err := topo.Wait(ctx, what, func() bool { return s.State().Progress > 0 }); err != nil {
			return fmt.Errorf("%s: %w: %s", s.Name(), err, s.State().Detail)
		}
	}
	return nil
}

// end ends the load of a part.
func (w *work) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := w.tcp.Stop(ctx)
	w.udp.Kill()
	w.udp, w.tcp = nil, nil
	return err
}

// beginLones starts the flows that rules tell apart, and captures from before the first datagram.
func (w *work) beginLones(ctx context.Context) (err error) {
	dir := w.dir
	if w.env.Pcap != "" {
		dir = filepath.Join(w.env.Pcap, filepath.Base(w.dir))
	}
	if w.caps, err = w.net.Capture(ctx, dir, 160, "ip6"); err != nil {
		return err
	}
	for _, l := range lones {
		opt := workload.UDPOptions{Name: l.name, Target: "cn1", Port: l.port, Up: l.rate, Size: 300}
		switch l.name {
		case "cgroup":
			opt.Cgroup = w.cgroup
		case "dscp":
			opt.Class = dscp << 2
		}
		u, err := workload.StartUDP(ctx, w.net.Peer(0).Host, w.net.Mobile().Host, w.dir, opt)
		if err != nil {
			return err
		}
		w.lones = append(w.lones, u)
	}
	var all []workload.Session
	for _, u := range w.lones {
		all = append(all, u)
	}
	return flows(ctx, "flows at once", all...)
}

// endLones ends them and reads the captures.
func (w *work) endLones(context.Context) (err error) {
	for _, u := range w.lones {
		u.Kill()
	}
	w.lones = nil
	if w.seen.capture, err = w.caps.Stop(); err != nil {
		return err
	}
	for _, l := range links {
		list, err := packets.Read(w.caps.File("mn", l), l)
		if err != nil {
			return err
		}
		w.seen.sent = append(w.seen.sent, list...)
	}
	return nil
}

func (w *work) beginFast(ctx context.Context) (err error) {
	w.udp, err = workload.StartUDP(ctx, w.net.Peer(0).Host, w.net.Mobile().Host, w.dir, workload.UDPOptions{
		Name: "reload", Target: "cn1", Port: portReload, Up: w.env.Params.Int("rate"), Down: 10, Size: 64,
	})
	if err != nil {
		return err
	}
	return flows(ctx, "datagrams", w.udp)
}

func (w *work) endFast(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w.seen.fast, _, err = w.udp.Stop(ctx, 4*w.env.Params.Millis("delay_ms")+100*time.Millisecond)
	w.seen.bufferErrors, w.udp = w.udp.BufferErrors(), nil
	return err
}

// kill ends what still runs after a failure.
func (w *work) kill() {
	if w.udp != nil {
		w.lones = append(w.lones, w.udp)
	}
	for _, u := range w.lones {
		u.Kill()
	}
	if w.tcp != nil {
		w.tcp.Kill()
	}
	if w.caps != nil {
		_, _ = w.caps.Stop() // the error before counts
	}
}
