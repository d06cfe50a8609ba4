package scene

import (
	"context"
	"time"

	"roam/lab/linkem"
)

// Begin is the moment at which a link began to carry the mobile host's data, as the emulator
// saw it: no daemon was asked.
type Begin struct {
	At   time.Time
	Link string
}

const (
	// watchEvery is the pause between two readings, and so the error of a Begin.
	watchEvery = 5 * time.Millisecond
	// dataFrames are more frames than neighbor discovery and multicast listeners send
	// between two readings.
	dataFrames = 8
)

// begins finds the moments at which links begin to carry data.
type begins struct {
	sent map[string]uint64
	busy map[string]bool
	list []Begin
}

// note takes a reading of the frames that each link has carried from the mobile host. A link
// without any frame since the reading before has ceased to carry data.
func (b *begins) note(at time.Time, sent map[string]uint64) {
	for link, n := range sent {
		switch more := n - b.sent[link]; {
		case more == 0:
			delete(b.busy, link)
		case more >= dataFrames && !b.busy[link]:
			b.busy[link] = true
			b.list = append(b.list, Begin{at, link})
		}
	}
	b.sent = sent
}

// watchBegins reads the links until ctx ends.
func (s *sampler) watchBegins(ctx context.Context) {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	b := begins{busy: map[string]bool{}}
	for {
		sent := map[string]uint64{}
		for name, k := range s.s.Mobile().Links {
			sent[name] = k.Counters(linkem.AB).Frames
		}
		b.note(time.Now(), sent)
		select {
		case <-ctx.Done():
			s.begins = b.list
			return
		case <-t.C:
		}
	}
}

// Carried returns when a link first began to carry data at or after a moment.
func (t *Trace) Carried(link string, from time.Time) (time.Time, bool) {
	for _, b := range t.Begins {
		if b.Link == link && !b.At.Before(from) {
			return b.At, true
		}
	}
	return time.Time{}, false
}
