package dataplane

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"roam/internal/testutil"
)

// Programs of several sets on one link run in the order of their places, whichever of
// them comes first, on tcx and on clsact: on ingress from the wire inwards, on egress
// outwards. Replacing one leaves the order, and detaching one leaves the others.
func TestOrderOnALink(t *testing.T) {
	places := map[string]int{"wire": -7, "middle": 0, "inside": 5}
	digits := map[string]int32{"wire": 1, "middle": 2, "inside": 3}
	for _, classic := range []bool{false, true} {
		for _, order := range [][]string{
			{"wire", "middle", "inside"}, {"wire", "inside", "middle"}, {"middle", "wire", "inside"},
			{"middle", "inside", "wire"}, {"inside", "wire", "middle"}, {"inside", "middle", "wire"},
		} {
			t.Run(fmt.Sprint("classic ", classic, " ", order), func(t *testing.T) {
				r := newRig(t)
				sets := map[string]*Set{}
				attach := func(name string, digit int32) {
					t.Helper()
					s, o := r.open(Options{Name: name, NoTCX: classic, Places: places}, 1, r.spec(digit, 8))
					defer o.close()
					testutil.NeedKernel(t, "tcx links", s.TCX() || classic)
					r.attach(s, o)
					sets[name] = s
				}
				want := func(what, ingress, egress string) {
					t.Helper()
					if got := r.passed(true, len(ingress)); got != ingress {
						t.Errorf("%s: ingress in the order %s, want %s", what, got, ingress)
					}
					if got := r.passed(false, len(egress)); got != egress {
						t.Errorf("%s: egress in the order %s, want %s", what, got, egress)
					}
				}
				for _, name := range order {
					attach(name, digits[name])
				}
				want("attached", "123", "321")
				for _, name := range order {
					attach(name, digits[name]+8)
				}
				want("replaced", "9ab", "ba9")
				r.must(sets["middle"].Detach(r.link()))
				want("without one", "9b", "b9")
				attach("middle", 2)
				want("it is back", "92b", "b29")
				for name, s := range sets {
					if links, err := s.Attached(); err != nil || len(links) != 1 || links[0] != r.link() {
						t.Errorf("%s is attached to %v, %v", name, links, err)
					}
				}
			})
		}
	}
}

// Sets that attach at the same time, as roles do, find their places all the same.
func TestOrderOfSetsAtOnce(t *testing.T) {
	r := newRig(t)
	places := map[string]int{"wire": -7, "middle": 0, "inside": 5}
	digits := map[string]int32{"wire": 1, "middle": 2, "inside": 3}
	sets, objects := map[string]*Set{}, map[string]*object{}
	for name, digit := range digits {
		sets[name], objects[name] = r.open(Options{Name: name, Places: places}, 1, r.spec(digit, 8))
		defer objects[name].close()
		testutil.NeedKernel(t, "tcx links", sets[name].TCX())
	}
	var homes []*os.File
	for _, kind := range []string{"net", "mnt"} {
		f, err := os.Open("/proc/thread-self/ns/" + kind)
		r.must(err)
		defer f.Close()
		homes = append(homes, f)
	}
	for range 20 {
		errs := make(chan error)
		for name, s := range sets {
			go func() {
				runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
				err := unix.Unshare(unix.CLONE_FS)
				for _, f := range homes {
					err = errors.Join(err, unix.Setns(int(f.Fd()), 0))
				}
				for _, ingress := range []bool{true, false} {
					err = errors.Join(err, s.AttachLink(r.link(), ingress, objects[name].Mark))
				}
				errs <- err
			}()
		}
		for range sets {
			r.must(<-errs)
		}
		if in, out := r.passed(true, 3), r.passed(false, 3); in != "123" || out != "321" {
			t.Fatalf("ingress in the order %s, egress %s", in, out)
		}
		for _, s := range sets {
			r.must(s.Detach(r.link()))
		}
		// The kernel lets go of a link a little after its last pin.
		testutil.Eventually(t, 5*time.Second, func() bool {
			n := 0
			for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
				res, err := link.QueryPrograms(link.QueryOptions{Target: r.near.Index, Attach: at})
				r.must(err)
				n += len(res.Programs)
			}
			return n == 0
		}, "no program is attached any more")
	}
}

// What a set that is not in Places would do is not left to chance: each has a place of
// its own.
func TestPlacesDiffer(t *testing.T) {
	at := map[int]string{}
	for name, place := range Places {
		if other, taken := at[place]; taken {
			t.Errorf("%s and %s have the place %d", name, other, place)
		}
		at[place] = name
	}
	if Places[flatSet] != 0 {
		t.Errorf("%s has place %d: successors would not find the filters of builds before", flatSet, Places[flatSet])
	}
}
