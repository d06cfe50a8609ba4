package acceptance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"roam/lab/workload"
)

// TestApplications asks whether programs that know nothing of Roam work: by
// name through the resolver, and by the real address of a correspondent.
func TestApplications(t *testing.T) {
	needs(t, "curl", "iperf3", "ssh", "sshd", "ping", "dig", "traceroute")
	w := newWorld(t, "apps", 2*time.Millisecond, place{"mn", 1, true}, place{"cn", 1, false})
	mn, cn := w.newHost("mn", settings{}).start(), w.newHost("cn", settings{}).start()
	w.sub("a name resolves to one session address", func(t *testing.T) {
		out := w.must("mn", "dig", "+short", "AAAA", "cn")
		if strings.TrimSpace(out) != w.session("cn").String() {
			t.Errorf("AAAA of cn: %q", out)
		}
		if out := w.must("mn", "dig", "+short", "A", "cn"); strings.TrimSpace(out) != "" {
			t.Errorf("A of cn: %q", out)
		}
	})
	w.sub("programs work by name", func(t *testing.T) { byName(t, w) })
	w.sub("a session is established at both ends", func(t *testing.T) {
		mn.reaches("cn", "established")
		cn.reaches("mn", "established")
	})
	w.sub("TCP by real address keeps the address that was asked for", func(t *testing.T) { byLiteral(t, w, cn) })
	w.sub("UDP by real address", func(t *testing.T) {
		began := time.Now()
		u := w.udp(t, "mn", "cn", w.wire("cn", 1).String(), 7100, 500)
		flows(t, u, 200)
		w.lossless(t, u, began)
	})
	w.sub("ping of 4000 bytes both ways", func(t *testing.T) {
		w.must("mn", "ping", "-6", "-c", "5", "-i", "0.2", "-s", "4000", "-W", "3", "cn")
		w.must("cn", "ping", "-6", "-c", "5", "-i", "0.2", "-s", "4000", "-W", "3", "mn")
	})
	w.sub("traceroute names the routers and the correspondent", func(t *testing.T) { traced(t, w) })
	w.sub("a link of 1400 bytes in the middle", func(t *testing.T) { narrow(t, w) })
	w.sub("nothing left untranslated", func(t *testing.T) { noLeak(t, mn, cn) })
}

// byName runs curl, ssh, iperf3 and ping side by side, as they come.
func byName(t *testing.T, w *world) {
	ctx := w.within(30 * time.Second)
	curl := w.download(t, "mn", "cn", "cn", 8080, 3_000_000, 0)
	ssh := w.shell(t, "mn", "cn", "cn", 2222)
	w.must("mn", "ping", "-6", "-c", "3", "-i", "0.2", "-W", "3", "cn")
	for i, opt := range []workload.IperfOptions{
		{Name: "TCP up", Mbps: 20}, {Name: "TCP down", Mbps: 20, Reverse: true},
		{Name: "UDP up", UDP: true, Mbps: 5, Length: 1000},
		{Name: "UDP down", UDP: true, Mbps: 5, Length: 1000, Reverse: true},
	} {
		opt.Port, opt.Seconds = 5200+i, 1
		w.iperf(t, ctx, opt, 100_000)
	}
	if err := curl.Wait(ctx); err != nil {
		t.Error(err)
	}
	if err := ssh.Close(ctx); err != nil {
		t.Error(err)
	}
}

// iperf runs one test from mn to cn to its end; that many bytes must arrive,
// and no datagram may be lost.
func (w *world) iperf(t testing.TB, ctx context.Context, opt workload.IperfOptions, nbytes float64) {
	t.Helper()
	opt.Target, opt.Interval = "cn", 0.5
	p, err := workload.StartIperf(ctx, w.hosts["cn"], w.hosts["mn"], opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	r, err := p.Wait(ctx)
	if err != nil || r.Bytes < nbytes || r.LostPackets > 0 {
		t.Errorf("iperf3 %s: %v, %+v", opt.Name, err, r)
	}
}

// byLiteral downloads from the real address, and lets iperf3 and a plain
// client print whom they think they speak to.
func byLiteral(t *testing.T, w *world, cn *host) {
	ctx := w.within(30 * time.Second)
	before := cn.with("mn").RxPackets
	real := w.wire("cn", 1)
	curl := w.download(t, "mn", "cn", real.String(), 8081, 500_000, 0)
	if err := curl.Wait(ctx); err != nil {
		t.Error(err)
	}
	if after := cn.with("mn").RxPackets; after < before+10 {
		t.Errorf("the session carried %d packets of the download by address", after-before)
	}
	server := w.hosts["cn"].AppCommand(ctx, "iperf3", "-s", "-1", "-p", "5300")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	listens(t, w, "cn", 5300)
	out, err := w.run("mn", "iperf3", "-6", "-c", real.String(), "-p", "5300", "-t", "1")
	if err != nil || !strings.Contains(out, "connected to "+real.String()) {
		t.Errorf("iperf3 by address: %v\n%s", err, out)
	}
	_ = server.Wait()
	w.echo(t, "cn", 7007)
	for _, network := range []string{"tcp6", "udp6"} {
		c := w.talk(t, "mn", network, real.String(), 7007)
		c.echoed(t, "hello")
		if want := "[" + real.String() + "]:7007 "; !strings.Contains(c.out.text(), want) {
			t.Errorf("%s: the peer of a socket connected to %s: %s", network, want, c.out.text())
		}
	}
	// A socket that is not connected sees whom it named, too.
	out = w.must("mn", "python3", "-c", fmt.Sprintf(unconnected, real.String()))
	if strings.TrimSpace(out) != real.String() {
		t.Errorf("an answer to a datagram for %s came from %s", real, out)
	}
}

// unconnected sends a datagram to an address and prints who answers.
const unconnected = `import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.settimeout(5)
s.sendto(b"hello", (%q, 7007)); print(s.recvfrom(100)[1][0])`

func traced(t *testing.T, w *world) {
	for _, kind := range []string{"-U", "-I"} {
		out := w.must("mn", "traceroute", "-6", "-n", "-w", "2", "-q", "2", kind, "cn")
		t.Log(out)
		for _, want := range []string{
			w.prefix("mn", 1).Addr().Next().String(), "2001:db8:f::2", w.session("cn").String(),
		} {
			if !strings.Contains(out, " "+want+" ") {
				t.Errorf("traceroute %s does not show %s", kind, want)
			}
		}
	}
}

// narrow lowers the MTU between the routers while a session lives: Packet Too
// Big has to find its way back to the sockets, in both directions.
func narrow(t *testing.T, w *world) {
	ctx := w.within(60 * time.Second)
	mtu := func(nbytes string) {
		w.must("r0", "ip", "link", "set", "core", "mtu", nbytes)
		w.must("r1", "ip", "link", "set", "core", "mtu", nbytes)
	}
	mtu("1400")
	defer mtu("1500")
	for i, opt := range []workload.IperfOptions{{Name: "TCP up"}, {Name: "TCP down", Reverse: true}} {
		opt.Port, opt.Seconds, opt.Mbps = 5400+i, 2, 20
		w.iperf(t, ctx, opt, 2_000_000)
	}
	for _, ends := range [][2]string{{"mn", "cn"}, {"cn", "mn"}} {
		// The first ones may be what discovers the MTU.
		out, _ := w.run(ends[0], "ping", "-6", "-c", "6", "-i", "0.2", "-M", "want", "-s", "3000", "-W", "2", ends[1])
		if !strings.Contains(out, " bytes from ") {
			t.Errorf("ping of 3000 bytes from %s:\n%s", ends[0], out)
		}
	}
}

// noLeak looks at the counters that stay at zero when all is well.
func noLeak(t *testing.T, nodes ...*host) {
	for _, n := range nodes {
		for name, v := range n.counters() {
			for _, bad := range []string{"leak", "kernel_helper", "malformed", "ring_full", "session_outside", "wrong_nonce"} {
				if v > 0 && strings.Contains(name, bad) {
					t.Errorf("%s: %s = %d", n.name, name, v)
				}
			}
		}
	}
}
