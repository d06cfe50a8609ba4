package ilnp

import (
	"fmt"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"roam"
	"roam/multipath"
)

// jumped is a time with a reading of the monotonic clock, whose wall clock has jumped.
func jumped(at time.Time, by time.Duration) time.Time {
	const perSecond = 1 << 30 // of the first word of a time that has such a reading
	*(*uint64)(unsafe.Pointer(&at)) += uint64(int64(by/time.Second) * perSecond)
	return at
}

// TestJumpedIsATimeOfTheSameMoment checks the helper.
func TestJumpedIsATimeOfTheSameMoment(t *testing.T) {
	now := time.Now()
	later := jumped(now, time.Hour)
	if later.Sub(now) != 0 || later.Round(0).Sub(now.Round(0)) != time.Hour {
		t.Fatalf("%v, an hour from %v", later, now)
	}
}

// Days by which wall clocks jump.
var jumps = []time.Duration{0, 24 * time.Hour, -24 * time.Hour}

// TestWallClockThatJumps: a path dies, and the wall clock jumps while it is in doubt. What is sent, and when,
// is the same as with a clock that does not jump.
func TestWallClockThatJumps(t *testing.T) {
	start := time.Now()
	run := func(jump time.Duration) (text string) {
		level := func(c *Config) { c.Liveness = func(string) multipath.Level { return multipath.Normal } }
		b := newBench(t, level, inMode(Duality))
		b.now = start
		b.prefix(1, netA, roam.Infinite)
		b.open(netP)
		b.pass(time.Second)
		b.prefix(2, netB, roam.Infinite)
		b.pass(100 * time.Millisecond)
		b.acknowledgeLast()
		step := func(n int, dead roam.L64) {
			for range n {
				b.HandleActivity(b.now, []Activity{{Key: theKey, LastTx: b.now, LastRx: b.now, Asks: true}})
				b.drain()
				for _, p := range b.probesSent() {
					text += fmt.Sprint(b.now.Sub(start), p.Src.L64, p.Dst.L64, "\n")
					if p.Src.L64 != dead {
						b.reply(p, peerNonce)
					}
				}
				b.forget()
				b.pass(10 * time.Millisecond)
			}
			text += fmt.Sprint(b.sources(), "\n")
		}
		step(200, 0)
		step(20, netA)
		b.now = jumped(b.now, jump)
		step(100, netA)
		if got := b.sources(); len(got) != 1 || got[0] != netB {
			t.Errorf("jump of %v: data leave from %v", jump, got)
		}
		step(400, 0)
		if got := b.sources(); len(got) != 2 {
			t.Errorf("jump of %v: data leave from %v after the path has come back", jump, got)
		}
		return text
	}
	want := run(0)
	for _, jump := range jumps[1:] {
		if got := run(jump); got != want {
			t.Errorf("a jump of %v changes what is sent", jump)
		}
	}
}

// TestStateBehindAJump: the wall clock jumps while the daemon runs or while it does not. What its successor
// takes from its state is as old as it is by the monotonic clock: sessions go on, and end
// and expire when they would have.
func TestStateBehindAJump(t *testing.T) {
	for _, before := range jumps {
		for _, between := range jumps {
			start := time.Now()
			boot := func(at time.Time) func(*Config) { return func(c *Config) { c.Boot = at } }
			b := newBench(t, boot(start.Add(-time.Hour)))
			b.now = start
			b.prefix(1, netA, 20*time.Minute)
			b.open(netP)
			b.pass(time.Minute)
			b.now = jumped(b.now, before)
			b.pass(time.Minute)
			b.HandleActivity(b.now, []Activity{{Key: theKey, LastTx: b.now, LastRx: b.now}})
			n := newBench(t, boot(jumped(start.Add(-time.Hour), before+between)))
			n.now = jumped(b.now, between)
			if err := n.Restore(n.now, b.Export()); err != nil {
				t.Fatal(err)
			}
			n.drain()
			s := n.sessions[theKey]
			if s == nil {
				t.Errorf("jumps of %v and %v: the session is lost", before, between)
				continue
			}
			if got := n.now.Sub(s.lastTx); got != 0 {
				t.Errorf("jumps of %v and %v: last used %v ago", before, between, got)
			}
			got, want := n.host.locals[0].expires.Sub(n.now), b.host.locals[0].expires.Sub(b.now)
			if got != want || got > 18*time.Minute {
				t.Errorf("jumps of %v and %v: the locator expires after %v", before, between, got)
			}
			if n.now = jumped(n.now, -before-between); n.now.Sub(s.lastTx) != 0 {
				t.Errorf("jumps of %v and %v: a later jump moves what was restored", before, between)
			}
		}
	}
}

// eachTime calls do for each time in a value, of slices in one element that it makes.
func eachTime(v reflect.Value, do func(*time.Time)) {
	switch {
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		eachTime(v.Index(0), do)
	case v.Type() == reflect.TypeFor[time.Time]():
		do(v.Addr().Interface().(*time.Time))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			eachTime(v.Field(i), do)
		}
	}
}

// TestEachTimeIsMoved: each time of a state but the beginning itself is moved, wherever it is; what is
// never stays so.
func TestEachTimeIsMoved(t *testing.T) {
	at := time.Unix(1000, 0)
	var st savedState
	all := reflect.ValueOf(&st).Elem()
	eachTime(all, func(x *time.Time) { *x = at })
	st.rebase(at, at.Add(time.Hour))
	n, still := 0, 0
	eachTime(all, func(x *time.Time) {
		if n++; !x.Equal(at.Add(time.Hour)) {
			still++
		}
	})
	if n < 15 || still != 1 {
		t.Errorf("%d of %d times stay, want the beginning alone", still, n)
	}
	var none savedState
	if none.rebase(at, at.Add(time.Hour)); !reflect.DeepEqual(none, savedState{}) {
		t.Errorf("%+v", none)
	}
}

// TestReadingsOfOneBeginning: two processes read the beginning of the monotonic clock a little apart. Times
// stay the same to the nanosecond over any number of restarts, as users see them and as they are saved.
func TestReadingsOfOneBeginning(t *testing.T) {
	start := time.Now()
	read := func(n int) func(*Config) {
		return func(c *Config) { c.Boot = start.Add(-time.Hour + time.Duration(n)*617*time.Nanosecond) }
	}
	b := newBench(t, read(0))
	b.now = start
	b.prefix(1, netA, 20*time.Minute)
	b.open(netP)
	since := b.sessions[theKey].started.Round(0)
	for n := range 3 {
		next := newBench(t, read(n+1))
		next.now = b.now
		if err := next.Restore(next.now, b.Export()); err != nil {
			t.Fatal(err)
		}
		b = next
		if got := b.sessions[theKey].started.Round(0); !got.Equal(since) {
			t.Fatalf("restart %d: the session began at %v, before at %v", n+1, got, since)
		}
	}
}

// TestShownTimesStay: the two clocks are read one after the other, so that the wall clock of two instants
// differs by some nanoseconds more or less than the monotonic one. When a session began is shown by the
// wall clock, and stays as it was shown.
func TestShownTimesStay(t *testing.T) {
	boot := time.Now()
	apart := func(at time.Time) time.Duration { return at.Round(0).Sub(boot.Round(0)) - at.Sub(boot) }
	start := time.Now()
	for range 1_000_000 {
		if apart(start) != 0 {
			break
		}
		start = time.Now()
	}
	if apart(start) == 0 {
		t.Fatal("a million readings of both clocks did not differ")
	}
	config := func(c *Config) { c.Boot = boot }
	b := newBench(t, config)
	b.now = start
	b.prefix(1, netA, 20*time.Minute)
	b.open(netP)
	since, local := b.sessions[theKey].started.Round(0), b.host.locals[0].since.Round(0)
	next := newBench(t, config)
	next.now = b.now
	if err := next.Restore(next.now, b.Export()); err != nil {
		t.Fatal(err)
	}
	if got := next.sessions[theKey].started.Round(0); !got.Equal(since) {
		t.Errorf("the session began at %v, before at %v", got, since)
	}
	if got := next.host.locals[0].since.Round(0); !got.Equal(local) {
		t.Errorf("the locator is there since %v, before since %v", got, local)
	}
}
