package peergen

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// spoofedNID is the first identifier of spoofed first packets, outside the range of the
// generator's own.
const spoofedNID roam.NID = 0x1000_0001_0000_0000

// Flood is packets of one kind that are sent at a rate.
type Flood struct {
	Packets int
	Rate    float64 // per second; 0 is as fast as one core can
	// Victim is the claimed sender of forged Locator Updates; zero: Packets first packets
	// with different identifiers.
	Victim roam.ILV
}

// Forge sends a flood and returns how long it took. Each packet has another
// nonce; the peer generator does not answer for spoofed identifiers.
func (c *Generator) Forge(ctx context.Context, f Flood) (time.Duration, error) {
	b, nonceAt, err := c.template(f.Victim)
	if err != nil {
		return 0, fmt.Errorf("forge packets: %w", err)
	}
	const step = time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	began := time.Now()
	for sent := 0; sent < f.Packets; {
		due := f.Packets
		if f.Rate > 0 {
			due = min(int(f.Rate*time.Since(began).Seconds()), f.Packets)
			// Do not send overdue packets as a burst if this thread did not run.
			due = min(due, sent+int(f.Rate*20*step.Seconds())+1)
		}
		for ; sent < due; sent++ {
			change(b, nonceAt, sent, f.Victim == roam.ILV{})
			if err := c.send(b); err != nil {
				return 0, err
			}
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if f.Rate > 0 {
			<-tick.C
		}
	}
	return time.Since(began), nil
}

// template makes the first packet of a flood and says where its nonce is.
func (c *Generator) template(victim roam.ILV) (b []byte, nonceAt int, err error) {
	n := ilnpwire.Nonce{Len: 4}
	if victim == (roam.ILV{}) {
		b, err = datagram(roam.ILV{L64: firstL64, NID: spoofedNID}, c.opt.Target, n, c.opt.Port, []byte("spoof"))
	} else {
		lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement,
			Locators: []ilnpwire.LocatorEntry{{L64: firstL64, Preference: 1, Lifetime: 3600}}}
		b, err = ilnpwire.BuildUpdate(victim, c.opt.Target, n, lu)
	}
	return b, ip6.HeaderLen + 4, err
}

// change gives the packet another nonce, and another identifier with a checksum
// that stays right.
func change(b []byte, nonceAt, i int, identifiers bool) {
	binary.BigEndian.PutUint32(b[nonceAt:], uint32(i)*2654435761|1)
	if !identifiers {
		return
	}
	const low, high = 8 + 12, 8 + 14 // the last two words of the source
	const checksum = ip6.HeaderLen + 8 + 6
	sum := uint32(^binary.BigEndian.Uint16(b[checksum:]))
	for at, v := range map[int]uint16{low: uint16(i >> 16), high: uint16(i)} {
		sum += uint32(^binary.BigEndian.Uint16(b[at:])) + uint32(v)
		binary.BigEndian.PutUint16(b[at:], v)
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(b[checksum:], ^uint16(sum))
}

// At returns the same peer generator for packets to another port; the first one counts the
// answers.
func (c *Generator) At(port uint16) *Generator {
	o := c.opt
	o.Port = port
	return &Generator{opt: o, file: c.file}
}
