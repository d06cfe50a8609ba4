package ilnphost

import (
	"errors"
	"fmt"

	"roam"
)

// Hints returns, as events, where the programs of an adopted plane send by a hint: the
// report of that packet may have gone to a process that was about to end, or to none. A hint
// that an update with a MAC gave is dropped instead: only the update proves that move, and
// the peer retransmits it. Call it before Sync.
func (p *Plane) Hints() (events []Event, err error) {
	var errs []error
	for key, row := range p.known {
		seen, err := p.live(row.Slot)
		if err != nil {
			return nil, fmt.Errorf("read where sessions follow their peers: %w", err)
		}
		if seen.Hint == (bpfHalf{}) || seen.Birth != row.Birth || seen.Seq != row.Seq {
			continue
		}
		if row.Flags&bpfEntryFlagsENTRY_UNCONFIRMED == 0 {
			events = append(events, Event{
				Kind: LocatorSeen, Key: key, Nonce: row.RemoteNonce.nonce(),
				Remote: roam.ILV{L64: roam.L64(seen.Hint.uint64()), NID: roam.NID(row.RemoteNid.uint64())},
				Local:  roam.ILV{NID: roam.NID(row.LocalNid.uint64())},
			})
			continue
		}
		row.Seq++
		row.Seq = p.lines.distinct(row)
		if err := p.publish(row, nil); err != nil {
			errs = append(errs, fmt.Errorf("have a session forget a hint: %w", err))
			continue
		}
		p.known[key] = row
	}
	return events, errors.Join(errs...)
}
