package suite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"roam"
	"roam/lab/interop"
	"roam/lab/topo"
)

// errUnmeasured is wrapped by the reason why a case cannot be measured with a
// target.
var errUnmeasured = errors.New("not measured")

// target is the host that Roam is tested against. Methods that the target cannot execute
// return errUnmeasured.
type target interface {
	nid() roam.NID
	locators() []roam.L64 // two, if the target can move
	port() uint16         // of its echo services, TCP and UDP

	// attach connects the target to the router, and returns the router's advertisements
	// there.
	attach(w *world) ([]topo.Advert, error)
	detach() error
	// answersEcho reports whether it answers echo requests, as far as is known.
	answersEcho() bool
	// plain describes the plain IPv6 that the target received, as far as it knows.
	plain() string
	// open tells the target Roam's address, before the target opens a session.
	open(w *world)

	callTCP(ctx context.Context) (*turns, error)
	callUDP(ctx context.Context) (*datagrams, error)
	echoTCP(ctx context.Context, size int) error  // with echoServer
	fetchTCP(ctx context.Context, size int) error // from fetchServer
	// echoUDP makes it send datagrams to echoServer, and returns the number of unanswered
	// ones after the first second.
	echoUDP(ctx context.Context, count int) (losses, error)
	ping(ctx context.Context, count int) (lost int, err error)

	move(ctx context.Context, hard bool) error // to its second locator
	reboot(ctx context.Context) error
	disable(ctx context.Context) error // go on without ILNP
}

// scripted is a target of package interop.
type scripted struct {
	profile interop.Profile
	peer    *interop.Peer
	roamNID uint64
	roamL64 uint64
	ports   uint16 // own UDP ports so far
}

const scriptedNID = 0x1000_0000_0000_00c1

var scriptedL64 = []roam.L64{0x2001_0db8_000c_0001, 0x2001_0db8_000c_0002}

func (s *scripted) nid() roam.NID        { return scriptedNID }
func (s *scripted) locators() []roam.L64 { return scriptedL64 }
func (s *scripted) port() uint16         { return interop.EchoPort }

func (s *scripted) attach(w *world) ([]topo.Advert, error) {
	peer, err := interop.Start(w.r, "peer", scriptedNID, []uint64{uint64(scriptedL64[0])}, s.profile.Stack)
	if err != nil {
		return nil, err
	}
	s.peer = peer
	return nil, addRouter(w.r, "peer", scriptedL64)
}

func (s *scripted) detach() error {
	if s.peer == nil {
		return nil
	}
	err := s.peer.Close()
	s.peer = nil
	if err != nil {
		return fmt.Errorf("end the scripted host: %w", err)
	}
	return nil
}

func (s *scripted) answersEcho() bool { return !s.profile.Stack.NoEchoAnswer }

func (s *scripted) plain() string {
	c := s.peer.Counts()
	if c.PlainServed == 0 {
		return ""
	}
	return fmt.Sprintf("%d packets came to the target as plain IPv6 (%d of TCP, %d of UDP)",
		c.PlainServed, c.PlainTCP, c.PlainUDP)
}

func (s *scripted) open(w *world) {
	s.roamNID, s.roamL64 = uint64(w.nid), uint64(locator(roamPrefix(0)))
	s.peer.Open(s.roamNID, s.roamL64)
}

func (s *scripted) callTCP(ctx context.Context) (*turns, error) {
	c, err := s.connect(ctx, echoServer)
	if err != nil {
		return nil, err
	}
	data, want := pattern(turnSize), 0
	return startTurns(ctx, func(ctx context.Context) error {
		c.Write(data)
		want += len(data)
		return within(ctx, patience, "an echo from Roam's host", func() bool { return c.Received() >= want })
	}), nil
}

func (s *scripted) connect(ctx context.Context, port uint16) (*interop.Conn, error) {
	c, err := s.peer.Dial(s.roamNID, port)
	if err != nil {
		return nil, err
	}
	return c, within(ctx, handshakes, "the target's connection to Roam", c.Opened)
}

func (s *scripted) callUDP(ctx context.Context) (*datagrams, error) {
	s.ports++
	from := 7100 + s.ports
	f := startDatagrams(ctx, func(b []byte) error {
		s.peer.SendUDP(s.roamNID, from, echoServer, b)
		return nil
	})
	s.peer.OnDatagram(from, f.heard)
	return f, nil
}

func (s *scripted) echoTCP(ctx context.Context, size int) error {
	c, err := s.connect(ctx, echoServer)
	if err != nil {
		return err
	}
	const segment = 1000
	for sent := 0; sent < size; sent += segment {
		c.Write(pattern(segment))
		want := sent + segment
		if err := within(ctx, handshakes, fmt.Sprintf("%d bytes back from Roam's host", want), func() bool {
			return c.Received() >= want
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s *scripted) fetchTCP(ctx context.Context, size int) error {
	c, err := s.connect(ctx, fetchServer)
	if err != nil {
		return err
	}
	if err := within(ctx, handshakes, "", func() bool { return c.Received() >= size }); err != nil {
		return fmt.Errorf("%d of %d bytes came from Roam's host within %v", c.Received(), size, handshakes)
	}
	return nil
}

func (s *scripted) echoUDP(ctx context.Context, count int) (losses, error) {
	f, err := s.callUDP(ctx)
	if err != nil {
		return losses{}, err
	}
	return lostOf(ctx, f, count)
}

// lostOf lets a flow run for count datagrams and returns the number of unanswered ones
// after the first second.
func lostOf(ctx context.Context, f *datagrams, count int) (losses, error) {
	err := within(ctx, time.Duration(count)*time.Second/rate+patience, "datagrams are sent", func() bool {
		return f.count() >= count
	})
	f.end(ctx)
	return f.losses(f.began()), err
}

func (s *scripted) ping(ctx context.Context, count int) (lost int, err error) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for range count {
		s.peer.Ping(s.roamNID)
		select {
		case <-ctx.Done():
			return count, fmt.Errorf("ping: %w", ctx.Err())
		case <-tick.C:
		}
	}
	_ = within(ctx, time.Second, "", func() bool { return s.peer.Pongs() >= count })
	return count - s.peer.Pongs(), nil
}

func (s *scripted) move(_ context.Context, hard bool) error {
	if hard {
		s.peer.MoveHard(uint64(scriptedL64[1]))
	} else {
		s.peer.Move(uint64(scriptedL64[1]), uint64(scriptedL64[0]))
	}
	return nil
}

func (s *scripted) reboot(context.Context) error {
	s.peer.Reboot()
	if s.roamNID != 0 {
		s.peer.Open(s.roamNID, s.roamL64)
	}
	return nil
}

func (s *scripted) disable(context.Context) error {
	s.peer.Boot(s.profile.Disabled)
	if s.roamNID != 0 {
		s.peer.Open(s.roamNID, s.roamL64)
	}
	return nil
}
