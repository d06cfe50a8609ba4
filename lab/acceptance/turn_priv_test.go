package acceptance

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/workload"
	"roam/lab/workload/udpflow"
)

// TestTurn has a correspondent get Roam, and lose it, while applications on both
// sides are connected: what began by plain IPv6 goes on as it is, and what begins
// later moves.
func TestTurn(t *testing.T) {
	w := newWorld(t, "turn", 5*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	mn := w.newHost("mn", settings{mode: "duality"}).start()
	mn.becomes("net1", "net2")
	if err := w.hosts["cn"].AddAddr("net1", netip.PrefixFrom(w.wire("cn", 1), 128)); err != nil {
		t.Fatal(err)
	}
	w.echo(t, "cn", 7007)
	w.echo(t, "mn", 7007)
	running := w.plainTraffic(t)
	mn.reaches("cn", "plain")
	began := time.Now()
	cn := w.newHost("cn", settings{})
	w.sub("it starts", func(t *testing.T) {
		cn.start()
		goesOn(t, running)
		w.talk(t, "mn", "tcp6", "cn", 7007).echoed(t, "as before")
	})
	w.sub("it shows its nonce", func(t *testing.T) {
		w.talk(t, "cn", "tcp6", "mn", 7007).echoed(t, "hello")
		cn.reaches("mn", "established")
		mn.reaches("cn", "established")
		mn.sendsFrom("cn", "net1", "net2")
		goesOn(t, running)
		goesOn(t, running)
	})
	moving := w.talk(t, "mn", "tcp6", "cn", 7007)
	moving.echoed(t, "hello")
	if !w.hasConnection("cn", w.session("cn"), 7007, w.session("mn")) {
		t.Error("a new connection is not between session addresses")
	}
	for _, s := range running {
		w.intact(t, s, began)
	}
	t.Logf("packets left to sockets of plain IPv6: %d at mn, %d at cn", mn.counter("rx_real_socket"), cn.counter("rx_real_socket"))
	w.sub("it stops", func(t *testing.T) { stops(t, w, mn, cn, moving) })
}

// plainTraffic is what applications have under way with a host without Roam: begun
// by it, before there was any session and after, and by us.
func (w *world) plainTraffic(t *testing.T) (all []workload.Session) {
	mine := w.wire("mn", 1).String()
	for i, c := range []struct{ from, to, target string }{{"cn", "mn", mine}, {"mn", "cn", "cn"}, {"cn", "mn", mine}} {
		port := 7100 + 10*i
		for j, name := range []string{"up", "down"} {
			s, err := workload.StartTCP(w.top.Context(), w.hosts[c.to], w.hosts[c.from], w.scratch(t.Name()), workload.TCPOptions{
				Name: fmt.Sprintf("TCP %d %s, from %s", i, name, c.from), Target: c.target, Port: port + j, Size: 500, Every: 5 * time.Millisecond, Down: j == 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Kill)
			all = append(all, s)
		}
		down := 200
		if c.from == "cn" {
			down = 0 // plain IPv6 may answer datagrams from any of its addresses
		}
		s, err := workload.StartUDP(w.top.Context(), w.hosts[c.to], w.hosts[c.from], w.scratch(t.Name()), workload.UDPOptions{
			Name: fmt.Sprintf("UDP %d from %s", i, c.from), Target: c.target, Port: port + 2, Up: 200, Down: down, Size: 200,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Kill)
		all = append(all, s)
		goesOn(t, all)
	}
	return all
}

// goesOn waits until all of them have got further.
func goesOn(t *testing.T, all []workload.Session) {
	t.Helper()
	for _, s := range all {
		flows(t, s, 100)
	}
}

// turnLoss is how many datagrams may be lost while the two ends get to know each
// other's nonce: those of a few round trips on a machine that is busy, here of a quarter
// of a second.
const turnLoss = 50

// intact ends a flow: every byte of a connection came, in order, and of datagrams
// since a time all but a few.
func (w *world) intact(t *testing.T, s workload.Session, since time.Time) {
	t.Helper()
	switch s := s.(type) {
	case *workload.TCP:
		if _, err := s.Stop(w.within(patience)); err != nil {
			t.Errorf("%s: %v", s.Name(), err)
		}
	case *workload.UDP:
		now := time.Now()
		up, down, err := s.Stop(w.within(patience), drain)
		if err != nil {
			t.Fatalf("%s: %v", s.Name(), err)
		}
		for way, f := range map[string]*udpflow.Flow{"up": up, "down": down} {
			c, gap := f.Count(since, now), f.LongestGap(since, now).Length()
			t.Logf("%s, %s: %+v, longest gap %v", s.Name(), way, c, gap.Round(time.Millisecond))
			if c.Refused > 0 || c.Lost > turnLoss {
				t.Errorf("%s, %s: %d datagrams lost, %d refused", s.Name(), way, c.Lost, c.Refused)
			}
		}
	}
}

// hasConnection reports whether a host has a connection at those ends.
func (w *world) hasConnection(name string, local netip.Addr, port int, remote netip.Addr) bool {
	out, _ := w.run(name, "ss", "-tnH", "state", "established")
	for _, line := range strings.Split(out, "\n") {
		f := strings.Fields(line)
		if len(f) >= 4 && f[2] == netip.AddrPortFrom(local, uint16(port)).String() && strings.HasPrefix(f[3], "["+remote.String()+"]:") {
			return true
		}
	}
	return false
}

// stops takes Roam off the correspondent: what was of the session is over, and what
// begins then falls back, in bearable time.
func stops(t *testing.T, w *world, mn, cn *host, moving *client) {
	cn.down()
	began := time.Now()
	var c *client
	testutil.Eventually(t, patience, func() bool {
		_, _ = fmt.Fprintln(moving.in, "still there?") // it may have ended
		c = w.talk(t, "mn", "tcp6", "cn", 7007)
		return c.connected()
	}, "connection with a host that has no Roam any more")
	c.echoed(t, "plain again")
	t.Logf("connected %v after the end of Roam there, within %d ms", time.Since(began).Round(10*time.Millisecond), c.ms)
	mn.reaches("cn", "plain")
	testutil.Eventually(t, patience, func() bool { return strings.Contains(moving.out.text(), "reset") }, "reset of a connection of the session")
	t.Logf("a connection of the session was reset after %v", time.Since(began).Round(10*time.Millisecond))
}
