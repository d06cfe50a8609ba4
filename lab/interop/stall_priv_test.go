package interop

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"roam/internal/testutil"
)

// Of the watch for connections that stand still.
const (
	stallMinutes = "ROAM_STALL_MINUTES" // how long it runs, in the environment; else stallBrief
	stallBrief   = 15 * time.Second
	// in which a round trip of a connection must end: a hand-off costs a time-out of 1 s at most
	stallMost   = 4 * time.Second
	stallMoves  = time.Second
	stallPauses = 2 * time.Second // between pauses in which the peer draws a new nonce
	stallRenew  = time.Second
)

// TestNoConnectionStandsStill keeps two TCP connections busy, one begun from either
// side, through moves and through renewals of the peer's nonce. Each round trip on
// each of them has to end in time. Where one does not, everything that counts is
// logged as it was before and as it is.
func TestNoConnectionStandsStill(t *testing.T) {
	last := stallBrief
	if s := os.Getenv(stallMinutes); s != "" {
		minutes, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("%s: %v", stallMinutes, err)
		}
		last = time.Duration(minutes) * time.Minute
	}
	for name, c := range map[string]struct {
		stack   Stack
		options string
	}{
		"found": {Stack{NonceAlways: true, NIDChecksums: true, RenewAfter: stallRenew, PortUnreachable: true}, ""},
		"listed": {Stack{NonceAlways: true, NIDChecksums: true, RenewAfter: stallRenew, PortUnreachable: true},
			"checksum=rfc6741 nonce=always"},
	} {
		t.Run(name, func(t *testing.T) { newStall(t, c.options, c.stack).run(last / 2) })
	}
}

// stall is the watch over some connections.
type stall struct {
	*world
	paused  atomic.Bool
	rounds  map[string]*round
	before  map[string]uint64
	longest time.Duration
}

// round is what one connection does: a chunk goes and comes back, again and again.
type round struct {
	begun atomic.Int64 // start of the current one, in ns; 0: none
	count atomic.Int64
	err   atomic.Pointer[error]
}

func newStall(t *testing.T, options string, stack Stack) *stall {
	w := newWorld(t, "soft", options, stack)
	s := &stall{world: w, rounds: map[string]*round{"begun here": {}, "begun there": {}}}
	here := w.dial("tcp6", EchoPort)
	if err := here.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	w.listen(7001)
	w.peer.Open(nidRoam, uint64(locator(netRoam[1])))
	there, err := w.peer.Dial(nidRoam, 7001)
	if err != nil {
		t.Fatal(err)
	}
	w.eventually("a connection to Roam", there.Opened)
	s.before = s.counts()
	chunk := make([]byte, 1000)
	go s.repeat(s.rounds["begun here"], func() error {
		if _, err := here.Write(chunk); err != nil {
			return err
		}
		_, err := io.ReadFull(here, make([]byte, len(chunk)))
		return err
	})
	go s.repeat(s.rounds["begun there"], func() error {
		want := there.Received() + len(chunk)
		there.Write(chunk)
		if !testutil.Wait(time.Hour, func() bool { return there.Received() >= want || w.ctx.Err() != nil }) {
			return os.ErrDeadlineExceeded
		}
		return w.ctx.Err()
	})
	return s
}

// repeat begins a round each millisecond at most, but for pauses.
func (s *stall) repeat(r *round, once func() error) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if s.ctx.Err() != nil {
			return
		}
		if s.paused.Load() {
			continue
		}
		r.begun.Store(time.Now().UnixNano())
		if err := once(); err != nil {
			r.err.Store(&err)
			return
		}
		r.begun.Store(0)
		r.count.Add(1)
	}
}

// run watches, moves and pauses.
func (s *stall) run(last time.Duration) {
	began := time.Now()
	moved, paused, verb := began, began, "disable"
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for now := range tick.C {
		if now.Sub(began) > last {
			break
		}
		s.look(now)
		if now.Sub(moved) > stallMoves {
			s.ask("locator", verb, "net2")
			verb = map[string]string{"disable": "enable", "enable": "disable"}[verb]
			moved = now
		}
		switch since := now.Sub(paused); {
		case since > stallPauses+2*stallRenew:
			paused = now
			s.paused.Store(false)
		case since > stallPauses:
			s.paused.Store(true)
		}
	}
	for name, r := range s.rounds {
		s.Logf("%s: %d rounds", name, r.count.Load())
		if r.count.Load() == 0 {
			s.Errorf("%s: no round ended", name)
		}
	}
	s.Logf("longest round %v; grown by then: %s", s.longest.Round(time.Millisecond), grown(s.before, s.counts()))
}

// look fails when a round takes too long.
func (s *stall) look(now time.Time) {
	s.Helper()
	for name, r := range s.rounds {
		if err := r.err.Load(); err != nil {
			s.Fatalf("%s: %v", name, *err)
		}
		begun := r.begun.Load()
		if begun == 0 {
			continue
		}
		took := now.Sub(time.Unix(0, begun))
		s.longest = max(s.longest, took)
		if took > stallMost {
			s.evidence(name)
		}
	}
}

// evidence logs what may say why, and ends the test.
func (s *stall) evidence(name string) {
	s.Helper()
	for range 2 { // the second one shows growth
		s.Logf("grown: %s", grown(s.before, s.counts()))
		for _, argv := range [][]string{{"ss", "-6tinmo"}, {"cat", "/proc/loadavg", "/proc/net/softnet_stat"}} {
			out, err := s.mn.Command(s.ctx, argv...).Output()
			s.Logf("%v (%v):\n%s", argv, err, out)
		}
		s.Logf("session:\n%s", s.ask("session", "show", "peer"))
	}
	s.Fatalf("%s: a round trip has taken more than %v", name, stallMost)
}

// counts are those of Roam and of the kernel's stack.
func (s *stall) counts() map[string]uint64 {
	s.Helper()
	all, err := s.roam.Counts(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	err = s.mn.Do(func() error {
		for _, file := range []string{"snmp6", "netstat", "snmp"} {
			b, err := os.ReadFile("/proc/thread-self/net/" + file)
			if err != nil {
				return err
			}
			readCounts(all, string(b))
		}
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
	return all
}

// readCounts reads a file of the kernel's counters: lines of a name and a number, or
// pairs of lines, names over numbers.
func readCounts(into map[string]uint64, text string) {
	var names []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) == 2:
			into[f[0]], _ = strconv.ParseUint(f[1], 10, 64)
		case len(names) == len(f) && names[0] == f[0]:
			for i, v := range f[1:] {
				into[f[0]+names[i+1]], _ = strconv.ParseUint(v, 10, 64)
			}
			names = nil
		default:
			names = f
		}
	}
}

// grown lists what has grown.
func grown(before, after map[string]uint64) string {
	var b strings.Builder
	for name, n := range after {
		if d := n - before[name]; n > before[name] {
			fmt.Fprintf(&b, " %s+%d", name, d)
		}
	}
	return b.String()
}
