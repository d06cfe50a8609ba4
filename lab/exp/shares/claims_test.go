package shares

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/packets"
	"roam/lab/result"
	"roam/lab/scene"
)

// fault is what one mode shows beside what it should.
type fault struct {
	off     map[string]float64 // by part, the points by which the first link has more than its share
	astray  string             // one datagram of this flow left by another link
	few     bool               // a flow at once had few datagrams
	lost    bool               // one datagram while rules changed
	slow    bool               // the machine sent nine tenths of those
	follows float64            // share of the new link after the first reload; 0: all
	idle    bool               // the loads of parts were small
	errors  int                // of receive buffers
	capture int                // packets that captures lost
	drops   uint64             // of the emulator
}

// records returns the records of one mode.
func records(t *testing.T, p exp.Params, mode string, f fault) *seen {
	w := &work{env: &exp.Env{Params: p}}
	plan := w.plan()
	s := &seen{mode: mode, capture: f.capture, bufferErrors: f.errors, Trace: &scene.Trace{
		Start: exptest.Origin, End: exptest.At(plan.Length), Drops: map[string]uint64{"queue": f.drops},
	}}
	for _, step := range plan.Steps {
		s.Steps = append(s.Steps, scene.Done{Step: step, At: exptest.At(step.At), Over: exptest.At(step.At)})
	}
	out := map[string]float64{}
	for at := time.Duration(0); at <= plan.Length; at += 100 * time.Millisecond {
		now := make(map[string]uint64)
		for i, l := range links {
			out[l] += f.carries(plan, at, i)
			now[l] = uint64(out[l])
		}
		s.Samples = append(s.Samples, scene.Sample{At: exptest.At(at), Out: now, In: now})
	}
	first := slices.IndexFunc(plan.Steps, func(st scene.Step) bool { return strings.HasPrefix(st.Name, stepReload) })
	from, n := plan.Steps[first].At, 0
	s.fast = exptest.UDP(t, plan.Length, time.Second/time.Duration(p.Int("rate")), time.Millisecond,
		func(d *exptest.Datagram) {
			n++
			// What is lost before the first reload does not count.
			d.Lost = d.At == from-100*time.Millisecond || f.lost && d.At == from+100*time.Millisecond
			if f.slow && n%10 == 0 {
				d.At = 0 // before the reloads
			}
		})
	for _, l := range lones {
		for i := range map[bool]int{false: 250, true: 190}[f.few] {
			where := l.link
			if f.astray == l.name && i == 7 {
				where = links[0]
			}
			s.sent = append(s.sent, datagram(t, l.port, where))
		}
	}
	// Others do not count: the name service, and what another program sends.
	s.sent = append(s.sent, packets.Packet{Proto: packets.UDP, DstPort: portPort, Where: links[0]})
	return s
}

// carries returns the bytes of a link in the 100 ms before a moment.
func (f fault) carries(plan scene.Schedule, at time.Duration, link int) float64 {
	const load = 200000 // 16 Mb/s
	part, reloaded := parts[0], ""
	for _, step := range plan.Steps {
		if step.At >= at {
			break
		}
		for _, p := range parts {
			if step.Name == stepFrom+p.name {
				part = p
			}
		}
		if to, ok := strings.CutPrefix(step.Name, stepReload); ok {
			reloaded = to
		}
	}
	share := float64(part.shares[link])
	off := f.off[part.name]
	switch {
	case reloaded != "" && links[link] == reloaded:
		share = 100
		if f.follows > 0 && reloaded == target(1) {
			share = f.follows
		}
	case reloaded != "":
		share = 0
		if f.follows > 0 && reloaded == target(1) {
			share = (100 - f.follows) / 2
		}
	case link == 0:
		share += off
	case link == 1:
		share -= off
	}
	if f.idle {
		share *= 0.45
	}
	return load * share / 100
}

// datagram is one of the probe's at a link.
func datagram(t *testing.T, port int, where string) packets.Packet {
	v := roam.ILV{NID: scene.NID("mn"), L64: 0x2001_0db8_0001_0000}
	data := binary.BigEndian.AppendUint32(nil, 0x524d5546)
	return packets.Packet{
		Src: netip.MustParseAddr(fmt.Sprint(v.Addr())), Proto: packets.UDP, DstPort: uint16(port), Where: where,
		Data: append(data, make([]byte, 16)...),
	}
}

// Each claim fails by a record just beyond its bound, and by no other.
func TestEachClaimSeesRed(t *testing.T) {
	p := exptest.Params(t, Experiment.Params, "standard", "rate=1000", "reloads=3")
	sound := func() []*seen { return []*seen{records(t, p, "soft", fault{}), records(t, p, "duality", fault{})} }
	var cases []exptest.Case
	add := func(name string, red, grey []string, f fault) {
		for i := range 2 {
			all := sound()
			all[i] = records(t, p, all[i].mode, f)
			cases = append(cases, exptest.Case{Name: name + " " + all[i].mode, Red: red, Grey: grey,
				Judge: func(r *result.Result, _ int) { judge(&exp.Env{Params: p, Result: r}, all) }})
		}
	}
	shares, lone, reloads := []string{"two-share", "three-share"}, []string{"port-link", "cgroup-link", "dscp-link"},
		[]string{"reload-lost", "reload-follows"}
	add("sound", nil, nil, fault{})
	add("two", shares[:1], nil, fault{off: map[string]float64{"two": 1.1}})
	add("three", shares[1:], nil, fault{off: map[string]float64{"three": -1.1}})
	for _, l := range lones {
		add(l.name, []string{l.name + "-link"}, nil, fault{astray: l.name})
	}
	add("lost", reloads[:1], nil, fault{lost: true})
	add("does not follow", reloads[1:], nil, fault{follows: 98.9})
	add("few", nil, lone, fault{few: true})
	add("slow", nil, reloads, fault{slow: true})
	add("idle", nil, shares, fault{idle: true})
	add("buffers", nil, reloads[:1], fault{errors: 1})
	add("captures", nil, lone, fault{capture: 1})
	add("emulator", nil, slices.Concat(shares, reloads), fault{drops: 1})
	exptest.Claims(t, Experiment, nil, cases...)
}

// The flows at once differ in what their rules ask for alone, and none is where it would be
// without rules.
func TestRules(t *testing.T) {
	text := rules("/sys/fs/cgroup/x", 1)
	for _, want := range []string{
		"cgroup = \"/sys/fs/cgroup/x\"\npolicy = \"failover\"\nlinks = [\"net2\"]", "dscp = [46]\n", "ports = [7003]\n",
		"shares = { net1 = 80, net2 = 20 }", "shares = { net1 = 50, net2 = 30, net3 = 20 }",
		fmt.Sprintf("ports = [%d]\npolicy = \"failover\"\nlinks = [%q]", portReload, target(1)),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, l := range lones {
		if l.link == links[0] {
			t.Errorf("%s is where it would be without its rule", l.name)
		}
	}
	if target(0) == target(1) || target(1) == target(2) {
		t.Error("a reload changes nothing")
	}
}
