package ilnphost

import (
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam/internal/testutil"
)

// Connections are listed by their addresses, without the listener; one whose
// segments vanish says so once its time-out has doubled, with the sequence number
// that it waits for.
func TestConnections(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "nft")
	testutil.Need(t, "ip")
	// Never unlocked: the thread and its namespace end with the test.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	run := func(argv ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", argv, err, out)
		}
	}
	run("ip", "link", "set", "lo", "up")
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var conns [2]net.Conn
	for i := range conns {
		if conns[i], err = net.Dial("tcp6", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
	}
	local := netip.MustParseAddrPort(conns[0].LocalAddr().String())
	run("nft", "add table ip6 t; add chain ip6 t i { type filter hook input priority 0; }; add rule ip6 t i tcp sport "+
		conns[0].LocalAddr().String()[len("[::1]:"):]+" drop")
	if _, err := conns[0].Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	p := &Plane{}
	list := map[netip.AddrPort]Connection{}
	testutil.Eventually(t, 10*time.Second, func() bool {
		all, err := p.Connections(0)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			list[c.Local] = c
		}
		return list[local].Backoff > 0
	}, "nothing stalls")
	c := list[local]
	if c.Remote.String() != l.Addr().String() || !c.Open || c.Unacked == 0 || c.Next != c.Unacked+1 || c.Arrived == 0 {
		t.Errorf("stalled: %+v", c)
	}
	other := list[netip.MustParseAddrPort(conns[1].LocalAddr().String())]
	if other.Backoff != 0 || !other.Open || other.Next != other.Unacked {
		t.Errorf("not stalled: %+v", other)
	}
	if len(list) != 3 { // three ends: those of the server have one address and port
		t.Errorf("listed: %v", list)
	}
	wantRest(t, conns[1])
	if none, err := p.Connections(1); err != nil || len(none) != 0 {
		t.Errorf("with another prefix: %v, %v", none, err)
	}
}

// wantRest fails unless a connection rests the longer the longer nothing is sent, and not any more when
// something is.
func wantRest(t *testing.T, conn net.Conn) {
	t.Helper()
	at := netip.MustParseAddrPort(conn.LocalAddr().String())
	rest := func() time.Duration {
		all, err := (&Plane{}).Connections(0)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(c Connection) bool { return c.Local == at })
		if i < 0 || all[i].Rest < 0 || all[i].Rest > time.Minute {
			t.Fatalf("listed: %+v", all)
		}
		return all[i].Rest
	}
	first := rest()
	testutil.Eventually(t, 10*time.Second, func() bool { return rest() > first+100*time.Millisecond }, "it does not rest")
	rested := rest()
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, 10*time.Second, func() bool { return rest() < rested }, "it rests on")
}
