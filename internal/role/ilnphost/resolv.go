package ilnphost

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"roam/internal/dnsio"
)

// Whoever manages the links writes resolv.conf anew when the host comes to another
// network: just when names are wanted, and the servers of before are out of
// reach. So the file is looked at, and taken again. A look costs two system calls.
//
// A program that does the same as we do must not keep us writing: after so many
// times in a period it has its way.
const (
	resolvEvery  = time.Second
	resolvTakes  = 20
	resolvPeriod = 5 * time.Minute
)

var errFought = errors.New("another program writes resolv.conf as often as we do: it is left as that one wants it")

// resolvKeeper looks after the resolv.conf that points to us.
type resolvKeeper struct {
	file  dnsio.ResolvConf
	own   netip.AddrPort
	link  string  // the file that tells of other servers while resolv.conf is ours; "": none
	done  [2]mark // of file and link, when they were last dealt with
	seen  [2]mark // the same at the last look
	takes quota
}

func newResolvKeeper(file dnsio.ResolvConf, own netip.AddrPort) *resolvKeeper {
	return &resolvKeeper{file: file, own: own, takes: quota{most: resolvTakes, period: resolvPeriod}}
}

// take points the file to us, and returns the servers that it named.
func (k *resolvKeeper) take() ([]netip.AddrPort, error) {
	k.link = k.file.Follows()
	link := k.marks()[1] // before it is read: what is written meanwhile shows in the next marks
	servers, err := k.file.Take(k.own)
	// What is written from now on shows in the marks, and what was in between shows here.
	if marks := k.marks(); k.pointsToUs() {
		k.done = [2]mark{marks[0], link}
	}
	return servers, err
}

// look takes the file again from whoever wrote it, once that one has finished,
// and returns the servers that it named. It also follows the file that a link led to
// before, whose owner does not know that it is not read any more. changed
// says whether there is anything new.
func (k *resolvKeeper) look(now time.Time) (servers []netip.AddrPort, changed bool, err error) {
	marks, before := k.marks(), k.done
	if marks != k.seen {
		k.seen = marks // it may be half written: the next look will tell
		return nil, false, nil
	}
	if marks == k.done {
		return nil, false, nil
	}
	k.done = marks // also of a failure: not again before the file changes again
	switch {
	case !k.pointsToUs():
		if ok, _ := k.takes.take(now); !ok {
			if k.takes.leftOut == 1 {
				err = errFought
			}
			return nil, false, err
		}
		servers, err = k.take()
	case marks[1] != before[1]:
		servers, err = k.file.Followed(k.own)
		if link := k.file.Follows(); link != k.link {
			k.link, k.done = link, [2]mark{} // what was not there before says more: the next looks will tell
		}
	default:
		return nil, false, nil // an edit of ours by hand
	}
	return servers, err == nil, err
}

func (k *resolvKeeper) marks() [2]mark {
	marks := [2]mark{markOf(k.file.Path)}
	if k.link != "" {
		marks[1] = markOf(k.link)
	}
	return marks
}

// pointsToUs reports whether applications ask us first.
func (k *resolvKeeper) pointsToUs() bool {
	text, err := os.ReadFile(k.file.Path)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "nameserver" {
			return f[1] == k.own.Addr().String()
		}
	}
	return false
}

// keepNames has applications ask us for names in whatever network the host is,
// and us the servers of that network, until ctx is done. It runs beside the
// engine, which must not wait for a disk.
func (h *Host) keepNames(ctx context.Context) {
	if h.resolv == nil {
		return
	}
	tick := time.NewTicker(resolvEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			servers, changed, err := h.resolv.look(now)
			if err != nil {
				h.log.Warn("applications may not query Roam's resolver", "err", err)
			}
			if changed {
				h.followServers(ctx, servers)
			}
		}
	}
}

// followServers has other names asked from these servers, unless the
// configuration names some.
func (h *Host) followServers(ctx context.Context, servers []netip.AddrPort) {
	_ = h.do(ctx, func(time.Time) { // fails at the end only
		if len(h.cfg.DNS.Upstream) == 0 && !slices.Equal(h.dns.Upstream(), servers) {
			h.log.Info("another program wrote resolv.conf; the resolver forwards to its servers from now on", "servers", servers)
			h.dns.SetUpstream(servers)
		}
	})
}
