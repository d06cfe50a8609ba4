package virtual

import (
	"testing"
	"time"

	"roam/lab/arm"
	"roam/lab/linkem"
	"roam/lab/node"
	"roam/lab/packets"
	"roam/lab/scene"
)

const port = 7001

// config is a mobile host on two like links.
func config(of arm.Arm, p linkem.Params) scene.Config {
	return scene.Config{Arm: of, Seed: 1, Mobile: []scene.Access{scene.Symmetric(p), scene.Symmetric(p)}}
}

// pass runs a schedule under a flow each way, and counts what was lost from the
// mobile host.
func pass(t *testing.T, cfg scene.Config, plan scene.Schedule) (*Pass, packets.Counts) {
	t.Helper()
	p, err := Run(cfg, plan, []Flow{{Port: port, Rate: 100, Size: 200}, {Port: port, Rate: 100, Size: 200, In: true}})
	if err != nil {
		t.Fatal(err)
	}
	out := func(q packets.Packet) bool {
		return q.DstPort == port && !q.At.Before(p.Trace.Start)
	}
	sent := func(q packets.Packet) bool { return out(q) && q.At.Before(p.Trace.End) }
	return p, packets.Datagrams(packets.Select(p.Mobile, sent), packets.Select(p.Peer, out), NumberAt)
}

// move goes from net1 to net2 and lets go of net1 a while later.
func move() (s scene.Schedule) {
	s.Soft(time.Second, 1, 3*time.Second, time.Second, "net1", "net2")
	s.Length = 4 * time.Second
	return s
}

func TestSoftHandoff(t *testing.T) {
	p, c := pass(t, config(arm.Roam, linkem.Params{Delay: 10 * time.Millisecond}), move())
	if c.Sent != 400 || c.Lost != 0 {
		t.Errorf("%d sent, %d lost", c.Sent, c.Lost)
	}
	if _, ok := node.Added(p.Trace.Events["mn"], "net2", p.Trace.Start); !ok {
		t.Error("no event tells of the locator on net2")
	}
	out, _ := p.Trace.Shares(p.Trace.At(2500*time.Millisecond), p.Trace.End)
	if out["net2"] < 99 {
		t.Errorf("after the handoff: %v %% by net2", out["net2"])
	}
	if len(packets.Exchanges(p.Mobile, scene.NID("mn"), scene.NID("cn1"))) < 2 {
		t.Error("the capture shows no Locator Updates")
	}
}

// A pass proves something only if it counts lost datagrams as lost.
func TestLossIsSeen(t *testing.T) {
	_, c := pass(t, config(arm.Roam, linkem.Params{Delay: 10 * time.Millisecond, Loss: 0.1}),
		scene.Schedule{Length: 4 * time.Second})
	if c.Lost < 15 || c.Lost > 80 {
		t.Errorf("%d of %d lost at 10 %%", c.Lost, c.Sent)
	}
	p, c := pass(t, config(arm.Plain, linkem.Params{}), move())
	if c.Sent < 200 || c.Sent > 201 || c.Lost != 0 {
		t.Errorf("plain IPv6: %d sent, %d lost, want 200 while its network is there", c.Sent, c.Lost)
	}
	for _, q := range p.Mobile {
		if q.Nonce {
			t.Fatal("plain IPv6 carries a nonce")
		}
	}
}

func TestWhatSimCannotDo(t *testing.T) {
	good := config(arm.Roam, linkem.Params{})
	uneven := config(arm.Roam, linkem.Params{})
	uneven.Mobile[0].Out.Delay = time.Second
	many := good
	many.Correspondents = make([]scene.Correspondent, 2)
	for name, c := range map[string]struct {
		cfg  scene.Config
		step scene.Step
	}{
		"MPTCP":            {cfg: config(arm.MPTCP, linkem.Params{})},
		"no arm":           {cfg: config(nil, linkem.Params{})},
		"uneven link":      {cfg: uneven},
		"correspondents":   {cfg: many},
		"unknown link":     {cfg: good, step: scene.Step{Op: scene.Attach, Link: "wlan0"}},
		"moving peer":      {cfg: good, step: scene.Step{Op: scene.Attach, Host: "cn1", Link: "net2"}},
		"change of a link": {cfg: good, step: scene.Step{Op: scene.Alter, Link: "net1"}},
	} {
		if _, err := Run(c.cfg, scene.Schedule{Steps: []scene.Step{c.step}}, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
