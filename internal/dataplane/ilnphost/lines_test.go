package ilnphost

import (
	"testing"
	"time"

	"roam/internal/dataplane"
)

// TestLineOf says what the line of an entry lets by.
func TestLineOf(t *testing.T) {
	const (
		base = bpfSettledFlagsSETTLED_WRITTEN
		out  = bpfSettledFlagsSETTLED_OUT_UDP | bpfSettledFlagsSETTLED_OUT_TCP
		in   = bpfSettledFlagsSETTLED_IN | bpfSettledFlagsSETTLED_IN_FIRST
	)
	flagged := func(f bpfEntryFlags) func(*bpfSessionEntry) {
		return func(p *bpfSessionEntry) { p.Flags = f }
	}
	for what, c := range map[string]struct {
		change func(*bpfSessionEntry)
		want   bpfSettledFlags
	}{
		"settled":             {func(*bpfSessionEntry) {}, base | out | in},
		"no path":             {func(p *bpfSessionEntry) { p.N_paths = 0 }, base | in},
		"two paths":           {func(p *bpfSessionEntry) { p.N_paths = 2 }, base | bpfSettledFlagsSETTLED_OUT_PATHS | in},
		"plain flows":         {flagged(bpfEntryFlagsENTRY_PLAIN_FLOWS), base | bpfSettledFlagsSETTLED_OUT_UDP | in},
		"another unvalidated": {func(p *bpfSessionEntry) { p.Unvalidated = 2 }, base | in},
		"unvalidated":         {func(p *bpfSessionEntry) { p.Unvalidated = 1 }, base | bpfSettledFlagsSETTLED_IN},
		"only accepted":       {func(p *bpfSessionEntry) { p.N_remote = 0 }, base | out | bpfSettledFlagsSETTLED_IN},
		"no locator": {func(p *bpfSessionEntry) { p.Remote[0] = bpfHalf{} },
			base | out | bpfSettledFlagsSETTLED_IN},
		"initiated":            {flagged(bpfEntryFlagsENTRY_INITIATED), base},
		"plain":                {flagged(bpfEntryFlagsENTRY_PLAIN), base},
		"dead":                 {flagged(bpfEntryFlagsENTRY_DEAD), base},
		"rule sought":          {flagged(bpfEntryFlagsENTRY_RULE_SOUGHT), base | out | in},
		"nonce always":         {flagged(bpfEntryFlagsENTRY_NONCE_ALWAYS), base | in},
		"encapsulated":         {flagged(bpfEntryFlagsENTRY_ENCAP), base | in},
		"the rule of RFC 6741": {flagged(bpfEntryFlagsENTRY_RFC6741), base | out | bpfSettledFlagsSETTLED_RFC6741},
		"by alias":             {flagged(bpfEntryFlagsENTRY_BY_ALIAS), base | out | bpfSettledFlagsSETTLED_BY_ALIAS},
		"preinstalled": {flagged(bpfEntryFlagsENTRY_PREINSTALLED),
			base | in | bpfSettledFlagsSETTLED_PREINSTALLED},
		"real sockets": {flagged(bpfEntryFlagsENTRY_REAL_SOCKETS),
			base | out | in | bpfSettledFlagsSETTLED_REAL_SOCKETS},
	} {
		row := bpfSessionEntry{Seq: 0xfff0, Birth: 0x20, N_paths: 1, N_remote: 1, First: 3 << 4, NidDelta: [2]byte{1, 2}}
		row.Remote[0] = half(uint64(there))
		c.change(&row)
		word := uint64(0x10) | 0x0201<<16 | 0x30<<32 | uint64(c.want)<<48
		if l := lineOf(row); l.Settled != word || l.Remote != row.Remote[0] {
			t.Errorf("%s: %x to %v, want %x", what, l.Settled, l.Remote, word)
		}
	}
}

// The counters of a session do not go down while a program moves them, but begin anew with
// another session.
func TestCountedNeverLess(t *testing.T) {
	at := func(birth uint32, n uint64) (s seen) {
		s.Birth, s.TxPackets, s.TxBytes, s.RxPackets, s.RxBytes = birth, n, n, n, n
		return s
	}
	c := counted{}
	for _, step := range []struct {
		birth  uint32
		n, all uint64
	}{{1, 10, 10}, {1, 4, 10}, {1, 12, 12}, {2, 3, 3}} {
		c = c.atLeast(at(step.birth, step.n))
		if want := (counted{step.birth, step.all, step.all, step.all, step.all}); c != want {
			t.Errorf("%+v after %+v, want %+v", c, step, want)
		}
	}
}

// Ticks of the last 52 days, and of the moment after the look at the clock, are told apart.
func TestMomentOf(t *testing.T) {
	now := dataplane.Monotonic(time.Now()) + uint64(60*24*time.Hour)
	const day = 24 * time.Hour
	for _, ago := range []time.Duration{0, 20 * time.Millisecond, time.Second, time.Hour, 30 * day, 49 * day,
		-time.Second} {
		at := now - uint64(ago)
		got := momentOf(uint32(at>>20), now)
		if early := dataplane.Instant(at).Sub(got); early < 0 || early > 1<<20 {
			t.Errorf("%v ago: %v too early", ago, early)
		}
	}
	if got := momentOf(0, now); !got.IsZero() {
		t.Errorf("never is %v", got)
	}
}

// TestLineOfAHeldEntry: to write the line of an entry with ENTRY_HELD keeps what programs have counted in it, and it
// opens for that count alone.
func TestLineOfAHeldEntry(t *testing.T) {
	lines := &lineTable{lines: make([]bpfSessionLive, 2)}
	row := bpfSessionEntry{Slot: 1, Flags: bpfEntryFlagsENTRY_HELD}
	lines.lines[1].Settled = 3
	lines.write(row)
	row.Flags = 0
	word := lines.prepare(row)
	if lines.open(1, 2, word) || !lines.open(1, 3, word) || lines.lines[1].Settled != word {
		t.Errorf("the word is %x, want %x", lines.lines[1].Settled, word)
	}
}
