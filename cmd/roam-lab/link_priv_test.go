package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/topo"
)

// TestLink runs the verb between two namespaces, tells it something while it
// runs, and ends it as an interrupt does.
func TestLink(t *testing.T) {
	testutil.NeedRoot(t)
	for _, what := range []string{"netns", "cgroup2", "/dev/net/tun"} {
		testutil.Need(t, what)
	}
	lab, err := topo.New("verb")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	}()
	a, err := lab.Host("a")
	if err != nil {
		t.Fatal(err)
	}
	b, err := lab.Host("b")
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	w := newWorld(t)
	w.Out, w.Err, w.JSON = &out, &errs, true
	in, say := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- w.link(ctx, []string{a.ID() + "/wan0", b.ID() + "/wan0", "delay=5ms", "ba:loss=1%"}, []string{"10ms down"}, in)
	}()
	for _, line := range []string{"nonsense\n", "\n"} { // the second is read when the first is dealt with
		if _, err := say.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	testutil.Eventually(t, 10*time.Second, func() bool {
		up, err := a.Carrier("wan0")
		return err == nil && !up
	}, "the scheduled change is not made")
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := a.Carrier("wan0"); err == nil {
		t.Error("the device stays")
	}
	var counts linkCounts
	if err := json.Unmarshal(out.Bytes(), &counts); err != nil {
		t.Errorf("%v: %q", err, out.String())
	}
	if !strings.Contains(errs.String(), "nonsense") {
		t.Errorf("a wrong word was not complained about: %q", errs.String())
	}
}
