package flood

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"roam"
	"roam/lab/exp"
	"roam/lab/node"
	"roam/lab/peergen"
	"roam/lab/topo"
)

const (
	nidMN roam.NID = 0x1000_0000_0000_00a1
	nidCN roam.NID = 0x1000_0000_0000_00c1
	l64MN roam.L64 = 0x2001_0db8_0001_0000
	l64CN roam.L64 = 0x2001_0db8_000c_0000
)

// world is the topology of drawing.txt.
type world struct {
	lab       *topo.Lab
	mn, cn, r *topo.Host
	node      *node.Node         // of mn
	peers     *peergen.Generator // honest peers
	sink      *peergen.Generator // attackers: the same place, another port
	closers   []func() error
	pid       int

	mu   sync.Mutex
	came int // newcomers so far
}

// build makes hosts, links, daemons and the peer generator.
func build(ctx context.Context, env *exp.Env) (w *world, err error) {
	w = &world{}
	if w.lab, err = topo.New("flood"); err != nil {
		return nil, err
	}
	w.closers = append(w.closers, w.lab.Close)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if err := w.network(ctx); err != nil {
		return w, err
	}
	if err := w.count(ctx, env.Dir); err != nil {
		return w, err
	}
	if err := w.daemons(ctx, env); err != nil {
		return w, err
	}
	for _, s := range []struct {
		port int
		echo bool
	}{{echoPort, true}, {sinkPort, false}} {
		if err := w.listen(s.port, s.echo); err != nil {
			return w, err
		}
	}
	target := roam.ILV{L64: l64MN, NID: nidMN}
	if w.peers, err = peergen.Start(w.r, "peers", peergen.Options{Target: target, Port: echoPort,
		Locators: 1}); err != nil {
		return w, err
	}
	w.closers = append(w.closers, w.peers.Close)
	w.sink = w.peers.At(sinkPort)
	return w, nil
}

func (w *world) network(ctx context.Context) (err error) {
	for name, h := range map[string]**topo.Host{"mn": &w.mn, "cn": &w.cn, "r": &w.r} {
		if *h, err = w.lab.Host(name); err != nil {
			return err
		}
	}
	if err := w.r.Forward(); err != nil {
		return err
	}
	var adverts []topo.Advert
	for _, l := range []struct {
		host  *topo.Host
		there string
		l64   roam.L64
	}{{w.mn, "mn", l64MN}, {w.cn, "cn", l64CN}} {
		if err := w.lab.Veth(l.host, "net", w.r, l.there); err != nil {
			return err
		}
		if err := w.r.AddAddr(l.there, netip.PrefixFrom(roam.ILV{L64: l.l64, NID: 1}.Addr(), 64)); err != nil {
			return err
		}
		adverts = append(adverts, topo.Advert{Interface: l.there, Prefix: l.l64.Prefix()})
	}
	if _, err := w.r.Router(adverts...); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := w.mn.WaitAddr(wait, "net", l64MN.Prefix()); err != nil {
		return err
	}
	_, err = w.cn.WaitAddr(wait, "net", l64CN.Prefix())
	return err
}

func (w *world) daemons(ctx context.Context, env *exp.Env) error {
	hosts := fmt.Sprintf("nid=%s l64=%s cn\nnid=%s l64=%s mn\n", nidCN, l64CN, nidMN, l64MN)
	for _, h := range []struct {
		host *topo.Host
		nid  roam.NID
	}{{w.cn, nidCN}, {w.mn, nidMN}} {
		n, err := node.New(h.host, node.Binaries{Roam: env.Roam, Roamd: env.Roamd}, node.Options{NID: h.nid, Hosts: hosts})
		if err == nil {
			err = n.Start(ctx)
		}
		if err == nil {
			err = n.WaitActive(ctx, "net")
		}
		if err != nil {
			return err
		}
		w.node = n
	}
	s, err := w.node.Status(ctx)
	w.pid = s.PID
	return err
}

// listen binds a port of mn and echoes its datagrams, or ignores them.
func (w *world) listen(port int, echo bool) error {
	var conn net.PacketConn
	err := w.mn.Do(func() (err error) {
		conn, err = net.ListenPacket("udp6", fmt.Sprintf("[::]:%d", port))
		return err
	})
	if err != nil {
		return fmt.Errorf("listen on mn: %w", err)
	}
	w.closers = append(w.closers, conn.Close)
	if !echo {
		return nil
	}
	go func() {
		b := make([]byte, 2048)
		for {
			n, from, err := conn.ReadFrom(b)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				_, _ = conn.WriteTo(b[:n], from) // the peer retransmits after a lost echo
			}
		}
	}()
	return nil
}

func (w *world) close() error {
	var errs []error
	for i := len(w.closers) - 1; i >= 0; i-- {
		errs = append(errs, w.closers[i]())
	}
	return errors.Join(errs...)
}

// next returns the number of the next newcomer.
func (w *world) next() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.came++
	return w.came
}

// newcomers starts honest peers until until ends, and returns their results.
func (w *world) newcomers(until, ctx context.Context, every time.Duration) <-chan []honest {
	out := make(chan []honest, 1)
	go func() {
		var all []honest
		var mu sync.Mutex
		var wg sync.WaitGroup
		tick := time.NewTicker(every)
		defer tick.Stop()
		for until.Err() == nil {
			select {
			case <-until.Done():
				continue
			case <-tick.C:
			}
			wg.Go(func() {
				talk, cancel := context.WithTimeout(ctx, patience)
				defer cancel()
				first, _, err := w.peers.Talk(talk, w.next(), sentences)
				mu.Lock()
				defer mu.Unlock()
				all = append(all, honest{first, err})
			})
		}
		wg.Wait()
		out <- all
	}()
	return out
}

// acknowledged has each honest peer announce its locator until the host acknowledges, for a
// while, and returns how many it did: it acknowledges only a peer with which it has a session.
func (w *world) acknowledged(ctx context.Context) (n int, err error) {
	w.mu.Lock()
	came := w.came
	w.mu.Unlock()
	wait, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_ = topo.WaitSparing(wait, "acknowledgements of honest peers", func() bool {
		n = 0
		for i := 1; i <= came; i++ {
			if w.peers.IsAcked(i) {
				n++
			} else {
				err = errors.Join(err, w.peers.Tell(i))
			}
		}
		return n == came || err != nil
	}) // who is left out is the result
	return n, err
}

// counts are the flood's packets that have come to the host so far, as its router counts them
// and as its daemon does.
type counts struct{ router, daemon uint64 }

func (w *world) counted(ctx context.Context) (c counts, err error) {
	all, err := w.r.Counters(ctx)
	if err != nil {
		return c, err
	}
	link, err := w.r.Stats("mn")
	if err != nil {
		return c, err
	}
	c.router = uint64(all["updates"].Packets+all["firsts"].Packets) - link.TxDropped
	own, err := w.node.Counts(ctx)
	c.daemon = own["drop_update_no_session"] + own["drop_wrong_nonce"] + own["rx_nonce"]
	return c, err
}

// count has the router count the packets of the floods on the link to the host.
func (w *world) count(ctx context.Context, dir string) error {
	text := fmt.Sprintf(`table ip6 flood {
	counter updates {}
	counter firsts {}
	chain forward {
		type filter hook forward priority 0;
		oifname "mn" icmpv6 type 156 counter name updates
		oifname "mn" udp dport %d counter name firsts
	}
}
`, sinkPort)
	path := filepath.Join(dir, "flood.nft")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write rules: %w", err)
	}
	if out, err := w.r.Command(ctx, "/usr/sbin/nft", "-f", path).CombinedOutput(); err != nil {
		return fmt.Errorf("count packets on %s: %w: %s", w.r.Name(), err, out)
	}
	return nil
}

// memory is the memory of the host under attack, in bytes.
type memory struct{ maps, rss int }

func (w *world) memory(ctx context.Context) (m memory, err error) {
	if err := ctx.Err(); err != nil {
		return m, err
	}
	dir := fmt.Sprintf("/proc/%d/fdinfo", w.pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return m, fmt.Errorf("read what the daemon holds: %w", err)
	}
	seen := make(map[string]bool)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // closed since
		}
		f := fields(string(b))
		if id := f["map_id"]; id != "" && !seen[id] {
			seen[id] = true
			n, _ := strconv.Atoi(f["memlock"])
			m.maps += n
		}
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.pid))
	if err != nil {
		return m, fmt.Errorf("read size of the daemon: %w", err)
	}
	kib, _, _ := strings.Cut(fields(string(b))["VmRSS"], " ")
	n, err := strconv.Atoi(kib)
	m.rss = n << 10
	return m, err
}

// fields reads lines of the form "name: value".
func fields(text string) map[string]string {
	f := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			f[name] = strings.TrimSpace(value)
		}
	}
	return f
}

// watch samples the size of the daemon and returns the greatest at the end.
func (w *world) watch(ctx context.Context) <-chan int {
	out := make(chan int, 1)
	go func() {
		most := 0
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			if m, err := w.memory(ctx); err == nil {
				most = max(most, m.rss)
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
		out <- most
	}()
	return out
}
