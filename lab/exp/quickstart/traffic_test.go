package quickstart

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"roam/lab/exp/exptest"
	"roam/lab/workload"
	"roam/lab/workload/udpflow"
)

// application is one in a state.
type application struct {
	name  string
	state workload.State
}

func (a *application) Name() string          { return a.name }
func (a *application) State() workload.State { return a.state }

// Traffic flows when every application delivers; those that do not are named, with their state.
func TestFlowing(t *testing.T) {
	ssh := &application{"ssh", workload.State{Progress: 1}}
	udp := &application{"UDP probe", workload.State{Alive: true, Detail: "0 datagrams"}}
	tr := &traffic{}
	var killed []string
	for _, a := range []*application{ssh, udp} {
		tr.add(a, func() { killed = append(killed, a.name) })
	}
	names, details := tr.silent()
	if tr.flowing() || !slices.Equal(names, []string{"UDP probe"}) ||
		!slices.Equal(details, []string{"UDP probe (running: true) 0 datagrams"}) {
		t.Errorf("flowing although silent: %q, %q", names, details)
	}
	udp.state.Progress = 1
	if names, _ := tr.silent(); !tr.flowing() || len(names) > 0 {
		t.Errorf("silent although flowing: %q", names)
	}
	rows := tr.board()
	if len(rows) != 2 || rows[0].Name != "ssh" || rows[1].Detail != "0 datagrams" || len(tr.curlGrew) > 0 {
		t.Errorf("rows %+v, the download grew %v", rows, tr.curlGrew)
	}
	tr.kill()
	tr.kill()
	if !slices.Equal(killed, []string{"ssh", "UDP probe"}) {
		t.Errorf("killed %q", killed)
	}
}

// A session that hangs takes no time from those that end after it.
func TestEndAll(t *testing.T) {
	tr := &traffic{outcome: map[string]error{}}
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	ends := func(ctx context.Context) error { return ctx.Err() }
	tr.endAll(t.Context(), 20*time.Millisecond, []ending{{&application{name: "ssh"}, hangs},
		{&application{name: "curl"}, ends}})
	if len(tr.outcome) != 2 || !errors.Is(tr.outcome["ssh"], context.DeadlineExceeded) || tr.outcome["curl"] != nil {
		t.Errorf("%v", tr.outcome)
	}
}

// The download grows when there is more of it than before, and no other application's progress counts.
func TestDownloadGrows(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	curl, ssh := &application{name: "curl"}, &application{name: "ssh"}
	tr := &traffic{sessions: []workload.Session{ssh, curl}}
	for i, n := range []uint64{0, 5, 5, 9} {
		ssh.state.Progress = uint64(i)
		curl.state = workload.State{Progress: n, Last: at(int64(i))}
		tr.board()
	}
	if !slices.Equal(tr.curlGrew, []time.Time{at(1), at(3)}) || tr.curlSize != 9 {
		t.Errorf("grew at %v to %d bytes", tr.curlGrew, tr.curlSize)
	}
}

// The UDP probe is alive if what was sent in the last half second arrived, each way.
func TestUDPOutcome(t *testing.T) {
	const ms = time.Millisecond
	until := func(last time.Duration) *udpflow.Flow {
		return exptest.UDP(t, 2*time.Second, 10*ms, ms, func(d *exptest.Datagram) { d.Lost = d.At > last })
	}
	whole, near, far, none := until(time.Hour), until(1500*ms), until(1480*ms), until(-1)
	unsent := exptest.UDP(t, 0, ms, ms, nil)
	for name, c := range map[string]struct {
		up, down *udpflow.Flow
		says     string
	}{
		"whole":           {whole, near, ""},
		"out ends":        {far, whole, "nothing sent in the last 510ms went out"},
		"in ends":         {whole, far, "nothing sent in the last 510ms went in"},
		"nothing out":     {none, whole, "nothing went out"},
		"nothing in":      {whole, none, "nothing went in"},
		"nothing is sent": {unsent, whole, "nothing went out"},
	} {
		err := (&traffic{flowUp: c.up, flowDown: c.down}).udpOutcome()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
