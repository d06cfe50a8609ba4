package ilnphost

import (
	"fmt"
	"math"
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	"roam/nidkey"
	"roam/sim"
)

// The criteria of a soak. A session must carry data again within mendWithin of the last trouble
// at either end. The bound is long: if both ends have lost each other, they wait for the next
// look-up and the next probe of a dead peer, and the worst links lose one round trip in three.
const (
	judgeEvery  = 10 * time.Second
	mendWithin  = 2 * time.Minute
	lookEvery   = 20 * time.Second // between look-ups of a talk that is stuck
	soakCounts  = 5 * time.Second
	soakCalm    = 5 * time.Minute // between the last trouble and the comparison of sessions
	soakIdle    = 25 * time.Minute
	contactsOf  = 6
	settledWith = time.Minute // longest silence of a talk that works ...
	patient     = 20          // ... and in datagrams: two bad links lose one in three
)

// SoakConfig is the size and the length of a soak.
type SoakConfig struct {
	Seed  uint64
	Hosts int
	Span  time.Duration  // of trouble; periods of calm and silence follow
	Hour  func(SoakHour) // called at the end of every hour; or nil
	// Unacquainted hosts never learn that their peers run Roam, and treat them as other stacks.
	Unacquainted bool
	// Keyed hosts have a key each, and that of everybody they may talk with: no talk may go by a
	// session without a proof.
	Keyed bool
}

// SoakHour sums up one hour of a soak.
type SoakHour struct {
	Hour                  int
	Moves, Outages, Both  int // handoffs, outages, moves of both ends at once
	OneWay                int // links that died one way
	Restarts, Reboots     int
	Talks, Sessions       int // at its end: open talks, sessions of all hosts
	Sent, Answered        int // datagrams of the talks that ended or are open
	Updates, Failed, Dead int
	Plain, Replaced, Idle int           // sessions that fell back, were replaced, ended idle
	Worst                 time.Duration // from the end of trouble to the first datagram that arrived
	Faults                int           // so far
	Found                 []string      // those of this hour
}

// String returns the hour as one line.
func (h SoakHour) String() string {
	return fmt.Sprintf("hour %2d: %5d moves %4d outages %4d both-move %3d one-way %4d restarts %3d reboots | %4d talks %5d sessions"+
		" %8d sent %8d answered | LU %7d failed %5d dead %6d plain %4d replaced %4d idle %5d | worst repair %5.1f s, %d faults",
		h.Hour, h.Moves, h.Outages, h.Both, h.OneWay, h.Restarts, h.Reboots, h.Talks, h.Sessions, h.Sent, h.Answered,
		h.Updates, h.Failed, h.Dead, h.Plain, h.Replaced, h.Idle, h.Worst.Seconds(), h.Faults)
}

// Soak is a long random run of hosts that talk, move, fail and return, with a reference model
// of which sessions must work. Hosts find each other through a directory that always holds the
// locators that each host believes to have, as the DNS would (RFC 6740 §6.2). A host queries it
// when a talk begins, and again when it has lost its peer.
type Soak struct {
	*Network
	cfg     SoakConfig
	hosts   []*soaker
	byNode  map[*Node]*soaker
	secrets map[[2]roam.NID]nidkey.Secret
	talks   []*talk
	hour    SoakHour
	faults  []string
	rules   uint32
	ended   bool // no more trouble or new talks
}

// soaker is a host with the state that the reference model keeps of it.
type soaker struct {
	*Node
	mobile   bool
	contacts []*soaker
	links    roam.LinkID              // the highest that was used
	changed  time.Time                // when the last trouble happened
	remade   map[roam.NID][]time.Time // when sessions were replaced lately
	paired   []*soaker                // whose keys it has, in a soak with keys
}

// talk is a conversation of two hosts.
type talk struct {
	from, to *soaker
	flow     *Flow
	begun    time.Time
	asked    time.Time // when the directory was last queried
	parted   time.Time // when no path last existed
	mended   time.Time // when the trouble ended
	told     bool      // its fault is reported
	patience time.Duration
	counted  time.Time // last arrival in an earlier reading of counts than that of the newest datagram
}

// NewSoak adds the hosts; one in ten is a server with one permanent network.
func NewSoak(cfg SoakConfig) *Soak {
	k := &Soak{Network: New(cfg.Seed), cfg: cfg, byNode: make(map[*Node]*soaker)}
	k.secrets = make(map[[2]roam.NID]nidkey.Secret)
	k.Brief, k.Acquainted, k.Counting, k.Told = true, !cfg.Unacquainted, soakCounts, k.told
	k.Delivered = k.delivered
	for i := range cfg.Hosts {
		nid := roam.NID(0x0200_0000_0000_0000) + roam.NID(i+1)
		h := &soaker{mobile: i%10 != 0, remade: make(map[roam.NID][]time.Time), changed: sim.Start}
		h.Node = k.AddNode(fmt.Sprintf("h%d", i), ilnp.Config{
			NIDs: []roam.NID{nid}, Mode: ilnp.Mode(k.Rand().IntN(3)), Accept: ilnp.Accept(k.Rand().IntN(2)),
			NonceLength: uint8(4 + 8*k.Rand().IntN(2)), DraftLU: k.Rand().IntN(4) == 0,
			Trains: i%3 > 0, ProbeID: uint16(i),
			Preinstall: i % 2 * contactsOf / 2, // half of the hosts, for half of their contacts
			Key:        k.key(i),
		})
		k.hosts, k.byNode[h.Node] = append(k.hosts, h), h
		if h.mobile {
			k.connect(h)
		} else {
			h.links = anchorLink
			h.Up(anchorLink, k.place(), k.access(), roam.Infinite)
		}
	}
	for _, h := range k.hosts {
		for len(h.contacts) < min(contactsOf, cfg.Hosts-1) {
			o := k.hosts[k.Rand().IntN(len(k.hosts))]
			if servers := (len(k.hosts) + 9) / 10; servers > 1 && len(h.contacts) < contactsOf/2 {
				o = k.hosts[k.Rand().IntN(servers)*10]
			}
			if o != h && (cfg.Hosts < 100 || !slices.Contains(h.contacts, o)) {
				h.contacts = append(h.contacts, o)
			}
		}
	}
	k.pair()
	return k
}

// Run executes the whole run and returns the faults that the reference model found, in the
// order of time.
func (k *Soak) Run() []string {
	for _, h := range k.hosts {
		k.every(soakTalkEach, func() { k.converse(h) })
		if h.mobile {
			k.every(soakTroubleEach, func() { k.trouble(h) })
		}
	}
	k.After(judgeEvery, k.judge)
	for end := k.Now().Add(k.cfg.Span); k.Now().Before(end); {
		k.Network.Run(min(end.Sub(k.Now()), time.Hour))
		k.tell()
	}
	k.ended = true
	k.calm()
	k.Network.Run(soakCalm)
	k.compare()
	for _, t := range k.talks {
		t.flow.Stop()
	}
	k.talks = nil
	k.Network.Run(soakIdle)
	k.baseline()
	k.tell()
	return k.faults
}

// every calls f repeatedly until the trouble ends, at random intervals with this mean.
func (k *Soak) every(mean time.Duration, f func()) {
	k.After(k.wait(mean), func() {
		if k.ended {
			return
		}
		f()
		k.every(mean, f)
	})
}

// wait draws an exponentially distributed time.
func (k *Soak) wait(mean time.Duration) time.Duration {
	return time.Duration(-math.Log(1-k.Rand().Float64()) * float64(mean))
}

// between draws a time between two others.
func (k *Soak) between(least, most time.Duration) time.Duration {
	return least + time.Duration(k.Rand().Int64N(int64(most-least)))
}

// converse starts a talk of a host with one of its contacts.
func (k *Soak) converse(h *soaker) {
	o := h.contacts[k.Rand().IntN(len(h.contacts))]
	if slices.ContainsFunc(k.talks, func(t *talk) bool { return t.from == h && t.to == o }) {
		return
	}
	k.look(h, o)
	if o.cfg.Accept == ilnp.Known {
		k.look(o, h)
	}
	interval := []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second}[k.Rand().IntN(4)]
	t := &talk{from: h, to: o, begun: k.Now(), patience: max(settledWith, patient*interval)}
	t.flow = &Flow{From: h.Node, To: o.Node, Echo: k.Rand().IntN(10) > 0, Opening: k.Rand().IntN(2) == 0, Brief: true}
	t.flow.Port = uint16(soakPort + k.Rand().IntN(2))
	k.talks = append(k.talks, t)
	h.run(t.flow, interval)
	k.After(time.Minute+k.wait(soakTalkSpan), func() {
		if !k.ended {
			t.flow.Stop()
			k.talks = slices.DeleteFunc(k.talks, func(o *talk) bool { return o == t })
			k.hour.Sent, k.hour.Answered = k.hour.Sent+t.flow.Sent, k.hour.Answered+t.flow.Answered
		}
	})
}

// look queries the directory for the locators of o.
func (k *Soak) look(h, o *soaker) {
	var places []roam.L64
	for _, at := range o.attachments {
		if at.told && !o.off[at.link] && !slices.Contains(places, at.l64) {
			places = append(places, at.l64)
		}
	}
	if len(places) > 0 || h.core.Stats().Known == 0 {
		k.know(h, o, places...)
	}
}

// told handles the events of the cores.
func (k *Soak) told(n *Node, e ilnp.Event) {
	h, remote := k.byNode[n], e.Key.Remote
	switch e.Kind {
	case ilnp.UpdateSent:
		k.hour.Updates++
	case ilnp.UpdateFailed:
		k.hour.Failed++
	case ilnp.PeerDead:
		k.hour.Dead++
	case ilnp.SessionFellBack:
		k.hour.Plain++
	case ilnp.SessionReplaced:
		k.hour.Replaced++
		k.replaced(h, remote)
	case ilnp.SessionEnded:
		k.hour.Idle++
		k.idled(h, remote, e.Reason)
	}
}

// tell reports the hour that has ended.
func (k *Soak) tell() {
	k.hour.Hour++
	k.hour.Found = k.faults[k.hour.Faults:]
	k.hour.Talks, k.hour.Faults = len(k.talks), len(k.faults)
	now := k.hour
	for _, h := range k.hosts {
		now.Sessions += h.core.Stats().Sessions
	}
	for _, t := range k.talks {
		now.Sent, now.Answered = now.Sent+t.flow.Sent, now.Answered+t.flow.Answered
	}
	if k.cfg.Hour != nil {
		k.cfg.Hour(now)
	}
	k.hour = SoakHour{Hour: k.hour.Hour, Sent: k.hour.Sent, Answered: k.hour.Answered, Faults: k.hour.Faults}
}
