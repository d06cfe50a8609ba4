package peergen

import (
	"context"
	"time"

	"roam"
)

// An honest correspondent opens a session: it sends a datagram to a port that echoes, waits
// for the echo, sends the next. Distance is its path delay: packets to it take that long.

// Distance is the round trip time to honest correspondents.
const Distance = 20 * time.Millisecond

// again is when a datagram without echo is retransmitted.
const again = time.Second

// talk is the conversation of one honest correspondent.
type talk struct {
	echoes chan struct{}
}

// Talk has the i-th correspondent exchange n datagrams with the echoing port and
// returns the time to the first echo, and how many datagrams it sent.
func (c *Generator) Talk(ctx context.Context, i, n int) (first time.Duration, sent int, err error) {
	t := &talk{echoes: make(chan struct{}, 1)}
	c.mu.Lock()
	c.talks[NID(i)] = t
	c.mu.Unlock()
	began := time.Now()
	for got := 0; got < n; {
		if err := c.Open(i); err != nil {
			return 0, sent, err
		}
		sent++
		select {
		case <-t.echoes:
			if got++; got == 1 {
				first = time.Since(began)
			}
		case <-time.After(again):
		case <-ctx.Done():
			return 0, sent, ctx.Err()
		}
	}
	return first, sent, nil
}

// Bye ends the conversation of a correspondent: its delay is zero again.
func (c *Generator) Bye(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.talks, NID(i))
}

// hears forwards an echo; call it with the lock held.
func (c *Generator) hears(nid roam.NID) {
	if t := c.talks[nid]; t != nil {
		time.AfterFunc(Distance, func() {
			select {
			case t.echoes <- struct{}{}:
			default:
			}
		})
	}
}
