package workload

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam/internal/testutil"
	"roam/lab/topo"
	"roam/lab/workload/fetch"
)

// pair returns two hosts that reach each other, the second by the name "cn".
func pair(t *testing.T) (mn, cn *topo.Host) {
	t.Helper()
	testutil.NeedRoot(t)
	for _, what := range []string{"netns", "cgroup2", "ipv6"} {
		testutil.Need(t, what)
	}
	lab, err := topo.New("load")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	if mn, err = lab.Host("mn"); err == nil {
		cn, err = lab.Host("cn")
	}
	if err == nil {
		err = lab.Veth(mn, "eth0", cn, "eth0")
	}
	for i, h := range []*topo.Host{mn, cn} {
		if err == nil {
			a := netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: byte(i + 1)})
			err = h.AddAddr("eth0", netip.PrefixFrom(a, 64))
		}
	}
	if err == nil {
		err = mn.AddName(netip.MustParseAddr("2001:db8::2"), "cn")
	}
	if err != nil {
		t.Fatal(err)
	}
	return mn, cn
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func progress(t *testing.T, s Session, atLeast uint64) {
	t.Helper()
	testutil.Eventually(t, 15*time.Second, func() bool { return s.State().Progress >= atLeast }, "progress of "+s.Name())
	if st := s.State(); !st.Alive || st.Last.IsZero() {
		t.Errorf("%s: state %+v", s.Name(), st)
	}
}

func TestProbesInHosts(t *testing.T) {
	mn, cn := pair(t)
	ctx, dir := within(t, 30*time.Second), t.TempDir()
	u, err := StartUDP(ctx, cn, mn, dir, UDPOptions{
		Name:   "udp",
		Target: "cn",
		Port:   7001,
		Up:     2000,
		Down:   1000,
		Size:   100,
	})
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := StartTCP(ctx, cn, mn, dir, TCPOptions{
		Name:   "tcp",
		Target: "cn",
		Port:   7002,
		Size:   1000,
		Every:  time.Millisecond,
		Down:   true,
	})
	if err != nil {
		t.Fatal(err)
	}
	progress(t, u, 1000)
	progress(t, tcp, 200_000)
	up, down, err := u.Stop(ctx, 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	epoch := time.Unix(0, 0)
	if c := up.Count(epoch, time.Now()); c.Written < 1000 || c.Lost != 0 {
		t.Errorf("up %+v", c)
	}
	if c := down.Count(epoch, time.Now()); c.Written < 400 || c.Lost != 0 {
		t.Errorf("down %+v", c)
	}
	if n := u.BufferErrors(); n != 0 {
		t.Errorf("%d datagrams refused by the receive buffers", n)
	}
	s, err := tcp.Stop(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Bytes(epoch, time.Now()); n < 200_000 {
		t.Errorf("read %d bytes", n)
	}
}

// A connection that hangs takes no time from another one, and what it delivered counts.
func TestEndWithAConnectionThatHangs(t *testing.T) {
	mn, cn := pair(t)
	ctx, dir := within(t, 60*time.Second), t.TempDir()
	o := UDPOptions{Name: "udp", Target: "cn", Port: 7001, Up: 1000, Down: 1000, Size: 100}
	u, err := StartUDP(ctx, cn, mn, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	var tcp [2]*TCP
	for i, name := range []string{"hangs", "lives"} {
		o := TCPOptions{Name: name, Target: "cn", Port: 7002 + i, Size: 1000, Every: time.Millisecond, Down: true}
		if tcp[i], err = StartTCP(ctx, cn, mn, dir, o); err != nil {
			t.Fatal(err)
		}
		progress(t, tcp[i], 200_000)
	}
	progress(t, u, 1000)
	if err := tcp[0].tx.cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	e, err := End(ctx, 3*time.Second, 100*time.Millisecond, u, tcp[:]...)
	if err != nil {
		t.Fatal(err)
	}
	if e.Broken[0] == nil || !strings.Contains(e.Broken[0].Error(), "hangs") || e.Broken[1] != nil {
		t.Errorf("broken: %v", e.Broken)
	}
	epoch := time.Unix(0, 0)
	for i, s := range e.Reads {
		if n := s.Bytes(epoch, time.Now()); n < 200_000 {
			t.Errorf("%s: read %d bytes", tcp[i].Name(), n)
		}
	}
	if c := e.Up.Count(epoch, time.Now()); c.Written < 1000 || c.Lost != 0 || e.BufferErrors != 0 {
		t.Errorf("%+v, %d refused by the receive buffers", c, e.BufferErrors)
	}
}

// The receiving end of a connection that does not end in time writes its log before it is killed.
func TestLogOfAConnectionThatHangs(t *testing.T) {
	mn, cn := pair(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	o := TCPOptions{Name: "tcp", Target: "cn", Port: 7002, Size: 1000, Every: time.Millisecond, Down: true}
	tcp, err := StartTCP(t.Context(), cn, mn, t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	progress(t, tcp, 200_000)
	rx := tcp.rx.cmd.Process
	if err := rx.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	go func() {
		<-tcp.tx.done
		_ = rx.Signal(unix.SIGCONT)
	}()
	cancel()
	s, err := tcp.Stop(ctx)
	if n := s.Bytes(time.Unix(0, 0), time.Now()); err == nil || n < 200_000 {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

func TestIperf(t *testing.T) {
	testutil.Need(t, "iperf3")
	mn, cn := pair(t)
	ctx := within(t, 30*time.Second)
	for i, udp := range []bool{false, true} {
		p, err := StartIperf(ctx, cn, mn, IperfOptions{
			Name:     "iperf",
			Target:   "cn",
			Port:     7003 + i,
			UDP:      udp,
			Mbps:     10,
			Length:   1000,
			Seconds:  1,
			Interval: 0.1,
		})
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Wait(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if r.Mbps < 5 || r.Mbps > 15 || len(r.Samples) < 8 || udp && r.Packets == 0 {
			t.Errorf("report %+v", r)
		}
		progress(t, p, 1000)
		p.Kill()
	}
}

func TestDownload(t *testing.T) {
	testutil.Need(t, "curl")
	testutil.Need(t, "python3")
	mn, cn := pair(t)
	ctx := within(t, 30*time.Second)
	d, err := StartDownload(ctx, cn, mn, t.TempDir(), DownloadOptions{
		Name:   "curl",
		Target: "cn",
		Port:   7005,
		Bytes:  300_000,
		Seed:   5,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	progress(t, d, 300_000)
	d.sum = "damaged"
	if err := d.Wait(ctx); err == nil {
		t.Error("a wrong checksum was not seen")
	}
	d.Kill()
}

// All transfers of each size are reported; one that cannot be made is an error.
func TestFetches(t *testing.T) {
	mn, cn := pair(t)
	ctx := within(t, 30*time.Second)
	opt := FetchOptions{Name: "fetch", Target: "cn", Port: 7008, Sizes: []int{1000, 200_000}, Times: 3, CC: "reno"}
	f, err := StartFetches(ctx, cn, mn, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Kill()
	output, err := f.Wait(ctx)
	if took, rerr := fetch.Read(output, opt.Sizes, 3); err != nil || rerr != nil {
		t.Errorf("%v: %v, %v", took, err, rerr)
	}
	progress(t, f, 3*201_000)
	opt.Port, opt.Target = 7009, "nobody"
	g, err := StartFetches(ctx, cn, mn, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Kill()
	if output, err := g.Wait(ctx); err == nil {
		t.Errorf("fetched from nobody: %q", output)
	}
}

func TestShell(t *testing.T) {
	testutil.Need(t, "ssh")
	testutil.Need(t, "sshd")
	mn, cn := pair(t)
	ctx := within(t, 30*time.Second)
	dir := t.TempDir()
	s, err := StartShell(ctx, cn, mn, dir, ShellOptions{Name: "ssh", Target: "cn", Port: 7006})
	if err != nil {
		t.Fatal(err)
	}
	progress(t, s, 5)
	// The account's start-up files must not decide when the session begins.
	pid, _, _ := strings.Cut(s.identity, " ")
	b, err := os.ReadFile(filepath.Join("/proc", pid, "environ"))
	home := "HOME=" + filepath.Join(dir, "ssh")
	if err != nil || !slices.Contains(strings.Split(string(b), "\x00"), home) {
		t.Errorf("the shell's home is not in the lab: %q, %v", b, err)
	}
	sshd, err := program("sshd")
	if err != nil {
		t.Fatal(err)
	}
	b, err = exec.CommandContext(ctx, sshd, "-T", "-f", filepath.Join(dir, "ssh", "sshd_config")).Output()
	if err != nil || !slices.Contains(strings.Split(string(b), "\n"), "permituserrc no") {
		t.Errorf("sshd runs the account's rc: %q, %v", b, err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for i, e := range s.Echoes() {
		if e.RTT == 0 {
			t.Errorf("line %d did not come back", i)
		}
	}
}
