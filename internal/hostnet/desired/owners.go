package desired

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Owners holds what each owner wants. The zero value is ready for use.
type Owners struct {
	wants map[string]map[string]Item // by owner and key
}

// items returns what a state wants, by key; an error if it contradicts itself.
func (s State) items() (map[string]Item, error) {
	m := map[string]Item{}
	var errs []error
	add := func(x Item) {
		if err := x.check(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", x, err))
		}
		if have, twice := m[x.Key()]; twice && have != x {
			errs = append(errs, fmt.Errorf("%s and %s contradict each other", have, x))
		}
		m[x.Key()] = x
	}
	each(s.Devices, add)
	each(s.Sysctls, add)
	each(s.Addresses, add)
	each(s.Neighbours, add)
	each(s.Proxies, add)
	for _, r := range s.Routes {
		if r.Dst.IsValid() {
			r = r.Normal()
		}
		add(r)
	}
	each(s.Rules, add)
	return m, errors.Join(errs...)
}

func each[T Item](list []T, do func(Item)) {
	for _, x := range list {
		do(x)
	}
}

// Set replaces what an owner wants. If it contradicts itself or another owner,
// all of it is refused and what the owner wanted before holds.
func (o *Owners) Set(owner string, s State) error {
	m, err := s.items()
	if err != nil {
		return fmt.Errorf("%q wants what cannot be: %w", owner, err)
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(m)) {
		for _, other := range slices.Sorted(maps.Keys(o.wants)) {
			if x, both := o.wants[other][key]; both && other != owner && x != m[key] {
				errs = append(errs, fmt.Errorf("%q wants %s, but %q wants %s", owner, m[key], other, x))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if o.wants == nil {
		o.wants = map[string]map[string]Item{}
	}
	if o.wants[owner] = m; len(m) == 0 {
		delete(o.wants, owner)
	}
	return nil
}

// Of returns what an owner wants, in the order in which it is made.
func (o *Owners) Of(owner string) []Item {
	wants := o.wants[owner]
	items := make([]Item, 0, len(wants))
	for _, key := range slices.Sorted(maps.Keys(wants)) {
		items = append(items, wants[key])
	}
	slices.SortStableFunc(items, func(a, b Item) int { return cmp.Compare(a.stage(), b.stage()) })
	return items
}

// Wanting returns the first owner that wants what key names, "" if none does.
func (o *Owners) Wanting(key string) string {
	for _, owner := range slices.Sorted(maps.Keys(o.wants)) {
		if _, wants := o.wants[owner][key]; wants {
			return owner
		}
	}
	return ""
}

// Wants reports whether an owner wants what key names.
func (o *Owners) Wants(owner, key string) bool {
	_, wants := o.wants[owner][key]
	return wants
}

// compare orders items as they are made.
func compare(a, b Item) int {
	return cmp.Or(cmp.Compare(a.stage(), b.stage()), strings.Compare(a.Key(), b.Key()))
}
