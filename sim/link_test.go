package sim

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"roam"
)

// TestCuts stops one direction, then one pair of addresses, then both.
func TestCuts(t *testing.T) {
	w := newWorld(1, path)
	there, back := listen(w.server), listen(w.bystander)
	const others = 3
	try := func(what string, wantThere, wantBack int) {
		t.Helper()
		w.bystander.Send(udp(standing, serving, 100))
		w.server.Send(udp(serving, standing, 100))
		for i := range others { // which no rule for a pair is about
			w.client.Put(1, udp(onA, serving, 200+i))
		}
		w.Settle(w.client)
		w.Run(time.Second)
		own := func(in *inbox) (n int) {
			for _, p := range in.packets {
				if p.Size() == 100 {
					n++
				}
			}
			return n
		}
		if got, also := own(there), own(back); got != wantThere || also != wantBack {
			t.Errorf("%s: %d there and %d back, want %d and %d", what, got, also, wantThere, wantBack)
		}
		if got, want := len(there.packets)-own(there), others; got != want && what != "cut there" && what != "cut both ways" {
			t.Errorf("%s: %d of %d packets of the other pair", what, got, want)
		}
		*there, *back = inbox{}, inbox{}
	}
	try("whole", 1, 1)
	w.core.Cut(Forward)
	try("cut there", 0, 1)
	w.core.Mend(Forward)
	w.core.Cut(Backward)
	try("cut back", 1, 0)
	w.core.Cut(Both)
	try("cut both ways", 0, 0)
	w.core.Mend(Both)
	pair := Pair{Src: prefix(standing, 128), Dst: prefix(serving, 64)}
	w.core.CutPair(Forward, pair)
	try("pair cut there", 0, 1)
	w.core.CutPair(Backward, pair) // nobody sends so
	try("and for the wrong way", 0, 1)
	w.core.MendPair(Both, Pair{Src: pair.Src})
	try("another pair mended", 0, 1)
	w.core.MendPair(Both, pair)
	try("mended", 1, 1)
	w.core.CutPair(Backward, Pair{Dst: prefix(standing, 128)})
	try("cut to one address", 1, 0)
	if c := w.core.Counts(Forward); c.Cut != 2+2*others+3 {
		t.Errorf("%d were cut there: %+v", c.Cut, c)
	}
}

// TestDirectionsAndPairs gives each direction, and one pair, a delay of its own.
func TestDirectionsAndPairs(t *testing.T) {
	w := newWorld(1, Params{})
	there, back := listen(w.server), listen(w.bystander)
	w.core.Set(Forward, Params{Delay: 10 * time.Millisecond})
	w.core.Set(Backward, Params{Delay: 30 * time.Millisecond})
	slow := Pair{Src: prefix(onA, 128)}
	w.core.SetPair(Forward, slow, Params{Delay: 90 * time.Millisecond})
	w.core.SetPair(Forward, slow, Params{Delay: 70 * time.Millisecond})
	send := func() {
		w.bystander.Send(udp(standing, serving, 100))
		w.server.Send(udp(serving, standing, 100))
		w.client.Put(1, udp(onA, serving, 100))
		w.Settle(w.client)
		w.Run(time.Second)
	}
	send()
	w.core.ClearPair(Both, slow)
	send()
	const ms = time.Millisecond
	if want := []time.Duration{10 * ms, 70 * ms, 1010 * ms, 1010 * ms}; !slices.Equal(there.at, want) {
		t.Errorf("there at %v, want %v", there.at, want)
	}
	if want := []time.Duration{30 * ms, 1030 * ms}; !slices.Equal(back.at, want) {
		t.Errorf("back at %v, want %v", back.at, want)
	}
}

// TestChance counts what is lost, comes twice and is overtaken.
func TestChance(t *testing.T) {
	const sent = 10_000
	w := newWorld(1, Params{})
	there, back := listen(w.server), listen(w.bystander)
	w.core.Set(Forward, Params{Loss: 0.2, Duplicate: 0.1, Delay: time.Millisecond, Jitter: 3 * time.Millisecond})
	for i := range sent {
		w.bystander.Send(udp(standing, serving, 100+i))
		w.server.Send(udp(serving, standing, 100))
		w.Run(time.Millisecond)
	}
	w.Run(time.Second)
	c := w.core.Counts(Forward)
	if c.Lost < sent*18/100 || c.Lost > sent*22/100 || c.Duplicated < sent*9/100 || c.Duplicated > sent*11/100 {
		t.Errorf("%+v of %d, want 20 %% lost and 10 %% twice", c, sent)
	}
	if got := uint64(len(there.packets)); got != sent-c.Lost+c.Duplicated || len(back.packets) != sent {
		t.Errorf("%d there, %d back; counted %+v", got, len(back.packets), c)
	}
	if slices.IsSortedFunc(there.packets, func(a, b Packet) int { return a.Size() - b.Size() }) {
		t.Error("jitter reordered nothing")
	}
}

// TestRate has packets wait before a link, and lose their place where the queue is full.
func TestRate(t *testing.T) {
	w := newWorld(1, Params{})
	there := listen(w.server)
	burst := func(n int) {
		for range n {
			w.bystander.Send(udp(standing, serving, 1000))
		}
	}
	w.core.Set(Forward, Params{Rate: 100_000, Delay: 5 * time.Millisecond})
	burst(3)
	w.Run(time.Second)
	burst(1)
	w.Run(time.Second)
	const ms = time.Millisecond
	if want := []time.Duration{15 * ms, 25 * ms, 35 * ms, 1015 * ms}; !slices.Equal(there.at, want) {
		t.Errorf("came at %v, want %v", there.at, want)
	}
	*there = inbox{}
	w.core.Set(Forward, Params{Rate: 100_000, Queue: 3500})
	burst(10) // the first one is under way at once
	w.Run(5 * time.Millisecond)
	burst(1) // half of the first one has left
	w.Run(time.Second)
	if got, lost := len(there.packets), w.core.Counts(Forward).Overflowed; got != 4 || lost != 7 {
		t.Errorf("%d of 11 packets came, %d did not find room", got, lost)
	}
	*there = inbox{}
	w.core.Set(Forward, Params{Rate: 100_000, Queue: 500})
	burst(1)
	w.Run(time.Second)
	there.only(t) // even where the queue is shorter than a packet
}

// TestDisconnect loses what is under way to who leaves, and nothing else.
func TestDisconnect(t *testing.T) {
	w := newWorld(1, path)
	there, back := listen(w.server), listen(w.bystander)
	w.bystander.Send(udp(standing, serving, 100))
	w.r1.Put(2, udp(serving, standing, 100))
	w.Settle(w.r1)
	w.Run(time.Millisecond)
	w.Disconnect(End{w.bystander, 1})
	w.Disconnect(End{w.bystander, 1}) // nothing is there any more
	w.Connect(End{w.bystander, 1}, End{w.r1, 2}, path)
	w.Run(time.Second)
	if len(there.packets) != 1 || len(back.packets) != 0 || w.lan.Counts(Backward).Unplugged != 1 {
		t.Errorf("%d there, %d back, %+v", len(there.packets), len(back.packets), w.lan.Counts(Backward))
	}
	w.server.Send(udp(serving, standing, 100))
	w.Run(time.Second)
	back.only(t)
	if w.bystander.Remove(all, 1); w.bystander.Send(udp(standing, serving, 100)) {
		t.Error("a host without route has sent")
	}
}

// TestFilter has a middlebox drop what comes for one port of a link.
func TestFilter(t *testing.T) {
	w := newWorld(1, path)
	there := listen(w.server)
	w.core.Filter(Forward, func(p Packet) bool { return p.Size() == 200 })
	w.bystander.Send(udp(standing, serving, 200))
	w.bystander.Send(udp(standing, serving, 201))
	w.Run(time.Second)
	if p := there.only(t); p.Size() != 201 || w.core.Counts(Forward).Filtered != 1 {
		t.Errorf("%d bytes came, %+v", p.Size(), w.core.Counts(Forward))
	}
}

// observer is a node without links: it counts what passes a link, and reads its counts
// every second.
type observer struct {
	Outbox
	in, out int
	read    []string
	due     time.Time
}

func (o *observer) Receive(time.Time, roam.LinkID, Packet) {}

func (o *observer) HandleTimeout(now time.Time) {
	o.read = append(o.read, fmt.Sprintf("%d in, %d out", o.in, o.out))
	o.due = now.Add(time.Second)
}

func (o *observer) PollTimeout() (time.Time, bool) { return o.due, true }

// TestWatch has an observer beside the client's first link: it sees what the link then
// loses, and what comes out of it, and changes nothing.
func TestWatch(t *testing.T) {
	course := func(o *observer) *world {
		w := newWorld(3, Params{Delay: time.Millisecond, Loss: 0.1, Jitter: time.Millisecond})
		if o != nil {
			w.Watch(End{w.client, 1}, func(_ time.Time, out bool, _ Packet) {
				if out {
					o.out++
				} else {
					o.in++
				}
			})
			o.due = w.Now().Add(10 * time.Second)
			w.Settle(o)
		}
		w.client.start(w.Now())
		w.Settle(w.client)
		w.Run(20*time.Second - time.Millisecond)
		return w
	}
	o := &observer{}
	w, without := course(o), course(nil)
	if !slices.Equal(w.client.answered, without.client.answered) || len(w.client.answered) == 0 {
		t.Errorf("%d answered, %d where nobody watches", len(w.client.answered), len(without.client.answered))
	}
	out, in := w.a.Counts(Forward), w.a.Counts(Backward)
	if out.Lost == 0 || uint64(o.out) != out.Packets || uint64(o.in) != in.Packets-in.Lost {
		t.Errorf("observed %d out and %d in of %+v and %+v", o.out, o.in, out, in)
	}
	if len(o.read) != 10 || o.read[0] == o.read[9] {
		t.Errorf("readings %v", o.read)
	}
}

// TestMistakes: an end has one link, and what is sent by none is lost.
func TestMistakes(t *testing.T) {
	w := newWorld(1, path)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("an end has got a second link")
			}
		}()
		w.Connect(End{w.server, 1}, End{w.r1, 9}, path)
	}()
	w.client.Put(7, udp(onA, serving, 100)) // there is no such link: lost
	w.Settle(w.client)
	if p := (Packet{Bytes: []byte{6}}); p.Source() != (netip.Addr{}) {
		t.Errorf("a packet without header is from %v", p.Source())
	}
}
