package scene

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/live"
)

// commanded is an arm at work that only notes its commands.
type commanded struct {
	arm.System
	list []string
	err  error
}

func (c *commanded) Mode(_ context.Context, _ *End, mode string) error {
	c.list = append(c.list, "mode "+mode)
	return c.err
}

func (c *commanded) Use(_ context.Context, _ *End, link string, on bool) error {
	c.list = append(c.list, map[bool]string{true: "use ", false: "leave "}[on]+link)
	return c.err
}

// shown is what followed shows.
var shown strings.Builder

// followed carries out a schedule without a network.
func followed(ctx context.Context, of arm.Arm, sys *commanded, plan Schedule) (*Trace, error) {
	shown.Reset()
	s := &Scene{Ends: []*End{{}}, env: &exp.Env{View: live.New(&shown)}, cfg: Config{Arm: of}, system: sys}
	tr := &Trace{Start: time.Now()}
	return tr, s.follow(ctx, tr, plan)
}

// The schedule says when each step begins and how long all takes; an arm that does not move skips the steps,
// and a step that fails ends the schedule.
func TestFollow(t *testing.T) {
	const ms = time.Millisecond
	sys, called := &commanded{}, 0
	plan := Schedule{Length: 12 * ms}
	plan.Add(2*ms, Mark, "", "", "begin")
	plan.Add(4*ms, Mode, "duality", "", "")
	plan.Add(6*ms, Disable, "net1", "", "-net1")
	plan.Add(8*ms, Enable, "net1", "", "")
	plan.Steps = append(plan.Steps, Step{At: 9 * ms, Op: Call, Do: func(context.Context) error { called++; return nil }})
	tr, err := followed(t.Context(), arm.Plain, sys, plan)
	if err != nil || !slices.Equal(sys.list, []string{"mode duality", "leave net1", "use net1"}) || called != 1 {
		t.Errorf("did %q, called %d times: %v", sys.list, called, err)
	}
	got := strings.Count(shown.String(), "\n")
	if got != 2 || !strings.Contains(shown.String(), arm.Plain.Name()+": -net1\n") {
		t.Errorf("%d steps of 2 with a name are shown: %q", got, shown.String())
	}
	for i, d := range tr.Steps {
		if d.Step.At != plan.Steps[i].At || d.At.Before(tr.At(d.Step.At)) || d.Over.Before(d.At) {
			t.Errorf("step %d at %v, over %v, want from %v on", i, d.At.Sub(tr.Start), d.Over.Sub(tr.Start), plan.Steps[i].At)
		}
	}
	if took := time.Since(tr.Start); len(tr.Steps) != 5 || took < plan.Length {
		t.Errorf("%d steps in %v, want 5 in %v", len(tr.Steps), took, plan.Length)
	}
	still := &commanded{}
	tr, err = followed(t.Context(), arm.Static, still, plan)
	if err != nil || len(still.list) > 0 || called != 1 || len(tr.Steps) != 5 {
		t.Errorf("a host that stays did %q, called %d times, in %d steps: %v", still.list, called, len(tr.Steps), err)
	}
	fails := &commanded{err: errors.New("no")}
	tr, err = followed(t.Context(), arm.Plain, fails, plan)
	if !errors.Is(err, fails.err) || len(tr.Steps) != 1 || len(fails.list) != 1 {
		t.Errorf("after a failure: %d steps, %q: %v", len(tr.Steps), fails.list, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	plan.Steps = append(plan.Steps[:1], Step{At: time.Hour, Op: Mark})
	tr, err = followed(ctx, arm.Plain, &commanded{}, plan)
	if !errors.Is(err, context.Canceled) || len(tr.Steps) > 1 {
		t.Errorf("interrupted: %d steps, %v", len(tr.Steps), err)
	}
}

// Each way has counters of its own, and what the core sent to each network stands beside; a router that cannot be
// read is left out.
func TestSampleOf(t *testing.T) {
	at := time.Unix(1000, 0)
	s := sampleOf(at, []string{"net1", "net2"}, func(link string, way linkem.Direction) uint64 {
		return map[string]map[linkem.Direction]uint64{"net1": {linkem.AB: 1, linkem.BA: 2},
			"net2": {linkem.AB: 3, linkem.BA: 4}}[link][way]
	}, func(link string) (uint64, error) {
		return 5, map[string]error{"net2": errors.New("gone")}[link]
	})
	if !s.At.Equal(at) || !maps.Equal(s.Out, map[string]uint64{"net1": 1, "net2": 3}) ||
		!maps.Equal(s.In, map[string]uint64{"net1": 2, "net2": 4}) || !maps.Equal(s.Towards, map[string]uint64{"net1": 5}) {
		t.Errorf("%+v", s)
	}
}

// control is one control message of a socket, as the kernel writes it.
func control(level, kind int32, data []byte) []byte {
	b := binary.NativeEndian.AppendUint64(nil, uint64(16+len(data)))
	b = binary.NativeEndian.AppendUint32(b, uint32(level))
	b = append(binary.NativeEndian.AppendUint32(b, uint32(kind)), data...)
	return append(b, make([]byte, (8-len(b)%8)%8)...)
}

// An advertisement counts from the kernel's time of arrival, on the link of the index that the kernel says.
func TestNoteAdvert(t *testing.T) {
	arrived := time.Unix(1_700_000_000, 123_456_789)
	stamp := binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, 1_700_000_000), 123_456_789)
	to := netip.MustParseAddr("ff02::1").As16()
	info := binary.NativeEndian.AppendUint32(to[:], 7)
	when := control(unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, stamp)
	where := control(unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, info)
	hop := control(unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT, info)
	w := &raWatch{}
	names := map[uint32]string{7: "net2", 8: "net3"}
	began := time.Now()
	for _, oob := range [][]byte{slices.Concat(when, hop, where), slices.Concat(where, when), where,
		control(unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, stamp[:8]), control(unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, info[:16]),
		control(unix.SOL_SOCKET, unix.SCM_RIGHTS, stamp), control(unix.IPPROTO_ICMPV6, unix.SCM_TIMESTAMPNS, stamp),
		control(unix.IPPROTO_ICMPV6, unix.IPV6_PKTINFO, info)} {
		w.note(oob, names)
	}
	w.note([]byte{1, 0, 0}, names) // not even a header: nothing is known of that packet
	w.note(append(where[:8:8], 0xff), names)
	list := w.seen()
	if len(list) < 8 {
		t.Fatalf("%d advertisements", len(list))
	}
	for i, a := range list {
		if known := i < 2; known != a.At.Equal(arrived) || !known && (a.At.Before(began) || a.At.After(time.Now())) {
			t.Errorf("advertisement %d at %v", i, a.At)
		}
		if want := map[bool]string{true: "net2"}[i < 3]; a.Link != want {
			t.Errorf("advertisement %d on %q, want %q", i, a.Link, want)
		}
	}
	if list[0].Link = "changed"; w.seen()[0].Link != "net2" {
		t.Error("the list is not a copy")
	}
}
