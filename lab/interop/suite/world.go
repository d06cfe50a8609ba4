package suite

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"roam"
	"roam/lab/linkem"
	"roam/lab/node"
	"roam/lab/topo"
)

// Drawing is the network of a case.
const Drawing = `         net1  2001:db8:a:1::/64
       +=========================+
 [ mn ]                           [ r ]--peer--( target )
       +=========================+
         net2  2001:db8:a:2::/64

 mn runs roamd. Each of its links delays by 5 ms each way.`

const (
	delay = 5 * time.Millisecond // of Roam's links, each way
	// patience bounds the wait for anything that takes milliseconds on an idle
	// machine.
	patience = 10 * time.Second
	// handshakes bounds the set-up of a connection.
	handshakes = 5 * time.Second
)

// links are those of Roam's host, with the prefixes advertised on them.
var links = []string{"net1", "net2"}

func roamPrefix(i int) netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf("2001:db8:a:%d::/64", i+1))
}

func locator(p netip.Prefix) roam.L64 { return roam.ILVFromAddr(p.Addr()).L64 }

// firstNID is the identifier of Roam's host in the first case. Each later one has
// the next: a foreign host would drop the new nonce of an old acquaintance.
const firstNID = 0x1000_0000_0000_0a01

// number distinguishes the networks of a process.
var number atomic.Uint64

// world is the network of one case.
type world struct {
	lab     *topo.Lab
	mn, r   *topo.Host
	cables  []*linkem.Link
	roam    *node.Node
	nid     roam.NID
	target  target
	log     string
	servers []func() error
}

// newWorld makes the network and starts Roam, with the target in its hosts file
// under the given options.
func newWorld(ctx context.Context, bin node.Binaries, t target, c Case, dir string) (w *world, err error) {
	n := number.Add(1)
	w = &world{target: t, nid: roam.NID(firstNID + n), log: filepath.Join(dir, c.Name+".log")}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.lab, err = topo.New(fmt.Sprintf("iop%d", n)); err != nil {
		return w, err
	}
	if w.mn, err = w.lab.Host("mn"); err != nil {
		return w, err
	}
	if w.r, err = w.lab.Host("r"); err != nil {
		return w, err
	}
	if err = w.r.Forward(); err != nil {
		return w, err
	}
	if err = w.wire(c.duality); err != nil {
		return w, err
	}
	hosts := fmt.Sprintf("nid=%s l64=%s %s target\n", t.nid(), t.locators()[0], c.options)
	mode := map[bool]string{true: "duality", false: "soft"}[c.duality]
	w.roam, err = node.New(w.mn, bin, node.Options{NID: w.nid, Mode: mode, Hosts: hosts, Log: w.log})
	if err != nil {
		return w, err
	}
	return w, w.start(ctx, c.duality)
}

// wire joins hosts, router and target. The second link of Roam's host has no
// carrier yet, but in duality.
func (w *world) wire(both bool) error {
	var adverts []topo.Advert
	for i, ifname := range links {
		lan, p := fmt.Sprintf("lan%d", i+1), roamPrefix(i)
		cable, err := w.lab.Link(w.mn, ifname, w.r, lan, linkem.Params{Delay: delay})
		if err != nil {
			return err
		}
		w.cables = append(w.cables, cable)
		if err := w.r.AddAddr(lan, netip.PrefixFrom(p.Addr().Next(), 64)); err != nil {
			return err
		}
		if i > 0 && !both {
			if err := cable.Down(); err != nil {
				return fmt.Errorf("cut %s: %w", ifname, err)
			}
		}
		adverts = append(adverts, topo.Advert{Interface: lan, Prefix: p})
	}
	more, err := w.target.attach(w)
	if err != nil {
		return err
	}
	_, err = w.r.Router(append(adverts, more...)...)
	return err
}

func (w *world) start(ctx context.Context, both bool) error {
	if err := w.roam.Start(ctx); err != nil {
		return err
	}
	active := links[:1]
	if both {
		active = links
	}
	return w.roam.WaitActive(ctx, active...)
}

// reboot stops Roam's daemon and starts it as a boot of the host does: the data plane and
// the run directory are gone, the state directory is kept. up is the time when the daemon
// answered again.
func (w *world) reboot(ctx context.Context) (up time.Time, err error) {
	if err := w.roam.Signal(ctx, syscall.SIGTERM); err != nil {
		return up, err
	}
	if _, err := w.roam.Ask(ctx, "down"); err != nil {
		return up, err
	}
	if err := os.RemoveAll(w.roam.RunDir()); err != nil {
		return up, fmt.Errorf("empty the run directory: %w", err)
	}
	err = w.start(ctx, false)
	return time.Now(), err
}

// move gives Roam's second link carrier; hard cuts the first one before, soft
// leaves it. It returns when the new locator is in use.
func (w *world) move(ctx context.Context, hard bool) error {
	if hard {
		if err := w.cables[0].Down(); err != nil {
			return fmt.Errorf("cut %s: %w", links[0], err)
		}
	}
	if err := w.cables[1].Up(); err != nil {
		return fmt.Errorf("join %s: %w", links[1], err)
	}
	return w.roam.WaitActive(ctx, links[1])
}

// cut takes the carrier from one of Roam's links.
func (w *world) cut(link int) error {
	if err := w.cables[link].Down(); err != nil {
		return fmt.Errorf("cut %s: %w", links[link], err)
	}
	return nil
}

// acknowledged reports whether the target has acknowledged the first move of Roam's host.
func (w *world) acknowledged(ctx context.Context) bool {
	list, err := w.roam.Sessions(ctx)
	return err == nil && slices.ContainsFunc(list, func(s node.Session) bool {
		return s.NID == w.target.nid() && s.MoveMs > 0
	})
}

// plain says why the session does not use ILNP, or returns "".
func (w *world) plain(ctx context.Context) string {
	if why := w.target.plain(); why != "" {
		return why
	}
	list, err := w.roam.Sessions(ctx)
	for _, s := range list {
		if err == nil && s.NID == w.target.nid() && s.State == "plain" {
			return "Roam fell back to plain IPv6"
		}
	}
	return ""
}

func (w *world) close() error {
	var errs []error
	for _, stop := range w.servers {
		errs = append(errs, stop())
	}
	errs = append(errs, w.target.detach())
	if w.lab != nil {
		errs = append(errs, w.lab.Close())
	}
	return errors.Join(errs...)
}

func sessionAddr(n roam.NID) netip.Addr {
	return roam.ILV{NID: n, L64: roam.DefaultSessionPrefix}.Addr()
}
