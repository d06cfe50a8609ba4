package dataplane

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"roam/internal/hostnet"
)

// value reads the table of an object.
func (r *rig) value(o *object) (v uint64) {
	r.t.Helper()
	r.must(o.Table.Lookup(uint32(0), &v))
	return v
}

// Another ABI number of a set begins its maps anew, and no other set's: neither do its
// programs give way before TakeOver. The same number keeps them, unless the maps have
// another shape.
func TestABIOfEachSet(t *testing.T) {
	t.Run("as the kernel can", func(t *testing.T) { abiOfEachSet(t, false) })
	t.Run("clsact", func(t *testing.T) { abiOfEachSet(t, true) })
}

func abiOfEachSet(t *testing.T, classic bool) {
	r := newRig(t)
	for _, name := range []string{"one", "two"} {
		s, o := r.open(Options{Name: name, NoTCX: classic}, 1, r.spec(1, 8))
		r.must(o.Table.Put(uint32(0), uint64(77)))
		r.attach(s, o)
		o.close()
	}
	for _, c := range []struct {
		what, name string
		abi        uint32
		size       uint32
		kept       bool
	}{
		{"same number", "one", 1, 8, true},
		{"another number", "one", 2, 8, false},
		{"the other set", "two", 1, 8, true},
		{"another shape", "two", 1, 16, false},
	} {
		s, o := r.open(Options{Name: c.name, NoTCX: classic}, c.abi, r.spec(2, c.size))
		if c.size == 8 {
			if kept := r.value(o) == 77; kept != c.kept {
				t.Errorf("%s: table kept: %t", c.what, kept)
			}
		}
		if s.Behind() == c.kept {
			t.Errorf("%s: behind: %t", c.what, s.Behind())
		}
		r.attach(s, o)
		if got := pinnedABI(filepath.Join(s.Dir(), abiMap)); got != c.abi {
			t.Errorf("%s: pinned as %d, want %d", c.what, got, c.abi)
		}
		o.close()
	}
	// The programs of "one" and "two" that had to wait are not attached: of the first one
	// that of the same number, of the second one too.
	if got := r.passed(true, 2); got != "22" {
		t.Errorf("programs %s", got)
	}
}

// A set without a number beside its maps is of a build before there was one.
func TestMapsWithoutABI(t *testing.T) {
	r := newRig(t)
	s, o := r.open(Options{Name: "one"}, 1, r.spec(1, 8))
	r.must(o.Table.Put(uint32(0), uint64(77)))
	o.close()
	r.must(os.Remove(filepath.Join(s.Dir(), abiMap)))
	_, o = r.open(Options{Name: "one"}, 1, r.spec(1, 8))
	defer o.close()
	if v := r.value(o); v != 0 {
		t.Errorf("table of an unknown layout taken over: %d", v)
	}
}

// The pins of a build that had them in the common directory are found: its links are
// updated in place, and nothing of it stays behind.
func TestPinsOfTheFlatLayout(t *testing.T) {
	r := newRig(t)
	s, o := r.open(Options{Name: flatSet}, 1, r.spec(1, 8))
	r.attach(s, o)
	o.close()
	was := r.linkID(s)
	r.must(os.Remove(filepath.Join(s.Dir(), abiMap)))
	r.must(movePins(s.Dir(), s.opts.Dir))
	r.must(os.Remove(s.Dir()))
	s, o = r.open(Options{Name: flatSet}, 2, r.spec(2, 8))
	defer o.close()
	r.attach(s, o)
	if got := r.passed(true, 1); got != "1" || !s.Behind() {
		t.Errorf("before it takes over: program %s, behind: %t", got, s.Behind())
	}
	r.must(s.TakeOver())
	if got := r.passed(true, 1); got != "2" {
		t.Errorf("programs %s", got)
	}
	if now := r.linkID(s); now != was {
		t.Errorf("link %d in place of %d", now, was)
	}
	r.must(eachPin(s.opts.Dir, func(name string) error {
		t.Errorf("%s stays in the common directory", name)
		return nil
	}))
}

// linkID is the id of the set's link on the ingress.
func (r *rig) linkID(s *Set) link.ID {
	r.t.Helper()
	if !s.TCX() {
		return 0
	}
	l, err := link.LoadPinnedLink(s.linkPin(r.link(), true), nil)
	r.must(err)
	defer l.Close()
	info, err := l.Info()
	r.must(err)
	return info.ID
}

// A set that has no place is refused: under clsact two of them would replace each other.
func TestSetWithoutAPlace(t *testing.T) {
	if s, err := Open(Options{Dir: t.TempDir(), Name: "unknown", Classic: hostnet.Classic{}}); err == nil {
		t.Errorf("set %s is opened", s.Dir())
	}
}

// Remove leaves no pins of any set, nor of the layout before.
func TestRemoveOfAllSets(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"one", "two"} {
		s, o := r.open(Options{Name: name}, 1, r.spec(1, 8))
		r.attach(s, o)
		r.must(o.Table.Unpin())
		r.must(o.Table.Pin(filepath.Join(s.opts.Dir, "table_"+name)))
		o.close()
	}
	dir := r.dir + "/pins"
	r.must(Remove(dir))
	left, err := os.ReadDir(dir)
	r.must(err)
	if len(left) != 0 {
		t.Errorf("%v are left", left)
	}
	r.must(Remove(dir))
	r.must(Remove(dir + "/none"))
	if _, err := ebpf.LoadPinnedMap(dir+"/table_one", nil); err == nil {
		t.Error("a map is still pinned")
	}
}
