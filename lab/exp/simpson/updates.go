package simpson

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"roam"
	"roam/lab/exp"
	"roam/lab/node"
	"roam/lab/packets"
	"roam/lab/site"
	"roam/lab/topo"
)

// updateFilter selects Locator Updates behind a nonce of four bytes, in ICMPv6 or in UDP.
const updateFilter = "ip6[48] == 156 or udp port 6740"

// collected is how long borders collect changes by default, in ms, for which the claim is made.
const collected = 20

// marker begins what announce appends to a configuration.
const marker = "# preference\n"

// borderCaptures are captures of Locator Updates on the links of the near border.
type borderCaptures map[string]capture

// update is a Locator Update on a link of a border.
type update struct {
	packets.Packet
	packets.Update
}

// updates measures what the near border adds to Locator Updates of its inside host, and the time
// from the loss of a provider's link to its own update by the other one. Captures on the links of
// the border have both.
func (v *seen) updates(ctx context.Context, env *exp.Env, s *site.Site) (err error) {
	all := borderCaptures{}
	for _, link := range []string{"lan", "wan0", "wan1"} {
		file := filepath.Join(env.Dir, fmt.Sprintf("updates-%s-%s.pcap", v.name, link))
		w, err := s.Router.Capture(ctx, link, file, 300, updateFilter)
		if err != nil {
			return err
		}
		all[link] = capture{w, file}
	}
	defer func() {
		for _, w := range all {
			_, stopped := w.Stop()
			err = errors.Join(err, stopped)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, patience+time.Minute)
	defer cancel()
	for n := range env.Params.Int("updates") {
		if err := all.announce(ctx, s.Inside, n); err != nil {
			return err
		}
	}
	in, out, err := all.readSoFar()
	if err != nil {
		return err
	}
	v.added = added(in, out)
	lost := time.Now()
	if err := s.Router.SetDown("wan1"); err != nil {
		return err
	}
	alone := roam.ILVFromAddr(site.Providers[0][0].Addr()).L64
	return topo.Wait(ctx, "the border announces the link that is left", func() bool {
		_, out, err := all.readSoFar()
		return err == nil && v.announced(out, alone, lost, env.Params.Int("announce_ms"))
	})
}

// announce has the inside host send an update, and waits until the border has passed it on.
func (all borderCaptures) announce(ctx context.Context, n *node.Node, round int) error {
	b, err := os.ReadFile(n.Config)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	rest, _, _ := strings.Cut(string(b), marker)
	text := fmt.Sprintf("%s%s[uplinks]\npreference = { net1 = %d }\n", rest, marker, 20+round%2)
	if err := os.WriteFile(n.Config, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	_, before, err := all.readSoFar()
	if err == nil {
		_, err = n.Ask(ctx, "config", "reload")
	}
	if err != nil {
		return err
	}
	return topo.Wait(ctx, "the border passes an update on", func() bool {
		_, after, err := all.readSoFar()
		return err == nil && len(after) > len(before)
	})
}

// readSoFar reads the captures so far.
func (all borderCaptures) readSoFar() (in, out []update, err error) {
	lists := map[string][]packets.Packet{}
	for link, w := range all {
		if lists[link], err = packets.Read(w.File, link); err != nil {
			return nil, nil, err
		}
	}
	in, out = updatesOf(lists["lan"], lists["wan0"], lists["wan1"])
	return in, out, nil
}

// updatesOf returns the updates of the inside host at the border, and those in its name that left.
// Acknowledgements are none.
func updatesOf(lan, wan0, wan1 []packets.Packet) (in, out []update) {
	for _, p := range packets.Merge(lan, wan0, wan1) {
		c, _, ok := p.Control()
		if !ok {
			continue
		}
		u, ok := c.Update()
		switch {
		case !ok || u.Ack || c.SourceNID() != site.InsideNID:
		case p.Where == "lan":
			in = append(in, update{p, u})
		default:
			out = append(out, update{p, u})
		}
	}
	return in, out
}

// added is what the border has added to each update, in ms: the time until the next one left.
func added(in, out []update) (list []float64) {
	next := 0
	for _, u := range in {
		for next < len(out) && out[next].At.Before(u.At) {
			next++
		}
		if next == len(out) {
			break
		}
		list = append(list, out[next].At.Sub(u.At).Seconds()*1000)
		next++
	}
	return list
}

// announced finds the first update after the loss of a link that lists one locator alone, and notes
// how long it took. Of a border that collects changes for longer than by default, the difference does
// not count.
func (v *seen) announced(out []update, alone roam.L64, lost time.Time, announceMs int) bool {
	for _, u := range out {
		if !u.At.Before(lost) && len(u.Locators) == 1 && u.Locators[0].L64 == alone {
			v.lost = append(v.lost, u.At.Sub(lost).Seconds()*1000-float64(announceMs-collected))
			return true
		}
	}
	return false
}
