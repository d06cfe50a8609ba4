package arm

import (
	"context"
	"fmt"
	"time"

	"roam/lab/linkem"
	"roam/lab/node"
)

const (
	// leftWithin bounds the wait for the end of a handoff.
	leftWithin = 10 * time.Second
	// quietFor is the time without traffic on a left link except its router's own,
	// quietFrames.
	quietFor    = 100 * time.Millisecond
	quietFrames = 4
)

// Leaving waits until a soft handoff from the link is complete: all correspondents have
// acknowledged, and the packets in flight have arrived. The overlap of the schedule is long
// enough for that, unless the machine itself stalls.
func (s *roamSystem) Leaving(ctx context.Context, e *End, link string) error {
	if e.Node == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leftWithin)
	defer cancel()
	tick := time.NewTicker(quietFor)
	defer tick.Stop()
	began, l, frames := time.Now(), e.Links[link], uint64(0)
	for {
		select {
		case <-ctx.Done():
			s.log("%s of %s is cut although the handoff from it is not over after %v", link, e.Host.Name(), leftWithin)
			return nil
		case <-tick.C:
		}
		out, in := l.Counters(linkem.AB), l.Counters(linkem.BA)
		now := out.Frames + in.Frames
		if handedOver(e.Node.Events()) && now-frames <= quietFrames &&
			out.FlightNow+in.FlightNow+out.QueueNow+in.QueueNow == 0 {
			break
		}
		frames = now
	}
	if waited := time.Since(began); waited > time.Second {
		s.log("%s of %s was cut %s late: the handoff from it was not over", link, e.Host.Name(),
			fmt.Sprint(waited.Round(10*time.Millisecond)))
	}
	return nil
}

// handedOver reports whether every handoff that started is complete.
func handedOver(events []node.Event) bool {
	over := true
	for _, e := range events {
		switch e.Kind {
		case "handoff-started":
			over = false
		case "handoff-done":
			over = true
		}
	}
	return over
}
