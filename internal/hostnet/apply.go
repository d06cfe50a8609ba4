package hostnet

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"roam/internal/hostnet/desired"
)

// Owners of what hostnet itself wants for the ILNP host.
const (
	ownerPrefix   = "host/"
	ownerDevices  = ownerPrefix + "devices"  // the session device and the segmentation device
	ownerSession  = ownerPrefix + "session"  // the session address and its route
	ownerDirect   = ownerPrefix + "direct"   // the route of session addresses through an uplink
	ownerLocators = ownerPrefix + "locators" // prefix:NID on each uplink
	ownerRouters  = ownerPrefix + "routers"  // that advertisements are taken where the host forwards
)

// effects are what an applier does to a host.
type effects interface {
	// find returns what stands on the host under the key of an item: nil if
	// nothing does.
	find(desired.Item) (desired.Item, error)
	// onDevice reports whether an item stands on one of these devices.
	onDevice(desired.Item, []desired.Device) bool
	// put makes or changes an item.
	put(desired.Op) error
	// take removes an item, or sets a sysctl to its old value. What is gone, or
	// somebody else's by now, is no error.
	take(item desired.Item, old string) error
	// settle ends a run of takes: it does what costs as much for one item as for all.
	settle() error
}

// applier makes a host what the owners want. Each change is in the journal
// before it is made, so that a process that is killed at any point leaves a
// journal by which the host can be restored.
type applier struct {
	mu      sync.Mutex // held while a state is applied
	fx      effects
	journal *journal
	owners  desired.Owners
	// stands holds, by key, what is known to stand as it is wanted.
	stands map[string]desired.Item
	// at is told of each point at which a process may be killed; nil outside
	// tests.
	at func(point string)
}

func newApplier(fx effects, j *journal) *applier {
	return &applier{fx: fx, journal: j, stands: map[string]desired.Item{}}
}

// failure is an item that could not be brought to what is wanted.
type failure struct {
	item desired.Item
	err  error
}

// Set has the host's network be what an owner wants, in place of what it wanted
// before. Only differences are applied; what is there already and not Roam's
// stays, and what somebody else has removed since is put back. A state that
// contradicts another owner's is refused as a whole. What fails is named, the
// rest is done all the same, and the next Set tries again. It is called from any
// goroutine, until Close.
func (h *Host) Set(owner string, s desired.State) error {
	if owner == "" || strings.HasPrefix(owner, ownerPrefix) {
		return fmt.Errorf("set the host's network: the owner %q is not a role's name", owner)
	}
	h.state.check(owner)
	failed, err := h.state.set(owner, s)
	return joined(failed, err)
}

// joined makes one error of what failed.
func joined(failed []failure, err error) error {
	errs := []error{err}
	for _, f := range failed {
		errs = append(errs, f.err)
	}
	return errors.Join(errs...)
}

// set is Set for any owner. The error says that nothing was done.
func (a *applier) set(owner string, s desired.State) ([]failure, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.owners.Set(owner, s); err != nil {
		return nil, fmt.Errorf("set the host's network: %w", err)
	}
	ops, failed := a.plan(owner)
	more, err := a.carryOut(owner, ops)
	return append(failed, more...), err
}

// lost says that somebody else removed what was applied: the next set looks for
// it again.
func (a *applier) lost(items ...desired.Item) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range items {
		delete(a.stands, x.Key())
	}
}

// check looks whether what an owner wanted still stands, and has the next set
// look again for what does not.
func (a *applier) check(owner string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, want := range a.owners.Of(owner) {
		item, err := a.fx.find(want)
		op, foreign := desired.Decide(want, desired.Found{Item: item, Ours: true})
		adopted := op.Verb == desired.Change && op.Was == nil // a device that stands
		if err != nil || foreign != nil || op.Verb != desired.Keep && !adopted {
			delete(a.stands, want.Key())
		}
	}
}

// left returns what an earlier process has applied for an owner.
func (a *applier) left(owner string) (items []desired.Item) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.journal.of(owner) {
		items = append(items, e.item)
	}
	return items
}

// plan returns the steps to what an owner wants, in order.
func (a *applier) plan(owner string) (ops []desired.Op, failed []failure) {
	wanted := map[string]bool{}
	for _, want := range a.owners.Of(owner) {
		wanted[want.Key()] = true
		op, err := a.decide(want)
		if err != nil {
			failed = append(failed, failure{want, err})
			continue
		}
		if op.Verb == desired.Keep {
			a.stands[want.Key()] = want
		} else {
			ops = append(ops, op)
		}
		// Its old forms: the present one, and one that a process was killed with.
		for _, e := range a.journal.named(want.Key()) {
			if e.item != want.Recorded() {
				ops = append(ops, desired.Op{Verb: desired.Remove, Item: e.item, Old: e.old})
			}
		}
	}
	for _, e := range a.journal.of(owner) {
		if key := e.item.Key(); !wanted[key] && a.owners.Wanting(key) == "" {
			ops = append(ops, desired.Op{Verb: desired.Remove, Item: e.item, Old: e.old})
		}
	}
	for key := range a.stands {
		if a.owners.Wanting(key) == "" {
			delete(a.stands, key)
		}
	}
	desired.Sort(ops)
	return ops, failed
}

// decide says how one item becomes what is wanted. The host is asked only about
// items that are not known to stand.
func (a *applier) decide(want desired.Item) (desired.Op, error) {
	key := want.Key()
	ours := len(a.journal.named(key)) > 0
	if was, known := a.stands[key]; known && was == want {
		return desired.Op{Verb: desired.Keep, Item: want}, nil
	} else if known && ours {
		return desired.Op{Verb: desired.Change, Item: want, Was: was}, nil
	}
	item, err := a.fx.find(want)
	if err != nil {
		return desired.Op{}, err
	}
	found := desired.Found{Item: item, Ours: ours}
	op, err := desired.Decide(want, found)
	if errors.As(err, &desired.ForeignError{}) && a.fx.onDevice(item, a.devices()) {
		found.Ours = true
		op, err = desired.Decide(want, found)
	}
	return op, err
}

// devices returns those that the journal names.
func (a *applier) devices() (list []desired.Device) {
	for _, e := range a.journal.entries {
		if d, ok := e.item.(desired.Device); ok {
			list = append(list, d)
		}
	}
	return list
}

// carryOut records steps, takes them, and then forgets what is not there any
// more. The error says that nothing was done.
func (a *applier) carryOut(owner string, ops []desired.Op) (failed []failure, err error) {
	var fresh []entry
	for _, op := range ops {
		e := entry{owner, op.Item.Recorded(), op.Old}
		if op.Recorded() && !a.journal.has(e.item) {
			fresh = append(fresh, e)
		}
	}
	a.reach("planned")
	if err := a.journal.edit(nil, fresh); err != nil {
		return nil, err
	}
	a.reach("recorded")
	var over []entry
	unmade := map[string]bool{}
	for _, op := range ops {
		if op.Verb == desired.Remove && unmade[op.Item.Key()] {
			continue // the old form stays until the new one can be made
		}
		gone, err := a.step(op, fresh)
		if err != nil {
			failed = append(failed, failure{op.Item, err})
			unmade[op.Item.Key()] = true
		}
		over = append(over, gone...)
		a.reach("stepped")
	}
	// What another owner wants as well is its own from now on.
	var handed []entry
	for _, e := range a.journal.of(owner) {
		key := e.item.Key()
		if other := a.owners.Wanting(key); other != "" && !a.owners.Wants(owner, key) {
			over = append(over, e)
			handed = append(handed, entry{other, e.item, e.old})
		}
	}
	if err := a.journal.edit(over, handed); err != nil {
		failed = append(failed, failure{err: err})
	}
	a.reach("forgotten")
	return failed, nil
}

// step takes one step and returns the entries that it made void.
func (a *applier) step(op desired.Op, fresh []entry) (void []entry, err error) {
	if op.Verb == desired.Remove {
		if err := errors.Join(a.fx.take(op.Item, op.Old), a.fx.settle()); err != nil {
			return nil, err
		}
		return []entry{a.journal.entry(op.Item)}, nil
	}
	if err := a.fx.put(op); err != nil {
		delete(a.stands, op.Item.Key())
		for _, e := range fresh {
			if e.item == op.Item.Recorded() && a.untouched(op, err) {
				void = append(void, e)
			}
		}
		return void, err
	}
	a.stands[op.Item.Key()] = op.Item
	return nil, nil
}

// untouched reports whether a step that failed has left nothing of Roam's.
func (a *applier) untouched(op desired.Op, why error) bool {
	if errors.Is(why, unix.EEXIST) {
		return true // somebody was faster
	}
	found, err := a.fx.find(op.Item)
	if s, ok := found.(desired.Sysctl); ok {
		return err == nil && s.Value == op.Old
	}
	return err == nil && found == nil
}

func (a *applier) reach(point string) {
	if a.at != nil {
		a.at(point)
	}
}
