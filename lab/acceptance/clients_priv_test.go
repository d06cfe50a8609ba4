package acceptance

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	"roam/internal/testutil"
	"roam/lab/workload"
)

// agent starts a probe of this package on a host for the rest of the test.
func (w *world) agent(t testing.TB, name string, out io.Writer, args ...string) io.WriteCloser {
	t.Helper()
	argv, err := workload.Agent(args...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.top.Context())
	c := w.host(name).AppCommand(ctx, argv...)
	c.Stdout, c.Stderr = out, out
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	return in
}

// said collects what a client says.
type said struct {
	mu sync.Mutex
	b  strings.Builder
}

// Write implements io.Writer.
func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// clear forgets all but that the connection was made.
func (s *said) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, _, _ := strings.Cut(s.b.String(), "\n")
	s.b.Reset()
	s.b.WriteString(first + "\n")
}

// client is a connection that sends the lines it gets.
type client struct {
	in  io.WriteCloser
	out said
	ms  int // how long the connection took
}

// talk connects to a name or an address, and waits for the outcome.
func (w *world) talk(t testing.TB, from, network, to string, port int) *client {
	t.Helper()
	target := to + ":" + strconv.Itoa(port)
	if a, err := netip.ParseAddr(to); err == nil {
		target = netip.AddrPortFrom(a, uint16(port)).String()
	}
	c := &client{}
	c.in = w.agent(t, from, &c.out, "talk", network, target)
	testutil.Eventually(t, patience, func() bool { return strings.Contains(c.out.text(), "\n") },
		"outcome of the connection to "+target)
	first, _, _ := strings.Cut(c.out.text(), "\n")
	if f := strings.Fields(first); len(f) == 5 && f[0] == "connected" {
		c.ms, _ = strconv.Atoi(f[3])
	}
	return c
}

// connected reports whether the connection was made.
func (c *client) connected() bool { return strings.HasPrefix(c.out.text(), "connected ") }

// echoed sends a word and waits until it comes back.
func (c *client) echoed(t testing.TB, word string) {
	t.Helper()
	c.say(t, word)
	testutil.Eventually(t, patience, func() bool { return c.heard(word) }, "echo of "+word+"; so far: "+c.out.text())
}

func (c *client) say(t testing.TB, word string) {
	t.Helper()
	if _, err := fmt.Fprintln(c.in, word); err != nil {
		t.Fatal(err)
	}
}

func (c *client) heard(word string) bool { return strings.Contains(c.out.text(), "\n"+word+"\n") }

// echo starts an echo server on a host.
func (w *world) echo(t testing.TB, name string, port int) {
	t.Helper()
	w.agent(t, name, io.Discard, "echo", strconv.Itoa(port))
	listens(t, w, name, port)
}

// listens waits for a TCP listener on a host.
func listens(t testing.TB, w *world, name string, port int) {
	t.Helper()
	testutil.Eventually(t, patience, func() bool {
		out, err := w.run(name, "ss", "-ltnH", "sport", "=", ":"+strconv.Itoa(port))
		return err == nil && strings.Contains(out, "LISTEN")
	}, fmt.Sprintf("a listener on port %d of %s", port, name))
}

// serve starts a web server on a host for the rest of the test.
func (w *world) serve(t testing.TB, name string, port int) {
	t.Helper()
	ctx, cancel := context.WithCancel(w.top.Context())
	c := w.hosts[name].AppCommand(ctx, "python3", "-m", "http.server", "--bind", "::", "--directory",
		w.scratch("www"), strconv.Itoa(port))
	if err := c.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = c.Wait() })
	listens(t, w, name, port)
}
