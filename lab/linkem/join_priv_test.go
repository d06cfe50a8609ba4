package linkem_test

import (
	"context"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/topo"
)

// pair is two hosts, joined.
func pair(t *testing.T) (a, b *topo.Host, link *linkem.Link) {
	t.Helper()
	testutil.NeedRoot(t)
	for _, what := range []string{"netns", "cgroup2", "/dev/net/tun", "ping"} {
		testutil.Need(t, what)
	}
	lab, err := topo.New("join")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	hosts := [2]*topo.Host{}
	for i, name := range []string{"a", "b"} {
		if hosts[i], err = lab.Host(name); err != nil {
			t.Fatal(err)
		}
	}
	a, b = hosts[0], hosts[1]
	if link, err = linkem.Join(a.ID()+"/wan0", filepath.Join("/run/netns", b.ID(), "wan0"),
		linkem.Params{Delay: 20 * time.Millisecond}, linkem.Params{Delay: 10 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	})
	for i, h := range hosts {
		if err := h.AddAddr("wan0", netip.MustParsePrefix([2]string{"2001:db8::a/64", "2001:db8::b/64"}[i])); err != nil {
			t.Fatal(err)
		}
	}
	return a, b, link
}

// answers sends an echo request and reports whether it was answered.
func answers(ctx context.Context, a *topo.Host) bool {
	return a.Command(ctx, "ping", "-6", "-c1", "-W1", "2001:db8::b").Run() == nil
}

// TestJoin makes a link between namespaces that exist, changes it by words while
// it is used, and by a schedule.
func TestJoin(t *testing.T) {
	a, _, link := pair(t)
	ctx := t.Context()
	testutil.Eventually(t, 10*time.Second, func() bool { return answers(ctx, a) }, "nothing passes")
	for _, step := range []struct {
		command string
		passes  bool
	}{{"down", false}, {"up", true}, {"ba:cut=true", false}, {"ba:cut=false loss=100%", false},
		{"loss=0 delay=1ms", true}} {
		if err := link.Do(step.command); err != nil {
			t.Fatal(err)
		}
		testutil.Eventually(t, 10*time.Second, func() bool { return answers(ctx, a) == step.passes }, "after "+step.command)
	}
	if err := link.Do("sideways"); err == nil {
		t.Error("a word without meaning was carried out")
	}
	start := time.Now()
	if err := link.Play(ctx, start, []linkem.Change{{At: 300 * time.Millisecond, Command: "up"},
		{At: 100 * time.Millisecond, Command: "down"}}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 300*time.Millisecond {
		t.Errorf("the schedule took %v", took)
	}
	testutil.Eventually(t, 10*time.Second, func() bool { return answers(ctx, a) }, "after the schedule")
	if c := link.Counters(linkem.BA); c.DropDown == 0 || c.Delivered == 0 {
		t.Errorf("counters %+v", c)
	}
}

// TestJoinRefuses says which end is at fault, and leaves nothing at the other.
func TestJoinRefuses(t *testing.T) {
	a, _, _ := pair(t)
	for _, end := range []string{"nowhere/x0", a.ID() + "/", a.ID() + "/wan0", a.ID() + "/averyveryverylongname"} {
		if l, err := linkem.Join(a.ID()+"/x1", end, linkem.Params{}, linkem.Params{}); err == nil ||
			!strings.Contains(err.Error(), end) {
			t.Errorf("%s: %v", end, err)
			if l != nil {
				_ = l.Close()
			}
		}
	}
	if out, err := exec.Command("ip", "-n", a.ID(), "link", "show", "x1").CombinedOutput(); err == nil {
		t.Errorf("the first end stays although the second failed: %s", out)
	}
}
