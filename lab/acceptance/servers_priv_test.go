package acceptance

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"roam/internal/testutil"
)

// TestServers asks whether servers that are bound to one real address, and know
// nothing of session addresses, get the sessions of correspondents.
func TestServers(t *testing.T) {
	needs(t, "curl", "ssh", "sshd")
	w := newWorld(t, "servers", 5*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	w.cable("mn", "net2", false)
	mn, cn := w.newHost("mn", settings{}).start(), w.newHost("cn", settings{}).start()
	mn.becomes("net1")
	real, err := w.hosts["cn"].WaitAddr(w.within(patience), "net1", w.prefix("cn", 1))
	if err != nil {
		t.Fatal(err)
	}
	w.sub("refused where nobody listens", func(t *testing.T) { refused(t, w, 2300) })
	w.sub("refused by a server on an address that is on no uplink", func(t *testing.T) {
		w.must("cn", "ip", "-6", "addr", "add", "2001:db8:77::7/128", "dev", "lo", "nodad")
		w.bound(t, "cn", "2001:db8:77::7", 2301)
		refused(t, w, 2301)
	})
	w.sub("ssh and a web server go on through a move", func(t *testing.T) {
		ssh := w.shellOn(t, "mn", "cn", "cn", real.String(), 2222)
		curl := w.downloadFrom(t, "mn", "cn", "cn", real.String(), 8080, 2_000_000, 400_000)
		w.cable("mn", "net2", true)
		mn.becomes("net2")
		mn.sendsFrom("cn", "net2")
		w.cable("mn", "net1", false)
		flows(t, ssh, 10)
		ctx := w.within(60 * time.Second)
		if err := curl.Wait(ctx); err != nil {
			t.Error(err)
		}
		if err := ssh.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	for kind, addr := range map[string]string{"of the host": real.String(), "of Roam": w.wire("cn", 1).String()} {
		w.sub("the server sees its own address, one "+kind, func(t *testing.T) { seen(t, w, addr) })
	}
	if n := cn.counter("rx_listener"); n < 4 {
		t.Errorf("%d connections given to servers", n)
	}
	noLeak(t, mn, cn)
}

func refused(t *testing.T, w *world, port int) {
	t.Helper()
	c := w.talk(t, "mn", "tcp6", w.session("cn").String(), port)
	if c.connected() || !strings.Contains(c.out.text(), "refused") {
		t.Errorf("port %d: %s", port, c.out.text())
	}
}

// whoami is a server that is bound to one address and says what it knows of
// each connection: its own address and the client's.
const whoami = `import socket, sys
l = socket.create_server((sys.argv[1], int(sys.argv[2])), family=socket.AF_INET6)
while True:
    c, peer = l.accept()
    c.sendall(("%s %s %s\n" % (c.getsockname()[0], peer[0], c.getpeername()[0])).encode()); c.close()`

// bound starts whoami for the rest of the test.
func (w *world) bound(t *testing.T, name, addr string, port int) {
	t.Helper()
	ctx, cancel := context.WithCancel(w.top.Context())
	c := w.host(name).AppCommand(ctx, "python3", "-c", whoami, addr, fmt.Sprint(port))
	c.Stdout, c.Stderr = io.Discard, io.Discard
	if err := c.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = c.Wait() })
	listens(t, w, name, port)
}

func seen(t *testing.T, w *world, addr string) {
	w.bound(t, "cn", addr, 2302)
	c := w.talk(t, "mn", "tcp6", w.session("cn").String(), 2302)
	mn := w.session("mn").String()
	want := "\n" + strings.Join([]string{addr, mn, mn}, " ") + "\n"
	testutil.Eventually(t, patience, func() bool { return strings.Contains(c.out.text(), want) },
		"the server to see"+want+"so far: "+c.out.text())
}
