package hostnet

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"roam/internal/hostnet/desired"
)

// fakeHost is a host without a kernel. Each effect is an instant.
type fakeHost struct {
	items map[string]desired.Item // by key
	log   []string
	deny  map[string]error // by key: put fails
	taken func()           // is called before something is taken back; nil: nothing is
}

func (f *fakeHost) find(x desired.Item) (desired.Item, error) { return f.items[x.Key()], nil }

func (f *fakeHost) onDevice(desired.Item, []desired.Device) bool { return false }

func (f *fakeHost) put(op desired.Op) error {
	if err := f.deny[op.Item.Key()]; err != nil {
		return err
	}
	f.items[op.Item.Key()] = op.Item
	f.log = append(f.log, "put "+op.Item.Key())
	return nil
}

func (f *fakeHost) take(x desired.Item, old string) error {
	if f.taken != nil {
		f.taken()
	}
	f.log = append(f.log, "take "+x.Key())
	if s, ok := x.(desired.Sysctl); ok {
		s.Value = old
		f.items[x.Key()] = s
		return nil
	}
	if have := f.items[x.Key()]; have != nil && have.Recorded() == x {
		delete(f.items, x.Key())
	}
	return nil
}

func (f *fakeHost) settle() error { return nil }

func (f *fakeHost) told() string {
	s := strings.Join(f.log, ", ")
	f.log = nil
	return s
}

var (
	fakeAddr  = desired.Address{Link: 2, Addr: netip.MustParseAddr("2001:db8::1"), Bits: 128}
	fakeRA    = desired.Sysctl{Link: 2, Param: "accept_ra", Value: "2"}
	fakeRoute = desired.Route{Dst: netip.MustParsePrefix("2001:db8:1::/48"), Link: 2}.Normal()
)

func newFake(t *testing.T) (*fakeHost, *applier) {
	t.Helper()
	old := fakeRA
	old.Value = "1"
	f := &fakeHost{items: map[string]desired.Item{old.Key(): old}, deny: map[string]error{}}
	j, err := loadJournal(filepath.Join(t.TempDir(), "host.json"))
	if err != nil {
		t.Fatal(err)
	}
	return f, newApplier(f, j)
}

func mustSet(t *testing.T, a *applier, owner string, s desired.State) {
	t.Helper()
	if err := joined(a.set(owner, s)); err != nil {
		t.Fatal(err)
	}
}

func TestSetAppliesDifferencesOnly(t *testing.T) {
	f, a := newFake(t)
	s := desired.State{
		Addresses: []desired.Address{fakeAddr}, Sysctls: []desired.Sysctl{fakeRA}, Routes: []desired.Route{fakeRoute},
	}
	steps := []struct {
		owner string
		s     desired.State
		want  string
	}{
		{"a", s, "put sysctl 2/accept_ra, put address 2001:db8::1 on 2, " +
			"put route 2001:db8:1::/48 table 254 metric 1024"},
		{"a", s, ""},
		{"b", desired.State{Addresses: s.Addresses}, ""}, // shared
		{"a", desired.State{Sysctls: s.Sysctls}, "take route 2001:db8:1::/48 table 254 metric 1024"},
		{"b", desired.State{}, "take address 2001:db8::1 on 2"},
		{"a", desired.State{}, "take sysctl 2/accept_ra"},
	}
	for i, x := range steps {
		mustSet(t, a, x.owner, x.s)
		if got := f.told(); got != x.want {
			t.Errorf("step %d did %q, want %q", i, got, x.want)
		}
	}
	if len(a.journal.entries) != 0 || f.items[fakeRA.Key()].(desired.Sysctl).Value != "1" {
		t.Errorf("journal %v, host %v", a.journal.entries, f.items)
	}
}

// What is there already is used and stays; what stands in the way is named.
func TestSetLeavesWhatIsForeign(t *testing.T) {
	f, a := newFake(t)
	foreign := fakeRoute
	foreign.Link = 9
	f.items[fakeAddr.Key()], f.items[foreign.Key()] = fakeAddr, foreign
	err := joined(a.set("a", desired.State{Addresses: []desired.Address{fakeAddr}, Routes: []desired.Route{fakeRoute}}))
	if !errors.As(err, &desired.ForeignError{}) {
		t.Errorf("error %v", err)
	}
	mustSet(t, a, "a", desired.State{})
	if got := f.told(); got != "" || f.items[fakeAddr.Key()] == nil {
		t.Errorf("did %q", got)
	}
}

// What somebody else removes comes back with the next Set that knows of it, and
// is then Roam's.
func TestSetAgainAfterALoss(t *testing.T) {
	f, a := newFake(t)
	f.items[fakeAddr.Key()] = fakeAddr
	s := desired.State{Addresses: []desired.Address{fakeAddr}}
	mustSet(t, a, "a", s)
	delete(f.items, fakeAddr.Key())
	a.lost(fakeAddr)
	mustSet(t, a, "a", s)
	mustSet(t, a, "a", desired.State{})
	if got, want := f.told(), "put address 2001:db8::1 on 2, take address 2001:db8::1 on 2"; got != want {
		t.Errorf("did %q, want %q", got, want)
	}
}

// One item that fails holds up no other, leaves nothing to restore, and is tried
// again.
func TestSetGoesOnAfterAFailure(t *testing.T) {
	f, a := newFake(t)
	f.deny[fakeAddr.Key()] = errors.New("denied")
	s := desired.State{Addresses: []desired.Address{fakeAddr}, Routes: []desired.Route{fakeRoute}}
	if err := joined(a.set("a", s)); err == nil || !strings.Contains(err.Error(), "denied") {
		t.Errorf("error %v", err)
	}
	if f.items[fakeRoute.Key()] == nil || a.journal.has(fakeAddr) {
		t.Errorf("host %v, journal %v", f.items, a.journal.entries)
	}
	delete(f.deny, fakeAddr.Key())
	mustSet(t, a, "a", s)
	if f.items[fakeAddr.Key()] == nil {
		t.Error("not tried again")
	}
}

// Without a journal nothing is changed.
func TestSetWithoutAJournal(t *testing.T) {
	f, a := newFake(t)
	a.journal.path = filepath.Join(a.journal.path, "none", "host.json")
	if err := joined(a.set("a", desired.State{Addresses: []desired.Address{fakeAddr}})); err == nil || f.told() != "" {
		t.Errorf("error %v, host %v", err, f.items)
	}
}

// A successor takes back what its predecessor made and no owner wants any more,
// and hands over what another owner wants.
func TestSetOfASuccessor(t *testing.T) {
	f, a := newFake(t)
	mustSet(t, a, "a", desired.State{Addresses: []desired.Address{fakeAddr}, Sysctls: []desired.Sysctl{fakeRA}})
	b := newApplier(f, a.journal)
	mustSet(t, b, "b", desired.State{Addresses: []desired.Address{fakeAddr}})
	f.told()
	mustSet(t, b, "a", desired.State{})
	if got := f.told(); got != "take sysctl 2/accept_ra" {
		t.Errorf("did %q", got)
	}
	c := newApplier(f, a.journal)
	mustSet(t, c, "b", desired.State{})
	if got := f.told(); got != "take address 2001:db8::1 on 2" {
		t.Errorf("the heir did %q", got)
	}
}

// killed is what a fake process dies of.
type killed struct{}

// TestKilledAnywhere has processes that set random states die at random points:
// the journal that they leave restores the host.
func TestKilledAnywhere(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		path := filepath.Join(t.TempDir(), "host.json")
		f := &fakeHost{items: map[string]desired.Item{}}
		for _, x := range fakeMenu() {
			if s, ok := x.(desired.Sysctl); ok {
				s.Value = "0"
				f.items[s.Key()] = s
			} else if r.IntN(8) == 0 {
				f.items[x.Key()] = x // there before Roam
			}
		}
		found := maps.Clone(f.items)
		for range 1 + r.IntN(3) {
			fakeLife(t, f, path, r)
		}
		j, err := loadJournal(path)
		if err == nil {
			err = j.undo(f)
		}
		if err != nil || !maps.Equal(found, f.items) {
			t.Fatalf("seed %d: %v\nfound    %v\nrestored %v", seed, err, found, f.items)
		}
	}
}

// The journal is replaced once for all that is taken back, and not before: a process that is
// killed meanwhile leaves the whole list, which its successor takes back again.
func TestUndoWritesOnce(t *testing.T) {
	f, a := newFake(t)
	found := maps.Clone(f.items)
	mustSet(t, a, "a", desired.State{
		Addresses: []desired.Address{fakeAddr}, Sysctls: []desired.Sysctl{fakeRA}, Routes: []desired.Route{fakeRoute},
	})
	written := func() string {
		t.Helper()
		b, err := os.ReadFile(a.journal.path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	full := written()
	f.taken = func() {
		if written() != full {
			t.Error("the journal is replaced before all is taken back")
		}
	}
	for range 2 { // as it was left, and as a killed process leaves it
		j, err := loadJournal(a.journal.path)
		if err == nil {
			err = j.undo(f)
		}
		if err != nil || !maps.Equal(found, f.items) || strings.Contains(written(), "owner") {
			t.Fatalf("%v, found %v, restored %v, journal %s", err, found, f.items, written())
		}
		if err := os.WriteFile(a.journal.path, []byte(full), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// fakeLife is one process, which is killed in the end.
func fakeLife(t *testing.T, f *fakeHost, path string, r *rand.Rand) {
	defer func() {
		if x := recover(); x != nil && x != (killed{}) {
			panic(x)
		}
	}()
	j, err := loadJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	a, left := newApplier(f, j), r.IntN(30)
	a.at = func(string) {
		if left--; left < 0 {
			panic(killed{})
		}
	}
	for range 6 {
		owner := string(rune('a' + r.IntN(3)))
		// Contradictions and foreign items are refused; that is no concern here.
		_, _ = a.set(owner, fakeState(r))
	}
}

// fakeMenu lists what random states are made of: several forms of each.
func fakeMenu() (menu []desired.Item) {
	for i := range 4 {
		a := netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", i+1))
		menu = append(menu,
			desired.Address{Link: 2, Addr: a, Bits: 128}, desired.Proxy{Link: 2, Addr: a},
			desired.Sysctl{Link: 2 + i, Param: "accept_ra", Value: "2"},
			desired.Sysctl{Link: 2 + i, Param: "forwarding", Value: "1"},
			desired.Neighbour{Link: 3, Addr: a, MAC: "02:00:00:00:00:01"},
			desired.Neighbour{Link: 3, Addr: a, MAC: "02:00:00:00:00:02"},
			desired.Route{Dst: netip.PrefixFrom(a, 128), Link: 2}.Normal(),
			desired.Route{Dst: netip.PrefixFrom(a, 128), Link: 3}.Normal(),
			desired.Rule{Priority: 10 + i, Table: 9},
			desired.Rule{Priority: 10 + i, From: netip.PrefixFrom(a, 128), Table: 9})
	}
	return menu
}

func fakeState(r *rand.Rand) (s desired.State) {
	var picked []string
	for _, x := range fakeMenu() {
		if r.IntN(3) != 0 || slices.Contains(picked, x.Key()) {
			continue
		}
		picked = append(picked, x.Key())
		switch x := x.(type) {
		case desired.Address:
			s.Addresses = append(s.Addresses, x)
		case desired.Proxy:
			s.Proxies = append(s.Proxies, x)
		case desired.Sysctl:
			s.Sysctls = append(s.Sysctls, x)
		case desired.Neighbour:
			s.Neighbours = append(s.Neighbours, x)
		case desired.Route:
			s.Routes = append(s.Routes, x)
		case desired.Rule:
			s.Rules = append(s.Rules, x)
		}
	}
	return s
}
