package ilnphost

import (
	"testing"
	"time"

	"roam/ilnp"
)

// TestKeyedManySetUps: a thousand sessions of two hosts with keys, one after the other, each begun by a burst of
// ten datagrams, by one datagram that is answered, or by the first packet of a TCP connection. What waits for
// a proof is delivered once, in order, and nothing has to be repeated.
func TestKeyedManySetUps(t *testing.T) {
	const contacts, burst = 1000, 10
	w := newProving(t, 21, netA)
	var numbers []int
	w.Delivered = func(h *Node, _ ilnp.SessionKey, d Datagram) {
		if h == w.server && !d.answer {
			numbers = append(numbers, d.Number)
		}
	}
	for i := range contacts {
		numbers = nil
		want, f := 1, &Flow{From: w.mobile, To: w.server, Echo: true, Opening: i%3 == 2}
		if i%3 == 0 {
			want = burst
		}
		f = w.mobile.run(f, time.Hour)
		for range want - 1 {
			f.send()
		}
		w.Run(time.Second)
		f.Stop()
		if f.Sent != want || f.Received() != want || f.Answered != want {
			t.Fatalf("contact %d: %d sent, %d received, %d answered, want %d; refused %v, %v", i, f.Sent, f.Received(),
				f.Answered, want, w.mobile.core.RejectedInput(), w.server.core.RejectedInput())
		}
		for n, number := range numbers {
			if number != n {
				t.Fatalf("contact %d: delivered in the order %v", i, numbers)
			}
		}
		if len(numbers) != want {
			t.Fatalf("contact %d: delivered %v, want %d", i, numbers, want)
		}
		w.Run(11 * time.Minute) // the session ends
		if s := w.server.peer(w.mobile); !s.Since.IsZero() {
			t.Fatalf("contact %d: the session has not ended", i)
		}
	}
	if n := w.count["offer"]; n > contacts+1 {
		t.Errorf("%d offers for %d sessions and a challenge", n, contacts)
	}
}
