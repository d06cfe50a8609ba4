package virtual

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/lab/arm"
	"roam/lab/linkem"
	"roam/lab/packets"
	"roam/lab/scene"
	"roam/sim/ilnphost"
)

// noted is an arm that nobody but this test knows: Roam, which notes what it is
// asked.
type noted struct {
	arm.Simulated
	calls *[]string
}

func (a noted) Meet(mobile, peer *ilnphost.Node, home roam.L64) {
	*a.calls = append(*a.calls, "meet")
	a.Simulated.Meet(mobile, peer, home)
}

func (a noted) SetMode(mobile *ilnphost.Node, mode ilnp.Mode) {
	*a.calls = append(*a.calls, "mode "+mode.String())
	a.Simulated.SetMode(mobile, mode)
}

func (a noted) SetUse(mobile *ilnphost.Node, link roam.LinkID, on bool) {
	*a.calls = append(*a.calls, map[bool]string{false: "withdraw", true: "use"}[on])
	a.Simulated.SetUse(mobile, link, on)
}

// TestAnotherArm runs a schedule on an arm that this package has never seen.
func TestAnotherArm(t *testing.T) {
	var calls []string
	plan := scene.Schedule{Length: 4 * time.Second}
	for i, op := range []scene.Op{scene.Attach, scene.Mode, scene.Disable, scene.Enable} {
		plan.Add(time.Duration(i+1)*500*time.Millisecond, op,
			map[bool]string{false: "net2", true: "duality"}[op == scene.Mode], "", "")
	}
	p, c := pass(t, config(noted{arm.Roam, &calls}, linkem.Params{Delay: 10 * time.Millisecond}), plan)
	if want := []string{"meet", "mode duality", "withdraw", "use"}; !slices.Equal(calls, want) {
		t.Errorf("asked %q, want %q", calls, want)
	}
	if c.Lost != 0 || !slices.ContainsFunc(p.Mobile, func(q packets.Packet) bool { return q.Where == "net2" }) {
		t.Errorf("%d lost, or net2 was not used", c.Lost)
	}
}
