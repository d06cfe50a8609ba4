package desired

import (
	"fmt"
	"slices"
)

// Verb says what is to be done with an item.
type Verb int

const (
	// Keep leaves it as it stands.
	Keep Verb = iota
	// Make adds it, or sets a sysctl to its value.
	Make
	// Change brings one that is Roam's from its old form to the new one.
	Change
	// Remove takes it back, or sets a sysctl to its old value.
	Remove
)

// Found is what stands on the host under the key of an item.
type Found struct {
	Item Item // nil: nothing
	Ours bool // the journal names it, or it stands on a device that the journal names
}

// Op is one step on the way to what is wanted.
type Op struct {
	Verb Verb
	Item Item
	Was  Item   // of Change: the old form
	Old  string // of a sysctl: the value to put back
}

// Recorded reports whether the journal must name the item before the step.
func (op Op) Recorded() bool { return op.Verb == Make || op.Verb == Change }

// ForeignError says that something else stands where an item is wanted. What is
// not Roam's stays.
type ForeignError struct{ Want, Have Item }

// Error names both.
func (e ForeignError) Error() string {
	return fmt.Sprintf("want %s, but the host has %s, which is not Roam's and stays", e.Want, e.Have)
}

// Decide compares what is wanted with what stands there. What is there already
// and not Roam's is used and stays. A sysctl is set whoever set it before, since
// its old value can be put back.
func Decide(want Item, found Found) (Op, error) {
	_, device := want.(Device)
	_, sysctl := want.(Sysctl)
	_, address := want.(Address)
	old, _ := found.Item.(Sysctl)
	switch {
	case found.Item == nil:
		return Op{Verb: Make, Item: want}, nil
	case device: // another shape of it was an error before: its form shows that it is ours
		return Op{Verb: Change, Item: want}, nil
	case found.Item == want, found.Item.Recorded() == want.Recorded() && !sysctl, address && !found.Ours:
		return Op{Verb: Keep, Item: want}, nil
	case sysctl:
		return Op{Verb: Make, Item: want, Old: old.Value}, nil
	case found.Ours:
		return Op{Verb: Change, Item: want, Was: found.Item}, nil
	}
	return Op{}, ForeignError{want, found.Item}
}

// Sort brings steps into their order. What is wanted comes before what is not
// wanted any more goes, so that there is no moment without either.
func Sort(ops []Op) {
	slices.SortStableFunc(ops, func(a, b Op) int {
		switch gone := a.Verb == Remove; {
		case gone != (b.Verb == Remove) && gone:
			return 1
		case gone != (b.Verb == Remove):
			return -1
		case gone:
			return compare(b.Item, a.Item)
		}
		return compare(a.Item, b.Item)
	})
}

// Undo returns the order in which recorded items are taken back, as indices
// into the list, which is in the order of recording: the last stage first, and
// within a stage the newest first.
func Undo(recorded []Item) []int {
	order := make([]int, len(recorded))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if x, y := recorded[a].stage(), recorded[b].stage(); x != y {
			return int(y - x)
		}
		return b - a
	})
	return order
}
