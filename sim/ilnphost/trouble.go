package ilnphost

import (
	"maps"
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	"roam/sim"
)

// Mean intervals between events at one host of a soak.
const (
	soakTroubleEach = 6 * time.Minute
	soakTalkEach    = 40 * time.Minute
	soakTalkSpan    = 20 * time.Minute
)

// soakPort is the port of the talks that rules are for.
const soakPort = 5000

// anchorLink is the permanent link of a server.
const anchorLink roam.LinkID = 1

// soakPlaces is the number of networks.
const soakPlaces = 4096

// place draws a network.
func (k *Soak) place() roam.L64 {
	return 0x2001_0db8_4000_0000 + roam.L64(k.Rand().IntN(soakPlaces))
}

// access draws a kind of access link: good, fair or rough.
func (k *Soak) access() Access {
	a := Access{Delay: k.between(time.Millisecond, 30*time.Millisecond)}
	switch k.Rand().IntN(6) {
	case 0:
		a.Jitter, a.Loss, a.Duplicate = 4*time.Millisecond, 0.1, 0.03
	case 1, 2:
		a.Jitter, a.Loss, a.Duplicate = 10*time.Millisecond, 0.01, 0.005
	}
	return a
}

// life draws the lifetime of a prefix.
func (k *Soak) life() time.Duration {
	return []time.Duration{roam.Infinite, time.Minute, 10 * time.Minute, 30 * time.Minute}[k.Rand().IntN(4)]
}

// touch records trouble at a host, from which it must recover.
func (k *Soak) touch(h *soaker) { h.changed = k.Now() }

// connect moves a host to a new network, sometimes on a new link, as a modem that is plugged in
// again has.
func (k *Soak) connect(h *soaker) roam.LinkID {
	link := roam.LinkID(1 + k.Rand().IntN(3))
	for h.at(link) != nil {
		link++
	}
	if k.Rand().IntN(4) == 0 {
		link = max(h.links, 9) + 1
	}
	h.links = max(h.links, link)
	h.Up(link, k.place(), k.access(), k.life())
	k.touch(h)
	return link
}

// leave takes all links of a host but one down.
func (k *Soak) leave(h *soaker, except roam.LinkID) {
	for _, at := range slices.Clone(h.attachments) {
		if at.link != except {
			h.Down(at.link)
		}
	}
	k.touch(h)
}

// later calls f after a random time, unless the trouble is over by then.
func (k *Soak) later(d time.Duration, f func()) {
	k.After(d, func() {
		if !k.ended {
			f()
		}
	})
}

// trouble makes a random event happen at a mobile host.
func (k *Soak) trouble(h *soaker) {
	switch r := k.Rand().IntN(100); {
	case r < 30:
		k.moveSoft(h)
	case r < 45:
		k.moveHard(h, k.between(0, 2*time.Second))
	case r < 50:
		k.hour.Outages++
		k.moveHard(h, k.between(5*time.Second, 5*time.Minute))
	case r < 58:
		k.cut(h)
	case r < 65:
		k.cutOneWay(h)
	case r < 75:
		k.bothMove(h)
	case r < 85:
		k.gainOrLose(h)
	case r < 90:
		k.disable(h)
	case r < 92:
		k.changeRates(h)
	case r < 94:
		k.changeRules(h)
	case r < 96:
		h.SetMode(ilnp.Mode(k.Rand().IntN(3)))
		k.touch(h)
	case r < 98:
		k.restart(h)
	default:
		k.reboot(h)
	}
}

// moveSoft connects the new link before it takes the old ones down.
func (k *Soak) moveSoft(h *soaker) {
	k.hour.Moves++
	link := k.connect(h)
	k.later(k.between(500*time.Millisecond, 10*time.Second), func() {
		if h.at(link) != nil && !h.off[link] {
			k.leave(h, link)
		}
	})
}

// moveHard takes every link down before it connects a new one.
func (k *Soak) moveHard(h *soaker, gap time.Duration) {
	k.hour.Moves++
	k.leave(h, 0)
	k.later(gap, func() {
		if len(h.attachments) == 0 {
			k.connect(h)
		}
	})
}

// bothMove moves a host and one of its peers at the same time.
func (k *Soak) bothMove(h *soaker) {
	k.hour.Both++
	move := func(h *soaker) { k.moveHard(h, k.between(0, time.Second)) }
	if k.Rand().IntN(2) == 0 {
		move = k.moveSoft
	}
	move(h)
	for _, t := range k.talks {
		if t.from == h && t.to.mobile {
			move(t.to)
			return
		}
	}
}

// cut cuts one link, or all, without notifying the host.
func (k *Soak) cut(h *soaker) {
	k.hour.Outages++
	for _, at := range slices.Clone(h.attachments) {
		if h.at(at.link) != at {
			continue
		}
		h.Cut(at.link)
		k.touch(h)
		k.later(k.between(500*time.Millisecond, 4*time.Minute), func() {
			if h.at(at.link) == at {
				h.Mend(at.link)
				k.touch(h)
			}
		})
		if k.Rand().IntN(2) == 0 {
			return
		}
	}
}

// cutOneWay cuts one direction of a link, without notifying the host, mostly for longer than what
// talks may take to leave it. In half of the cases another link takes over.
func (k *Soak) cutOneWay(h *soaker) {
	k.hour.OneWay++
	if len(h.attachments) < 2 && k.Rand().IntN(2) == 0 {
		k.connect(h)
	}
	if len(h.attachments) == 0 {
		return
	}
	at := h.attachments[k.Rand().IntN(len(h.attachments))]
	h.CutOneWay(at.link, []sim.Direction{sim.Forward, sim.Backward}[k.Rand().IntN(2)])
	k.touch(h)
	k.later(k.between(500*time.Millisecond, 15*time.Minute), func() {
		if h.at(at.link) == at {
			h.MendOneWay(at.link)
			k.touch(h)
		}
	})
}

// changeRates changes how much the links of a host pass.
func (k *Soak) changeRates(h *soaker) {
	for _, at := range h.attachments {
		h.SetRates(at.link, []int{0, 20_000, 100_000, 1_000_000}[k.Rand().IntN(4)])
	}
}

// changeRules gives a host a rule for half of its talks, or takes its rules away.
func (k *Soak) changeRules(h *soaker) {
	var from []roam.L64
	for _, at := range h.attachments {
		from = append(from, at.l64)
	}
	k.Rand().Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
	k.rules++
	h.setRule(k.rules, soakPort, from[:k.Rand().IntN(len(from)+1)]...)
}

// gainOrLose adds a link, or removes one of several.
func (k *Soak) gainOrLose(h *soaker) {
	if n := len(h.attachments); n >= 2 {
		h.Down(h.attachments[k.Rand().IntN(n)].link)
		k.touch(h)
		return
	}
	k.connect(h)
}

// disable disables a link by command, for a while.
func (k *Soak) disable(h *soaker) {
	if len(h.attachments) < 2 {
		k.connect(h)
	}
	at := h.attachments[k.Rand().IntN(len(h.attachments))]
	h.Disable(at.link, true)
	k.touch(h)
	k.later(k.between(time.Second, 5*time.Minute), func() {
		h.Disable(at.link, false)
		k.touch(h)
	})
}

// restart replaces the core by its successor.
func (k *Soak) restart(h *soaker) {
	k.hour.Restarts++
	if err := h.Restart(); err != nil {
		k.fault("%s: restart: %v", h.name, err)
	}
	k.readPairings(h)
	k.touch(h)
}

// reboot discards all state of a host; its talks continue.
func (k *Soak) reboot(h *soaker) {
	k.hour.Reboots++
	clear(h.off)
	h.Reboot()
	k.readPairings(h)
	for _, t := range k.talks {
		switch h {
		case t.from:
			k.look(h, t.to)
		case t.to:
			k.look(h, t.from)
		}
	}
	k.touch(h)
}

// calm ends all trouble: every host has at least one good network.
func (k *Soak) calm() {
	for _, h := range k.hosts {
		for _, link := range slices.Sorted(maps.Keys(h.off)) {
			h.Disable(link, false)
		}
		for _, at := range slices.Clone(h.attachments) {
			h.Mend(at.link)
			h.MendOneWay(at.link)
			h.Up(at.link, at.l64, Access{Delay: 5 * time.Millisecond}, roam.Infinite)
		}
		if len(h.attachments) == 0 {
			h.Up(1, k.place(), Access{Delay: 5 * time.Millisecond}, roam.Infinite)
		}
		k.touch(h)
	}
}
