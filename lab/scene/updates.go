package scene

import (
	"context"
	"fmt"
	"path/filepath"

	"roam"
	"roam/lab/packets"
	"roam/lab/topo"
)

// Updates counts the Locator Updates and acknowledgements between the mobile host and a correspondent, in the form of
// RFC 6743. Proofs of keys and vouches are none.
type Updates struct {
	Acks        int // acknowledgements that the correspondent sent
	MACs, Plain int // messages of either with a MAC, and without one
	Uncaptured  int // packets that are not in the counts
}

// updateCount captures the control messages on the wire of a correspondent.
type updateCount struct {
	end     *End
	file    string
	capture *topo.Capture
}

// updateBytes are more than an update with eight locators and a MAC has in a frame.
const updateBytes = 512

// CountUpdates starts to count the updates of correspondents that do not move, where the core passes them on.
func (s *Scene) CountUpdates(ctx context.Context) error {
	for _, e := range s.Ends[1:] {
		name := e.Host.Name()
		file := filepath.Join(s.env.Dir, s.cfg.Name+"-updates-"+name+".pcap")
		// Only packets with a header for options are looked at.
		c, err := s.Core.Capture(ctx, name, file, updateBytes, "ip6[6] == 60")
		if err != nil {
			return err
		}
		s.wires = append(s.wires, &updateCount{e, file, c})
	}
	return nil
}

// Updates ends the count, and returns it by correspondent.
func (s *Scene) Updates() (map[string]Updates, error) {
	all := map[string]Updates{}
	for _, w := range s.wires {
		missed, err := w.capture.Stop()
		if err != nil {
			return nil, err
		}
		list, err := packets.Read(w.file, w.end.Host.Name())
		if err != nil {
			return nil, fmt.Errorf("count updates: %w", err)
		}
		u := updatesOf(list, w.end.NID)
		u.Uncaptured = missed
		all[w.end.Host.Name()] = u
	}
	s.wires = nil
	return all, nil
}

// updatesOf counts those of a correspondent in a capture.
func updatesOf(list []packets.Packet, peer roam.NID) (u Updates) {
	for _, p := range list {
		message, is := p.Update()
		if !is || !p.Nonce || p.Kind != 0 && p.Kind != packets.KindMAC {
			continue
		}
		if message.Ack && p.SourceNID() == peer {
			u.Acks++
		}
		if p.Kind == packets.KindMAC {
			u.MACs++
		} else {
			u.Plain++
		}
	}
	return u
}
