package ilnp

import (
	"math"
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

var (
	viaA = Path{Local: roam.LinkLocator{Link: 1, L64: netA}, Remote: netP}
	viaB = Path{Local: roam.LinkLocator{Link: 2, L64: netB}, Remote: netP}
	setA = []listed{{netA, preferActive}}
	both = []listed{{netB, preferActive}, {netA, preferValid}}
)

// lasting is what becomes of our locators: each lasts for so long after epoch.
func lasting(ends map[roam.L64]time.Duration) expiry {
	return func(_ time.Time, l roam.L64) (time.Time, bool) {
		d, ok := ends[l]
		return deadline(epoch, d), ok
	}
}

var forEver = lasting(map[roam.L64]time.Duration{netA: roam.Infinite, netB: roam.Infinite})

// ackOf acknowledges a transmission.
func ackOf(lu ilnpwire.LocatorUpdate) ilnpwire.LocatorUpdate { return lu.Ack() }

// exchanged is an exchange of a set that was transmitted once.
func exchanged(list []listed, ends expiry) (*exchange, ilnpwire.LocatorUpdate) {
	u := &exchange{}
	u.begin(epoch, list, []Path{viaA})
	u.transmit(epoch, viaA, 1)
	return u, u.compose(epoch, ilnpwire.FormRFC, false, ends)
}

// Retransmissions double from one and a half round trips; another link than the one that
// was measured gets patience once; an exchange that was given up goes on slowly.
func TestExchangeRetransmits(t *testing.T) {
	for name, test := range map[string]struct {
		rtt  time.Duration
		of   roam.LinkLocator
		want []time.Duration
	}{
		"unknown":      {0, roam.LinkLocator{}, []time.Duration{updateGuess, 2 * updateGuess, 4 * updateGuess}},
		"short":        {10 * ms, viaA.Local, []time.Duration{updateMin, 2 * updateMin, 4 * updateMin}},
		"long":         {600 * ms, viaA.Local, []time.Duration{900 * ms, 1800 * ms, 3600 * ms}},
		"another link": {10 * ms, viaB.Local, []time.Duration{updatePatient, 2 * updateMin, 4 * updateMin}},
	} {
		u := &exchange{}
		u.begin(epoch, setA, []Path{viaA})
		for i, want := range test.want {
			u.transmit(epoch, viaA, 1)
			if got := u.wait(test.rtt, test.of); got != want {
				t.Errorf("%s: %v after transmission %d, want %v", name, got, i+1, want)
			}
		}
		for u.tries < updateTries {
			if u.giveUp() {
				t.Fatalf("%s: given up after %d", name, u.tries)
			}
			u.transmit(epoch, viaA, 1)
		}
		if got := u.wait(test.rtt, test.of); got > updateMax {
			t.Errorf("%s: waits %v", name, got)
		}
		if !u.giveUp() || u.giveUp() || u.state != slow || u.wait(test.rtt, test.of) != updateSlowly {
			t.Errorf("%s: not given up once: %v", name, u.state)
		}
	}
}

// The newest set wins: what acknowledges another one makes the exchange doubtful.
func TestExchangeAcknowledged(t *testing.T) {
	u, lu := exchanged(setA, forEver)
	if got := (&exchange{}).ack(ackOf(lu)); got != ackUnexpected {
		t.Errorf("an acknowledgement of nothing: %v", got)
	}
	older := ackOf(lu)
	if got := u.ack(older); got != ackNew || u.state != acknowledged || u.doubtful {
		t.Errorf("acknowledged: %v, %+v", got, u)
	}
	if got := u.ack(older); got != ackAgain || u.state != acknowledged {
		t.Errorf("again: %v", got)
	}
	u.begin(epoch, both, []Path{viaB})
	u.transmit(epoch, viaB, 1)
	if got := u.ack(older); got != ackOlder || u.state != awaiting || !u.doubtful {
		t.Errorf("an older set: %v, doubtful %v", got, u.doubtful)
	}
	newest := ackOf(u.compose(epoch, ilnpwire.FormRFC, false, forEver))
	if got := u.ack(newest); got != ackNew || !u.doubtful {
		t.Errorf("the newest: %v, doubtful %v", got, u.doubtful)
	}
	if got := u.ack(older); got != ackOlder || u.state != acknowledged {
		t.Errorf("an older set after it: %v, %v", got, u.state)
	}
	for i, change := range []func(*ilnpwire.LocatorEntry){
		func(e *ilnpwire.LocatorEntry) { e.Preference++ },
		func(e *ilnpwire.LocatorEntry) { e.L64 = netC },
		func(e *ilnpwire.LocatorEntry) { e.Lifetime = 0 },
	} {
		forged := newest
		forged.Locators = slices.Clone(newest.Locators)
		if change(&forged.Locators[0]); u.matches(forged) {
			t.Errorf("change %d matches", i)
		}
	}
}

// A set that replaces one which is on its way leaves doubt which of them is taken last.
func TestExchangeReplaced(t *testing.T) {
	u, _ := exchanged(setA, forEver)
	if u.begin(epoch, setA, nil); u.doubtful {
		t.Error("the same set again is no other")
	}
	if u.begin(epoch, both, nil); !u.doubtful {
		t.Error("another set overtakes without doubt")
	}
	u, lu := exchanged(setA, forEver)
	u.ack(ackOf(lu))
	if u.begin(epoch, both, nil); u.doubtful {
		t.Error("what was acknowledged cannot arrive later")
	}
	for state, want := range map[exchangeState]exchangeState{
		untold: untold, awaiting: suspended, slow: suspended, suspended: suspended, acknowledged: acknowledged,
	} {
		u := exchange{state: state}
		if u.suspend(); u.state != want {
			t.Errorf("without a locator %v becomes %v", state, u.state)
		}
	}
}

// Each locator is told with what is left of it, in what its form can hold.
func TestExchangeComposes(t *testing.T) {
	ends := lasting(map[roam.L64]time.Duration{netA: 90 * time.Second, netB: roam.Infinite})
	list := []listed{{netA, 10}, {netB, 20}, {netC, 30}}
	for _, test := range []struct {
		form ilnpwire.Form
		hard bool
		code uint8
		want []uint32
	}{
		{ilnpwire.FormRFC, false, 0, []uint32{80, math.MaxUint16, 1}},
		{ilnpwire.FormRFC, true, 0, []uint32{80, math.MaxUint16, 1}},
		{ilnpwire.FormDraft, false, ilnpwire.CodeReplaceSoft, []uint32{80, math.MaxUint32, 1}},
		{ilnpwire.FormDraft, true, ilnpwire.CodeReplaceHard, []uint32{80, math.MaxUint32, 1}},
	} {
		u := &exchange{}
		u.begin(epoch, list, nil)
		lu := u.compose(epoch.Add(10*time.Second), test.form, test.hard, ends)
		var got []uint32
		for _, e := range lu.Locators {
			got = append(got, e.Lifetime)
		}
		if lu.Code != test.code || lu.Operation != ilnpwire.Advertisement || !slices.Equal(got, test.want) {
			t.Errorf("%v, hard %v: code %d, lifetimes %v", test.form, test.hard, lu.Code, got)
		}
	}
}

// Lifetimes are told again when they were renewed, and looked at until they are over.
func TestExchangeRenews(t *testing.T) {
	u, lu := exchanged(setA, lasting(map[roam.L64]time.Duration{netA: 100 * time.Second}))
	u.ack(ackOf(lu))
	for alias, want := range map[roam.NID]time.Duration{0: 60 * time.Second, 15: 75 * time.Second, 16: 60 * time.Second} {
		if got := u.renewAt(alias).Sub(epoch); got != want {
			t.Errorf("of %v renewed after %v, want %v", alias, got, want)
		}
	}
	for name, test := range map[string]struct {
		after time.Duration
		ends  map[roam.L64]time.Duration
		want  bool
	}{
		"unchanged":                   {60 * time.Second, map[roam.L64]time.Duration{netA: 100 * time.Second}, false},
		"renewed":                     {60 * time.Second, map[roam.L64]time.Duration{netA: 160 * time.Second}, true},
		"renewed for ever":            {60 * time.Second, map[roam.L64]time.Duration{netA: roam.Infinite}, true},
		"renewed by little":           {60 * time.Second, map[roam.L64]time.Duration{netA: 120 * time.Second}, false},
		"renewed by little, at last":  {80 * time.Second, map[roam.L64]time.Duration{netA: 105 * time.Second}, true},
		"renewed by a rounding error": {80 * time.Second, map[roam.L64]time.Duration{netA: 101 * time.Second}, false},
		"gone":                        {60 * time.Second, nil, false},
	} {
		if got := u.isStale(epoch.Add(test.after), lasting(test.ends), math.MaxUint16*time.Second); got != test.want {
			t.Errorf("%s: stale %v", name, got)
		}
	}
	if d := u.lookAgain(epoch.Add(60 * time.Second)); d != 10*time.Second {
		t.Errorf("looks again in %v", d)
	}
	if d := u.lookAgain(epoch.Add(200 * time.Second)); d != 0 {
		t.Errorf("looks again in %v at what is over", d)
	}
	if u, lu = exchanged(setA, lasting(nil)); u.lookAgain(epoch) != 0 || u.isStale(epoch, forEver, roam.Infinite) {
		t.Error("renews what was not acknowledged")
	}
	u = &exchange{}
	if u.ack(lu); !u.renewAt(1).IsZero() {
		t.Error("renews nothing")
	}
}

// Each path gets both rules in turn, and an exchange that was given up the other than the
// one that was shown.
func TestExchangeTurnsTheRule(t *testing.T) {
	for name, test := range map[string]struct {
		f    profile
		ways int
		give bool
		want []bool
	}{
		"sought, one path":   {profile{}, 1, false, []bool{false, true, false, true}},
		"sought, two paths":  {profile{}, 2, false, []bool{false, true, true, false}},
		"over NIDs":          {profile{control: control{icmp: icmpOverNIDs}}, 1, false, []bool{true, true, true, true}},
		"ordinary":           {profile{control: control{icmp: icmpOrdinary}}, 1, false, []bool{false, false, false, false}},
		"ordinary, given up": {profile{control: control{icmp: icmpOrdinary}}, 1, true, []bool{false, true, false, true}},
		"Roam, given up":     {profile{asks: true}, 1, true, []bool{false, false, false, false}},
	} {
		u := &exchange{}
		u.begin(epoch, setA, nil)
		if test.give {
			u.state = slow
		}
		var got []bool
		for range test.want {
			u.transmit(epoch, viaA, test.ways)
			got = append(got, u.isOverNIDs(test.f))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: over NIDs %v", name, got)
		}
	}
}
