package scene

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/live"
	"roam/lab/packets"
)

// noted is an arm that only this test knows: it records its calls.
type noted struct {
	arm.Arm // plain IPv6 in all else
	mu      sync.Mutex
	calls   []string
	links   func(link string) bool
}

func (a *noted) Name() string       { return "noted" }
func (a *noted) Traits() arm.Traits { return arm.Traits{Moves: true, Commands: true} }

func (a *noted) Setup(_ context.Context, net *arm.Net) (arm.System, error) {
	a.links = func(link string) bool { return net.Up(net.Ends[0], link) }
	a.note("setup %d", len(net.Ends))
	return a, nil
}

func (a *noted) note(format string, args ...any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, fmt.Sprintf(format, args...))
	return nil
}

func (a *noted) carrier(what, link string) error {
	return a.note("%s %s %v", what, link, a.links(link))
}

func (a *noted) Attached(_ context.Context, _ *arm.End, link string) error {
	return a.carrier("attached", link)
}

func (a *noted) Detached(_ context.Context, _ *arm.End, link string) error {
	return a.carrier("detached", link)
}

func (a *noted) Usable(_ context.Context, _ *arm.End, link string, _ time.Time) error {
	return a.carrier("usable", link)
}

func (a *noted) Mode(_ context.Context, _ *arm.End, mode string) error {
	return a.note("mode %s", mode)
}

func (a *noted) Use(_ context.Context, _ *arm.End, link string, on bool) error {
	return a.note("use %s %v", link, on)
}

// TestBuildFails: what was made is removed, and the error says why.
func TestBuildFails(t *testing.T) {
	testutil.NeedRoot(t)
	for _, what := range []string{"netns", "cgroup2", "ipv6", "/dev/net/tun", "radvd", "nft"} {
		testutil.Need(t, what)
	}
	why := errors.New("not ready")
	link := Symmetric(linkem.Params{})
	_, err := Build(t.Context(), &exp.Env{View: &live.View{}, Dir: t.TempDir()}, Config{
		Name: "failing", Arm: arm.Plain, Seed: 1, Mobile: []Access{link},
		Ready: func(context.Context, *Scene) error { return why },
	})
	if !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
}

// TestAnotherArm runs a schedule on an arm that this package does not know: its methods are
// called in order, and links have carrier when Use reports them.
func TestAnotherArm(t *testing.T) {
	testutil.NeedRoot(t)
	for _, what := range []string{"netns", "cgroup2", "ipv6", "/dev/net/tun", "radvd", "nft"} {
		testutil.Need(t, what)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a := &noted{Arm: arm.Plain}
	link := Symmetric(linkem.Params{})
	env := &exp.Env{View: &live.View{}, Dir: t.TempDir()}
	s, err := Build(ctx, env, Config{
		Name:   "noted",
		Arm:    a,
		Seed:   1,
		Mobile: []Access{link, link},
		Advert: RA{Min: 150 * time.Millisecond, Max: 300 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	var plan Schedule
	for i, step := range []Step{
		{Op: Attach, Link: "net2"}, {Op: Mark}, {Op: Mode, Link: "hard"}, {Op: Disable, Link: "net1"},
		{Op: Enable, Link: "net1"},
		{Op: Detach, Link: "net1"}, {Op: Swap, Link: "net1", From: "net2"},
		{Op: Swap, Link: "net2", From: "net1", Settled: true}, {Op: Cut, Link: "net2"},
	} {
		step.At = time.Duration(i) * 10 * time.Millisecond
		plan.Steps = append(plan.Steps, step)
	}
	if _, err := s.Run(ctx, plan, nil); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"setup 2", "attached net2 true", "mode hard", "use net1 false", "use net1 true",
		"detached net1 false", "detached net2 false", "attached net1 true",
		"usable net2 true", "detached net1 false", "attached net2 true", "detached net2 false",
	}
	if !slices.Equal(a.calls, want) {
		t.Errorf("asked\n%q, want\n%q", a.calls, want)
	}
}

// TestCapturesOfAScene: with a directory for captures, the interfaces of the end hosts are captured until the scene
// ends, and not without one.
func TestCapturesOfAScene(t *testing.T) {
	testutil.NeedRoot(t)
	for _, what := range []string{"netns", "cgroup2", "ipv6", "/dev/net/tun", "radvd", "nft", "tcpdump"} {
		testutil.Need(t, what)
	}
	link := Symmetric(linkem.Params{})
	for _, pcap := range []string{t.TempDir(), ""} {
		dir := t.TempDir()
		s, err := Build(t.Context(), &exp.Env{View: &live.View{}, Dir: dir, Pcap: pcap}, Config{
			Name: "kept", Arm: arm.Plain, Seed: 1, Mobile: []Access{link}, Keep: true,
			Advert: RA{Min: 150 * time.Millisecond, Max: 300 * time.Millisecond},
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Mobile().Host.AppCommand(t.Context(), "ping", "-6", "-c", "1", "-W", "5", "cn1").Output()
		if err = errors.Join(err, s.Close()); err != nil {
			t.Error(err)
		}
		var with []string
		for _, name := range []string{"mn-net1", "cn1-eth0"} {
			list, err := packets.Read(filepath.Join(pcap, "kept", name+".pcap"), name)
			if err == nil && len(list) > 0 {
				with = append(with, name)
			}
		}
		if len(with) != 2 && pcap != "" || len(with) > 0 && pcap == "" {
			t.Errorf("in %q packets were captured on %v", pcap, with)
		}
	}
}
