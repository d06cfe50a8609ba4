package result

import "fmt"

// Loss is whose the datagrams are that an application sent and the other never read. Those of
// a socket or of the emulator are known by number from a counter of their own. All others are
// Roam's, also those that the sender's kernel refused: they are judged.
type Loss struct {
	What     string `json:"what"` // the traffic, and when
	Sent     int    `json:"sent"` // or tried to
	Lost     int    `json:"lost"`
	Emulator int    `json:"emulator"` // dropped for want of room in a queue of the lab's links
	Asked    int    `json:"asked"`    // lost by a link that was told to lose
	Sockets  int    `json:"sockets"`  // dropped by the receiving socket, whose buffer was full
	Refused  int    `json:"refused"`  // by the sender's kernel; they are among Roam's
}

// Roam returns the number of datagrams that nobody else owns.
func (l Loss) Roam() int { return l.Lost - l.Emulator - l.Asked - l.Sockets }

// Plus returns the sum of two losses, under the name of the first.
func (l Loss) Plus(o Loss) Loss {
	l.Sent, l.Lost, l.Emulator, l.Asked = l.Sent+o.Sent, l.Lost+o.Lost, l.Emulator+o.Emulator, l.Asked+o.Asked
	l.Sockets, l.Refused = l.Sockets+o.Sockets, l.Refused+o.Refused
	return l
}

// String says it in words.
func (l Loss) String() string {
	s := fmt.Sprintf("%s: %d of %d lost", l.What, l.Lost, l.Sent)
	if l.Lost == 0 {
		return s
	}
	s += fmt.Sprintf("; Roam's %d", l.Roam())
	for _, o := range []struct {
		n    int
		what string
	}{
		{l.Emulator, "dropped by queues of the emulator"}, {l.Asked, "lost by links set to lose"},
		{l.Sockets, "dropped by full sockets"},
	} {
		if o.n > 0 {
			s += fmt.Sprintf(", %d %s", o.n, o.what)
		}
	}
	if l.Refused > 0 {
		s += fmt.Sprintf(" (the sender's kernel refused %d of Roam's)", l.Refused)
	}
	return s
}

// AddLoss records whose the lost datagrams of some traffic are; the same traffic is summed.
func (r *Result) AddLoss(l Loss) {
	for i := range r.Losses {
		if r.Losses[i].What == l.What {
			r.Losses[i] = r.Losses[i].Plus(l)
			return
		}
	}
	r.Losses = append(r.Losses, l)
}
