package yanagida

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/packets"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/topo"
	"roam/lab/workload"
	"roam/lab/workload/udpflow"
)

// The ports of the traffic with the host that has plain IPv6.
const (
	portPlainUDP = 7101
	portPlainTCP = 7102
)

// besides holds the results of the traffic beside Roam (A26).
type besides struct {
	Compared, Changed int // packets, both ways
	Options           int // of them with an extension header
	Foreign           int // of them from or to another address than the kernel's own
	Lost, Dropped     int // datagrams; packets that the capture lost
	Why               string
}

// beside runs UDP and TCP with a host of plain IPv6 on a host that has a session with
// another one, and compares every sent packet with the received one.
func beside(ctx context.Context, env *exp.Env) error {
	b, err := exp.Cell(env, "beside", func(w *exp.Window) (besides, error) { return measureBeside(ctx, env, w) })
	if err != nil {
		return err
	}
	b.metrics(env.Result)
	return nil
}

// metrics sets the metrics of the claims.
func (b *besides) metrics(r *result.Result) {
	r.Set("beside_packets", float64(b.Compared))
	r.Set("beside_changed", float64(b.Changed+b.Options+b.Foreign))
	r.Set("beside_lost", float64(b.Lost))
	r.Set("beside_capture_dropped", float64(b.Dropped))
	r.SetBool("beside_content_right", b.Why == "")
}

func measureBeside(ctx context.Context, env *exp.Env, w *exp.Window) (b besides, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	env.View.Phase("setting up plain IPv6 beside Roam")
	cfg := config(env, "beside", arm.Roam, "soft", env.Params.Millis("rtt_ms"))
	cfg.Correspondents = []scene.Correspondent{{}, {NoRoam: true}}
	s, err := scene.Build(ctx, env, cfg)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	mn, plain := s.Mobile(), s.Peer(1)
	// The sender's capture must be what is on the wire, not a GSO packet that the device
	// would segment.
	if out, err := plain.Host.Command(ctx, "/usr/sbin/ethtool", "-K", "eth0", "tso", "off", "gso",
		"off").CombinedOutput(); err != nil {
		return b, fmt.Errorf("turn off segmentation: %w: %s", err, out)
	}
	dir := filepath.Join(env.Dir, "beside")
	if env.Pcap != "" {
		dir = filepath.Join(env.Pcap, "beside")
	}
	caps, err := s.Capture(ctx, dir, 0, fmt.Sprintf("ip6 and (port %d or port %d)", portPlainUDP, portPlainTCP))
	if err != nil {
		return b, err
	}
	w.Open()
	if err := b.traffic(ctx, env, s, dir); err != nil {
		return b, err
	}
	w.Shut()
	if b.Dropped, err = caps.Stop(); err != nil {
		return b, err
	}
	left, err := packets.Read(caps.File("mn", "net1"), "mn")
	if err != nil {
		return b, err
	}
	right, err := packets.Read(caps.File("cn2", "eth0"), "cn2")
	if err != nil {
		return b, err
	}
	b.compare(left, right)
	b.foreign(left, mn.Addr, plain.Addr)
	return b, nil
}

// foreign counts the packets from or to another address than the two hosts' own.
func (b *besides) foreign(list []packets.Packet, one, other netip.Addr) {
	for _, p := range list {
		if p.Src != one && p.Src != other || p.Dst != one && p.Dst != other {
			b.Foreign++
		}
	}
}

// traffic runs a session of Roam and both probes with the plain host.
func (b *besides) traffic(ctx context.Context, env *exp.Env, s *scene.Scene, dir string) error {
	mn, plain := s.Mobile().Host, s.Peer(1).Host
	length := env.Params.Seconds("beside_s")
	roam, err := workload.StartUDP(ctx, s.Peer(0).Host, mn, dir, workload.UDPOptions{
		Name:   "session",
		Target: "cn1",
		Port:   7100,
		Up:     500,
		Down:   500,
		Size:   400,
	})
	if err != nil {
		return err
	}
	defer roam.Kill()
	udp, err := workload.StartUDP(ctx, plain, mn, dir, workload.UDPOptions{
		Name:   "UDP",
		Target: "cn2",
		Port:   portPlainUDP,
		Up:     500,
		Down:   500,
		Size:   400,
	})
	if err != nil {
		return err
	}
	defer udp.Kill()
	tcp, err := workload.StartTCP(ctx, plain, mn, dir, workload.TCPOptions{
		Name:   "TCP",
		Target: "cn2",
		Port:   portPlainTCP,
		Size:   1000,
		Every:  2 * time.Millisecond,
		CC:     env.Params.Text("congestion"),
	})
	if err != nil {
		return err
	}
	defer tcp.Kill()
	wctx, cancel := context.WithTimeout(ctx, flowWithin)
	defer cancel()
	if err := topo.Wait(wctx, "data beside Roam", func() bool {
		return roam.State().Progress > 0 && udp.State().Progress > 0 && tcp.State().Progress > 0
	}); err != nil {
		return err
	}
	if _, err := s.Run(ctx, still(length).Schedule, nil); err != nil {
		return err
	}
	up, down, err := udp.Stop(ctx, 200*time.Millisecond)
	if err != nil {
		return err
	}
	_, err = tcp.Stop(ctx)
	b.ended(err, up, down)
	return nil
}

// ended takes how the connection ended, and the logs of the UDP probe.
func (b *besides) ended(tcp error, up, down *udpflow.Flow) {
	now := time.Now()
	for _, f := range []*udpflow.Flow{up, down} {
		b.Lost += f.Count(time.Time{}, now).Lost
	}
	if tcp != nil {
		b.Why = tcp.Error()
	}
}

// compare searches each packet of one end at the other: the bytes must be equal except for
// the hop limit, which routers lower, and the upper-layer checksum, which a sending device
// may complete after the capture.
func (b *besides) compare(left, right []packets.Packet) {
	count := map[string]int{}
	for _, p := range left {
		count[b.key(p)]++
	}
	for _, p := range right {
		b.Compared++
		count[b.key(p)]--
	}
	for _, n := range count {
		b.Changed += max(n, -n)
	}
}

func (b *besides) key(p packets.Packet) string {
	raw := append([]byte(nil), p.Raw...)
	if raw[6] != p.Proto {
		b.Options++
	}
	raw[7] = 0
	at := map[uint8]int{packets.TCP: 40 + 16, packets.UDP: 40 + 6}[p.Proto]
	if at > 0 && len(raw) >= at+2 {
		raw[at], raw[at+1] = 0, 0
	}
	return string(raw)
}
