package acceptance

import (
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/workload"
)

// TestOutage takes every link from a host: connections with and without data
// in flight go on when one returns.
func TestOutage(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newWorld(t, "outage", 5*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	w.cable("mn", "net2", false)
	mn, cn := w.newHost("mn", settings{}).start(), w.newHost("cn", settings{}).start()
	w.echo(t, "cn", 7007)
	idle := w.talk(t, "mn", "tcp6", "cn", 7007)
	idle.echoed(t, "before")
	down := w.tcp(t, "mn", "cn", "cn", 7001, true)
	up := w.tcp(t, "mn", "cn", "cn", 7002, false)
	mn.reaches("cn", "established")
	o := outage{w: w, mn: mn, cn: cn, flows: []*workload.TCP{up, down}, idle: idle}
	w.sub("a cable pulled for 8 s", func(t *testing.T) { o.cable(t, 8*time.Second) })
	w.sub("a network that is silent for 8 s", func(t *testing.T) { o.silence(t, 8*time.Second) })
	w.sub("a cable pulled for 30 s", func(t *testing.T) { o.cable(t, 30*time.Second) })
	w.sub("a cable pulled for 8 s, and put into another network", func(t *testing.T) { o.moved(t, 8*time.Second) })
	ctx := w.within(patience)
	for _, f := range o.flows {
		if _, err := f.Stop(ctx); err != nil {
			t.Error(err)
		}
	}
}

type outage struct {
	w      *world
	mn, cn *host
	flows  []*workload.TCP
	idle   *client
}

// cable pulls the only cable.
func (o outage) cable(t *testing.T, length time.Duration) {
	o.w.cable("mn", "net1", false)
	testutil.Eventually(t, patience, func() bool { return len(o.mn.active()) == 0 }, "no active locator")
	o.last(t, length)
	o.w.cable("mn", "net1", true)
	testutil.Eventually(t, patience, func() bool { return len(o.mn.active()) == 1 }, "an active locator")
	o.goesOn(t, length)
}

// moved pulls the only cable, and puts it into another network.
func (o outage) moved(t *testing.T, length time.Duration) {
	o.w.cable("mn", "net1", false)
	testutil.Eventually(t, patience, func() bool { return len(o.mn.active()) == 0 }, "no active locator")
	o.last(t, length)
	o.w.cable("mn", "net2", true)
	testutil.Eventually(t, patience, func() bool { return len(o.mn.active()) == 1 }, "an active locator")
	o.goesOn(t, length)
}

// silence loses everything on the link while both ends believe in it.
func (o outage) silence(t *testing.T, length time.Duration) {
	link := o.w.links["mn/net1"]
	set := func(p linkem.Params) {
		if err := link.SetBoth(p); err != nil {
			t.Fatal(err)
		}
	}
	set(linkem.Params{Delay: 5 * time.Millisecond, Cut: true})
	began := time.Now()
	for _, ends := range []struct {
		n    *host
		peer string
	}{{o.mn, "cn"}, {o.cn, "mn"}} {
		testutil.Eventually(t, patience, func() bool { return ends.n.with(ends.peer).Dead },
			ends.n.name+" finds the path dead")
		t.Logf("%s found the path dead within %v", ends.n.name, time.Since(began).Round(time.Millisecond))
	}
	o.last(t, length)
	set(linkem.Params{Delay: 5 * time.Millisecond})
	o.goesOn(t, length)
	testutil.Eventually(t, patience, func() bool { return !o.mn.with("cn").Dead && !o.cn.with("mn").Dead },
		"both ends find the path alive")
}

// last lets the outage last: a span is what is being tested, so no condition
// can end it. In its first tenth what was under way may still be read.
func (o outage) last(t *testing.T, length time.Duration) {
	pass := func(d time.Duration) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-t.Context().Done():
		}
	}
	pass(length / 10)
	before := []uint64{o.flows[0].State().Progress, o.flows[1].State().Progress}
	pass(length - length/10)
	for i, f := range o.flows {
		if after := f.State().Progress; after != before[i] {
			t.Errorf("%s went on by %d bytes during the outage", f.Name(), after-before[i])
		}
	}
}

// goesOn waits for data both ways and for the idle connection.
func (o outage) goesOn(t *testing.T, length time.Duration) {
	t.Helper()
	began := time.Now()
	for _, f := range o.flows {
		flows(t, f, 5000)
		// Progress is looked at in turn, so this is an upper bound.
		t.Logf("after %v: %s goes on within %v", length, f.Name(), time.Since(began).Round(time.Millisecond))
	}
	word := "after-" + t.Name()
	o.idle.echoed(t, word)
	t.Logf("after %v: the idle connection answers within %v", length, time.Since(began).Round(time.Millisecond))
	if took := time.Since(began); took > 5*time.Second { // the claim is about 1 s
		t.Errorf("it took %v until all went on", took)
	}
}
