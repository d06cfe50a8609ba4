package hostile

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"roam"
	"roam/lab/exp"
	"roam/lab/interop"
	"roam/lab/linkem"
	"roam/lab/node"
	"roam/lab/topo"
)

// The attacker's world: Roam on one host, a scripted correspondent that knows the right
// nonce, and the network of a silent victim.
const (
	attackedNID = 0x1000_0000_0000_00a1
	attackerNID = 0x1000_0000_0000_00c1
	discard     = 9 // port
	payload     = 1000
	fullPacket  = 1500 // bytes; the claim allows ten such packets
)

var (
	attackedNet = netip.MustParsePrefix("2001:db8:a:1::/64")
	attackerNet = netip.MustParsePrefix("2001:db8:c:1::/64")
	victimNet   = netip.MustParsePrefix("2001:db8:dead:1::/64")
)

// attack is one case.
type attack struct {
	Name     string
	Rate     float64 // bytes per second to the attacker before the attack
	RTTMs    float64
	Received int // bytes from the victim's locator, forged
	Sent     int // bytes to the victim, probes included
	Packets  int
	Alone    bool // no validated locator was listed
}

// allowed is how many bytes may go to the victim.
func (a attack) allowed() float64 {
	most := 3*float64(a.Received) + 10*fullPacket
	if a.Alone {
		most += a.Rate * 2 * a.RTTMs / 1000
	}
	return most
}

// plan is the attacker's behavior.
type plan struct {
	name  string
	alone bool // it lists the victim's locator only
	forge int  // packets per second with the right nonce from the victim's locator
}

var plans = []plan{
	{name: "listed"},
	{name: "listed_forged", forge: 100},
	{name: "alone", alone: true},
}

// stage is that world.
type stage struct {
	lab   *topo.Lab
	files string // prefix of its files' names
	mn, r *topo.Host
	roam  *node.Node
	peer  *interop.Peer
}

func locatorOf(p netip.Prefix) uint64 { return uint64(roam.ILVFromAddr(p.Addr()).L64) }

// build makes it and starts Roam.
func (st *stage) build(ctx context.Context, env *exp.Env) (err error) {
	if st.mn, err = st.lab.Host("mn"); err != nil {
		return err
	}
	if st.r, err = st.lab.Host("r"); err != nil {
		return err
	}
	if err = st.r.Forward(); err != nil {
		return err
	}
	if _, err = st.lab.Link(st.mn, "net1", st.r, "lan", linkem.Params{Delay: env.Params.Millis("delay_ms")}); err != nil {
		return err
	}
	if st.peer, err = interop.Start(st.r, "peer", attackerNID, []uint64{locatorOf(attackerNet)},
		interop.Stack{}); err != nil {
		return err
	}
	rules := st.files + ".nft"
	text := fmt.Sprintf(`table ip6 victim {
	counter to_victim {}
	counter from_victim {}
	counter to_attacker {}
	chain prerouting {
		type filter hook prerouting priority 0;
		ip6 daddr %s counter name to_victim
		ip6 saddr %s counter name from_victim
		ip6 daddr %s counter name to_attacker
	}
}
`, victimNet, victimNet, attackerNet)
	if err = errors.Join(
		st.r.AddAddr("lan", netip.PrefixFrom(attackedNet.Addr().Next(), 64)),
		st.r.AddAddr("peer", netip.PrefixFrom(attackerNet.Addr().Next(), 64)),
		os.WriteFile(rules, []byte(text), 0o644),
		run(ctx, st.r, "/usr/sbin/nft", "-f", rules),
		run(ctx, st.r, "/usr/sbin/ip", "-6", "route", "add", "blackhole", victimNet.String())); err != nil {
		return err
	}
	if _, err = st.r.Router(topo.Advert{Interface: "lan", Prefix: attackedNet}); err != nil {
		return err
	}
	hosts := fmt.Sprintf("nid=%s l64=%s attacker\n", roam.NID(attackerNID), roam.L64(locatorOf(attackerNet)))
	st.roam, err = node.New(st.mn, node.Binaries{Roam: env.Roam, Roamd: env.Roamd}, node.Options{
		NID: attackedNID, Hosts: hosts, Log: st.files + ".roamd.log"})
	if err != nil {
		return err
	}
	if err = st.roam.Start(ctx); err != nil {
		return err
	}
	return st.roam.WaitActive(ctx, "net1")
}

// attackOnce measures one case in a world of its own.
func attackOnce(ctx context.Context, env *exp.Env, w *exp.Window, p plan) (a attack, err error) {
	a.Name, a.Alone = p.name, p.alone
	env.View.Phase("attacker: %s", p.name)
	lab, err := topo.New(strings.ReplaceAll(p.name, "_", ""))
	if err != nil {
		return a, err
	}
	st := &stage{lab: lab, files: filepath.Join(env.Dir, p.name)}
	defer func() {
		if st.peer != nil {
			err = errors.Join(err, st.peer.Close())
		}
		err = errors.Join(err, lab.Close())
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := st.build(ctx, env); err != nil {
		return a, err
	}
	if err := st.flow(ctx, env.Params.Int("attack_rate")); err != nil {
		return a, err
	}
	if err := st.settled(ctx, &a); err != nil {
		return a, err
	}
	w.Open()
	before, err := st.count(ctx)
	if err != nil {
		return a, err
	}
	began := time.Now()
	if err := during(ctx, time.Second, 0, nil); err != nil {
		return a, err
	}
	at, err := st.count(ctx)
	if err != nil {
		return a, err
	}
	a.rated(before, at, time.Since(began))
	if p.alone {
		st.peer.Move(locatorOf(victimNet))
	} else {
		st.peer.Move(locatorOf(victimNet), locatorOf(attackerNet))
	}
	// From now on it sends from the locator that it listed first.
	err = during(ctx, env.Params.Seconds("attack_s"), p.forge, func() {
		st.peer.SendUDP(attackedNID, discard, discard, make([]byte, 100))
	})
	if err != nil {
		return a, err
	}
	after, err := st.count(ctx)
	w.Shut()
	a.counted(after)
	return a, err
}

// rated takes the rate to the attacker from the router's counters before and after a while.
func (a *attack) rated(before, after map[string]counter, took time.Duration) {
	a.Rate = float64(after["to_attacker"].Bytes-before["to_attacker"].Bytes) / took.Seconds()
}

// counted takes the victim's traffic from the router's counters.
func (a *attack) counted(after map[string]counter) {
	a.Sent, a.Packets = after["to_victim"].Bytes, after["to_victim"].Packets
	a.Received = after["from_victim"].Bytes
}

// flow sends datagrams to the attacker at a steady rate, until ctx ends.
func (st *stage) flow(ctx context.Context, rate int) error {
	var c net.Conn
	err := st.mn.Do(func() (err error) {
		addr := roam.ILV{L64: roam.DefaultSessionPrefix, NID: attackerNID}.Addr()
		c, err = net.Dial("udp6", netip.AddrPortFrom(addr, discard).String())
		return err
	})
	if err != nil {
		return fmt.Errorf("open flow to the attacker: %w", err)
	}
	go func() {
		defer c.Close()
		_ = during(ctx, time.Hour, rate, func() { _, _ = c.Write(make([]byte, payload)) })
	}()
	return nil
}

// during calls f at a rate for a while, and does not make up for late calls.
func during(ctx context.Context, d time.Duration, rate int, f func()) error {
	end := time.NewTimer(d)
	defer end.Stop()
	var due <-chan time.Time
	if rate > 0 {
		t := time.NewTicker(time.Second / time.Duration(rate))
		defer t.Stop()
		due = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return nil
		case <-due:
			f()
		}
	}
}

// settled waits until the session exists and its locator is validated.
func (st *stage) settled(ctx context.Context, a *attack) error {
	ctx, cancel := context.WithTimeout(ctx, setupWithin)
	defer cancel()
	return topo.WaitSparing(ctx, "session with the attacker", func() bool {
		list, err := st.roam.Sessions(ctx)
		if err != nil || len(list) != 1 {
			return false
		}
		a.RTTMs = list[0].RTTMs
		return list[0].State == "established" && a.RTTMs > 0 && len(list[0].Locators) == 1 && list[0].Locators[0].Validated
	})
}

// counter is a count of a router.
type counter = topo.Counter

func (st *stage) count(ctx context.Context) (map[string]counter, error) { return st.r.Counters(ctx) }
