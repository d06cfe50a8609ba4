package dataplane

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"roam"
	"roam/internal/testutil"
)

// prepared is a rig with a set that has tcx, and its object.
func prepared(t *testing.T) (*rig, *Set, *object) {
	t.Helper()
	r := newRig(t)
	s, o := r.open(Options{Name: "one"}, 1, r.spec(1, 8))
	t.Cleanup(o.close)
	testutil.NeedKernel(t, "tcx links", s.TCX())
	return r, s, o
}

// A prepared link lets everything pass, and has no programs of its set. The program that
// comes is put in the place of the one that does nothing, on the same attachment, and is
// not taken away again by what takes back a preparation.
func TestPrepare(t *testing.T) {
	r, s, o := prepared(t)
	lists := func(what string, attached, prepared bool) {
		t.Helper()
		for name, c := range map[string]struct {
			list func() ([]roam.LinkID, error)
			want bool
		}{"attached": {s.Attached, attached}, "prepared": {s.Prepared, prepared}} {
			got, err := c.list()
			r.must(err)
			if slices.Contains(got, r.link()) != c.want {
				t.Errorf("%s: %s: %v", what, name, got)
			}
		}
	}
	other, beside := r.open(Options{Name: "two"}, 1, r.spec(2, 8)) // sees what passes
	defer beside.close()
	r.attach(other, beside)
	r.must(s.Prepare(r.link()))
	was := r.linkID(s)
	if in, out := r.passed(true, 1), r.passed(false, 1); in != "2" || out != "2" {
		t.Errorf("prepared: programs %s, %s", in, out)
	}
	lists("prepared", false, true)
	r.attach(s, o)
	if in, out := r.passed(true, 2), r.passed(false, 2); in != "12" || out != "21" || r.linkID(s) != was {
		t.Errorf("attached: programs %s, %s; attachment %d, was %d", in, out, r.linkID(s), was)
	}
	lists("attached", true, false)
	r.must(s.Prepare(r.link())) // late
	r.must(s.Release(r.link()))
	lists("prepared and released once it has its programs", true, false)
	if in, out := r.passed(true, 2), r.passed(false, 2); in != "12" || out != "21" {
		t.Errorf("prepared and released once it has its programs: %s, %s", in, out)
	}
	r.must(s.Detach(r.link()))
	r.must(s.Prepare(r.link()))
	r.must(s.Release(r.link()))
	lists("released", false, false)
	if in := r.passed(true, 1); in != "2" {
		t.Errorf("released: program %s", in)
	}
	if links, err := other.Attached(); err != nil || len(links) != 1 {
		t.Errorf("the other set is attached to %v, %v", links, err)
	}
}

// The places of a link's programs hold, too, where one set has only prepared it.
func TestOrderOfPrepared(t *testing.T) {
	r, s, o := prepared(t)
	places := map[string]int{"one": 1, "two": 2, "wire": -1}
	r.must(s.Prepare(r.link()))
	for name, digit := range map[string]int32{"wire": 3, "two": 2} {
		other, beside := r.open(Options{Name: name, Places: places}, 1, r.spec(digit, 8))
		defer beside.close()
		r.attach(other, beside)
	}
	r.attach(s, o)
	if in, out := r.passed(true, 3), r.passed(false, 3); in != "312" || out != "213" {
		t.Errorf("programs %s, %s", in, out)
	}
}

// The successor of a process that prepared a link is not behind because of that, and
// learns of it, also when the link is gone.
func TestPreparedForASuccessor(t *testing.T) {
	r, s, _ := prepared(t)
	r.must(s.Prepare(r.link()))
	s, o := r.open(Options{Name: "one"}, 2, r.spec(1, 8))
	defer o.close()
	if s.Behind() {
		t.Error("it waits for the programs of a link that has none")
	}
	r.ip("link del " + r.near.Name)
	links, err := s.Prepared()
	if err != nil || !slices.Equal(links, []roam.LinkID{r.link()}) {
		t.Errorf("prepared: %v, %v", links, err)
	}
	r.must(s.Release(r.link()))
	if links, err := s.Prepared(); err != nil || len(links) != 0 {
		t.Errorf("released: %v, %v", links, err)
	}
	if err := s.Prepare(r.link()); err == nil {
		t.Error("a link that is gone is prepared")
	}
}

// Disarmed programs do nothing, though they are attached still, so nothing waits for the
// kernel. Their removal detaches them, and afterwards there is nothing to disarm.
func TestDisarm(t *testing.T) {
	r, s, o := prepared(t)
	r.attach(s, o)
	was, dir := r.linkID(s), filepath.Dir(s.Dir())
	other, beside := r.open(Options{Name: "two"}, 1, r.spec(2, 8))
	defer beside.close()
	r.attach(other, beside)
	_, witness := r.open(Options{Name: "wire", Places: map[string]int{"wire": -1}}, 1, r.spec(3, 8))
	defer witness.close()
	for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
		l, err := link.AttachTCX(link.TCXOptions{Interface: int(r.link()), Program: witness.Mark, Attach: at})
		r.must(err)
		defer l.Close()
	}
	classic := 0
	disarm := func() { r.must(Disarm(dir, func() error { classic++; return nil })) }
	disarm()
	if in, out := r.passed(true, 1), r.passed(false, 1); in != "3" || out != "3" {
		t.Errorf("disarmed: programs %s, %s, want that of somebody else", in, out)
	}
	if is := r.linkID(s); is != was || classic != 1 {
		t.Errorf("disarmed: attachment %d, was %d; clsact %d times, want 1", is, was, classic)
	}
	disarm() // by the successor of one that was killed
	r.must(Remove(dir))
	testutil.Eventually(t, 10*time.Second, func() bool {
		_, err := link.NewFromID(was)
		return errors.Is(err, os.ErrNotExist)
	}, "the program is detached")
	disarm()
	if classic != 2 {
		t.Errorf("clsact is looked through %d times, want 2", classic)
	}
}

// The links of programs that do not run on a network link, and those of links that are gone,
// are unpinned at once.
func TestDisarmUnpins(t *testing.T) {
	r, s, o := prepared(t)
	r.attach(s, o)
	foreign := filepath.Join(s.Dir(), linkPrefix+"guard_0")
	r.must(os.Rename(filepath.Join(s.Dir(), abiMap), foreign)) // no tcx link
	r.ip("link del " + r.near.Name)
	r.must(Disarm(s.Dir(), func() error { return nil }))
	for _, pin := range []string{foreign, s.linkPin(r.link(), true), s.linkPin(r.link(), false)} {
		if _, err := os.Stat(pin); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", pin, err)
		}
	}
}

// What is attached to a prepared link does not wait for the kernel's grace period.
func TestPreparedIsQuick(t *testing.T) {
	r, s, o := prepared(t)
	links := 0
	quickest := func(begin func(roam.LinkID)) time.Duration {
		best := time.Hour
		for range 5 {
			links++
			name := fmt.Sprint("n", os.Getpid(), "x", links)
			r.ip("link add " + name + " type veth peer name " + name + "p")
			l, err := net.InterfaceByName(name)
			r.must(err)
			dev := roam.LinkID(l.Index)
			begin(dev)
			at := time.Now()
			r.must(s.AttachLink(dev, true, o.Mark))
			r.must(s.AttachLink(dev, false, o.Mark))
			best = min(best, time.Since(at))
		}
		return best
	}
	slow := quickest(func(roam.LinkID) {})
	quick := quickest(func(dev roam.LinkID) { r.must(s.Prepare(dev)) })
	t.Logf("first attachment %v, prepared %v", slow, quick)
	if quick > slow/3 {
		t.Errorf("attached within %v to a prepared link, within %v to another one", quick, slow)
	}
}
