package main

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"

	"roam"
	"roam/internal/control"
	"roam/internal/control/controltest"
)

// teller is a daemon that tells some events and ends.
type teller struct {
	*controltest.Fake
	events []control.Event
}

func (t teller) Subscribe(context.Context) (<-chan control.Event, error) {
	ch := make(chan control.Event, len(t.events))
	for _, e := range t.events {
		ch <- e
	}
	close(ch)
	return ch, nil
}

func path2() []roam.L64 { return []roam.L64{0x2001_0db8_00ff_0001, 0x2001_0db8_00ff_0002} }

// fakeHost is a machine on which nothing happens but what a test says.
type fakeHost struct {
	root, systemd, alive bool
	unitPID              int
	ended                error // what the detached daemon ends with, nil: it stays
	onStart              func()
	output               map[string]string // by program and arguments, or by program
	files                map[string]string
	names                map[string][]netip.Addr
	programs             map[string]string // paths by name
	bare                 bool              // its directories are not there
	fail                 error
	done                 []string
}

func (h *fakeHost) note(words ...string) error {
	h.done = append(h.done, strings.Join(words, " "))
	return h.fail
}

func (h *fakeHost) Root() bool                   { return h.root }
func (h *fakeHost) Systemd(context.Context) bool { return h.systemd }
func (h *fakeHost) UnitPID(context.Context) int  { return h.unitPID }
func (h *fakeHost) Alive(int) bool               { return h.alive }
func (h *fakeHost) Tail(string) string           { return "the last line" }

func (h *fakeHost) Systemctl(_ context.Context, verb string) error {
	if h.onStart != nil && verb == "start" {
		h.onStart()
	}
	return h.note("systemctl", verb)
}

func (h *fakeHost) Roamd(_ context.Context, args ...string) error {
	return h.note(append([]string{"roamd"}, args...)...)
}

func (h *fakeHost) Detach(log string, args ...string) (<-chan error, error) {
	if h.onStart != nil {
		h.onStart()
	}
	ch := make(chan error, 1)
	if h.ended != nil {
		ch <- h.ended
	}
	return ch, h.note(append([]string{"detach"}, args...)...)
}

func (h *fakeHost) Output(_ context.Context, name string, args ...string) string {
	if out, ok := h.output[strings.Join(append([]string{name}, args...), " ")]; ok {
		return out
	}
	return h.output[name]
}

func (h *fakeHost) Program(name string) (string, error) {
	if path, ok := h.programs[name]; ok {
		return path, nil
	}
	return "", fmt.Errorf("find %s: %w", name, exec.ErrNotFound)
}

func (h *fakeHost) Exec(path string, args ...string) error {
	return h.note(append([]string{"exec", path}, args...)...)
}

func (h *fakeHost) Read(path string) string { return h.files[path] }

func (h *fakeHost) Free(dir string) (uint64, bool) { return 1 << 30, !h.bare }

func (h *fakeHost) BPF(string) bool { return !h.bare }

func (h *fakeHost) Lookup(_ context.Context, name string) []netip.Addr { return h.names[name] }

// Until asks a few times: in this world nothing takes time.
func (h *fakeHost) Until(_ context.Context, done func() bool) bool {
	for range 3 {
		if done() {
			return true
		}
	}
	return false
}
