package roam

import "strings"

// PathChange says what became of the paths of a session: any sum of the values
// below. A core tells it of its sessions; what helps TCP over a change acts on it,
// whatever protocol made the change.
type PathChange uint16

// What may become of the paths of a session at once.
const (
	PathsAdded     PathChange = 1 << iota // there is a path that was not there before
	PathsLost                             // one that was there is not any more
	PathsReordered                        // they are the same ones, in another order of preference
	PathsDown                             // from now on there is none, or none that works
	PathsReturned                         // there was none, or none that worked, until now
	PathsDied                             // one that packets took is dead: what was sent on it of late may be lost
	// TCP connections, whose segments took all paths, keep to one path each from now
	// on; or they leave a path that takes much longer than others.
	FlowsGathered
	// TCP connections that keep to one path each may be on another one than before.
	FlowsRehashed
	// With another change, or from now on: no path leads to a locator that is validated,
	// so a segment of full size may not leave yet.
	PathsUnvalidated
	PathsValidated // one does, for the first time since then
	// The peer is told not to send to a locator of this host any more: what came there comes by other paths.
	LocatorsWithdrawn
)

var pathChanges = [...]string{
	"added", "lost", "reordered", "down", "returned", "died", "gathered", "rehashed", "unvalidated", "validated",
	"withdrawn",
}

// Has reports whether any of the given changes is among those of c.
func (c PathChange) Has(any PathChange) bool { return c&any != 0 }

// String returns the names of the changes, with plus signs between them.
func (c PathChange) String() string {
	var names []string
	for i, name := range pathChanges {
		if c.Has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}
