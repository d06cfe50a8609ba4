package acceptance

import (
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/workload"
	"roam/lab/workload/udpflow"
)

// drain is how long nothing must have arrived until a flow counts as over.
const drain = 300 * time.Millisecond

// udp starts numbered datagrams both ways, given a name or an address, and
// waits until they flow.
func (w *world) udp(t testing.TB, from, to, target string, port, rate int) *workload.UDP {
	t.Helper()
	u, err := workload.StartUDP(w.top.Context(), w.hosts[to], w.hosts[from], w.scratch(t.Name()), workload.UDPOptions{
		Name: "udp", Target: target, Port: port, Up: rate, Down: rate, Size: 200,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Kill)
	flows(t, u, 100)
	return u
}

// flows waits until a flow has got that much further.
func flows(t testing.TB, s workload.Session, more uint64) {
	t.Helper()
	from := s.State().Progress
	testutil.Eventually(t, patience, func() bool { return s.State().Progress >= from+more }, "progress of "+s.Name())
}

// lossless ends a flow and fails unless everything that was sent since a time
// arrived, in both directions; it returns the flows.
func (w *world) lossless(t testing.TB, u *workload.UDP, since time.Time) (up, down *udpflow.Flow) {
	t.Helper()
	now := time.Now()
	up, down, err := u.Stop(w.within(patience), drain)
	if err != nil {
		t.Fatal(err)
	}
	if n := u.BufferErrors(); n > 0 {
		t.Fatalf("the receivers of the probe lost %d datagrams themselves: this measured nothing", n)
	}
	for name, f := range map[string]*udpflow.Flow{"up": up, "down": down} {
		c, gap := f.Count(since, now), f.LongestGap(since, now)
		t.Logf("%s: %+v, longest gap %v", name, c, gap.Length().Round(time.Millisecond))
		if c.Written == 0 || c.Lost != 0 || c.Refused != 0 {
			t.Errorf("%s: %d of %d datagrams lost, %d refused", name, c.Lost, c.Written, c.Refused)
		}
	}
	return up, down
}

// tcp starts a paced connection whose bytes are checked for their order.
func (w *world) tcp(t testing.TB, from, to, target string, port int, down bool) *workload.TCP {
	t.Helper()
	name := "tcp-up"
	if down {
		name = "tcp-down"
	}
	c, err := workload.StartTCP(w.top.Context(), w.hosts[to], w.hosts[from], w.scratch(t.Name()), workload.TCPOptions{
		Name: name, Target: target, Port: port, Size: 500, Every: 2 * time.Millisecond, Down: down,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	flows(t, c, 5000)
	return c
}

// download starts a curl of n bytes at a rate, with its checksum.
func (w *world) download(t testing.TB, from, to, target string, port int, n, rate int64) *workload.Download {
	t.Helper()
	return w.downloadFrom(t, from, to, target, "", port, n, rate)
}

// downloadFrom is download from a server that is bound to one address.
func (w *world) downloadFrom(t testing.TB, from, to, target, listen string, port int,
	n, rate int64) *workload.Download {
	t.Helper()
	d, err := workload.StartDownload(w.top.Context(), w.hosts[to], w.hosts[from], w.scratch(t.Name()),
		workload.DownloadOptions{
			Name: "curl", Target: target, Port: port, Listen: listen, Bytes: n, Rate: rate, Seed: 7,
		})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Kill)
	return d
}

// shell starts an interactive ssh session.
func (w *world) shell(t testing.TB, from, to, target string, port int) *workload.Shell {
	t.Helper()
	return w.shellOn(t, from, to, target, "", port)
}

// shellOn is shell with a server that is bound to one address.
func (w *world) shellOn(t testing.TB, from, to, target, listen string, port int) *workload.Shell {
	t.Helper()
	s, err := workload.StartShell(w.top.Context(), w.hosts[to], w.hosts[from], w.scratch(t.Name()), workload.ShellOptions{
		Name: "ssh", Target: target, Port: port, Listen: listen,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	flows(t, s, 3)
	return s
}
