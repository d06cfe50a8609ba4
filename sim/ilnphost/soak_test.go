package ilnphost

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"roam"
	"roam/sim"
)

// setting reads a number from the environment: `make soak` sets them.
func setting(t *testing.T, name string, otherwise float64) float64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || v <= 0 {
		t.Fatalf("%s=%q, want a number above 0", name, s)
	}
	return v
}

// TestSoak lets hosts move and fail at random for hours of virtual time: no
// session may be lost while a path exists, nothing may be left in the end, and
// memory may not grow. SOAK_HOURS, SOAK_HOSTS and SEED change its size.
func TestSoak(t *testing.T) {
	t.Run("roam", func(t *testing.T) { soak(t, SoakConfig{}) })
	t.Run("unacquainted", func(t *testing.T) { soak(t, SoakConfig{Unacquainted: true}) })
	t.Run("keyed", func(t *testing.T) { soak(t, SoakConfig{Keyed: true}) })
}

// soak runs one soak, of hosts that learn that their peers run Roam, do not, or have keys.
func soak(t *testing.T, cfg SoakConfig) {
	cfg.Seed = uint64(setting(t, "SEED", 1))
	soakOf(t, cfg, setting(t, "SOAK_HOURS", 0.5), setting(t, "SOAK_HOSTS", 20))
}

// TestSoakFoundBefore repeats a run in which a host kept to a new link whose direction to it was
// dead, as complaints along it were acknowledged, and its peer, which knew two nodes with that
// identifier, could not tell whose its data were.
func TestSoakFoundBefore(t *testing.T) { soakOf(t, SoakConfig{Seed: 10}, 2, 40) }

func soakOf(t *testing.T, cfg SoakConfig, hours, hosts float64) {
	t.Helper()
	t.Logf("seed %d: %v hours, %v hosts", cfg.Seed, hours, hosts)
	var heap []uint64
	began := time.Now()
	cfg.Hosts, cfg.Span = int(hosts), time.Duration(hours*float64(time.Hour))
	cfg.Hour = func(h SoakHour) {
		heap = append(heap, inUse())
		t.Logf("%v | heap %d KiB, %.0f s", h, heap[len(heap)-1]>>10, time.Since(began).Seconds())
		for _, fault := range h.Found {
			t.Error(fault)
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a sixth of the time would be the collector's
	k := NewSoak(cfg)
	c := follow(k)
	k.Run()
	t.Logf("course %016x", c.Sum64())
	wantFlat(t, heap)
}

// TestSoakJudgesAliases: a session that is replaced may have an alias that is no host's identifier.
func TestSoakJudgesAliases(t *testing.T) {
	k := NewSoak(SoakConfig{Seed: 1, Hosts: 2, Keyed: true})
	for range maxRemade + 1 {
		k.replaced(k.hosts[0], 0xf47f_7269_c084_397d)
	}
	if len(k.faults) != 1 {
		t.Errorf("%d replacements at once: faults %v, want one", maxRemade+1, k.faults)
	}
}

// TestSoakJudgesIdleSessions: a session that ends sooner than its data allow is a fault. At a host that only receives,
// the last datagrams before a control packet of the same reading do not count.
func TestSoakJudgesIdleSessions(t *testing.T) {
	for _, c := range []struct {
		counted, came time.Duration // before the end of the session
		echo          bool
		faults        int
	}{
		{ilnpIdle + time.Second, ilnpIdle - 2*time.Second, false, 0},
		{ilnpIdle - 2*time.Second, ilnpIdle - 3*time.Second, false, 1},
		{ilnpIdle + time.Second, ilnpIdle - 2*time.Second, true, 1},
	} {
		k := NewSoak(SoakConfig{Seed: 1, Hosts: 2})
		from, to := k.hosts[0], k.hosts[1]
		f := &Flow{From: from.Node, To: to.Node, Echo: c.echo, Came: k.Now().Add(-c.came), Back: k.Now().Add(-c.came)}
		k.talks = []*talk{{from: from, to: to, flow: f, counted: k.Now().Add(-c.counted)}}
		k.idled(to, from.nid, "idle")
		if len(k.faults) != c.faults {
			t.Errorf("%+v: faults %v", c, k.faults)
		}
	}
}

// TestSoakJudgesLinksOfOneNetwork: nothing arrives at a host by its second link into a network if packets come by the
// first one and are lost there.
func TestSoakJudgesLinksOfOneNetwork(t *testing.T) {
	for _, other := range []roam.L64{netA, netB} {
		k := NewSoak(SoakConfig{Seed: 1, Hosts: 2})
		h, o := k.hosts[1], k.hosts[0]
		k.leave(h, 0)
		h.Up(1, netA, near, roam.Infinite)
		h.Up(2, other, near, roam.Infinite)
		h.CutOneWay(1, sim.Backward)
		k.look(o, h)
		k.look(h, o)
		f := o.run(&Flow{From: o.Node, To: h.Node, Brief: true}, time.Second)
		k.Network.Run(time.Minute)
		if got, want := h.canBeReached(), !f.Came.IsZero(); got != want || want != (other == netB) {
			t.Errorf("links in %v and %v: can be reached %t, datagrams come %t", netA, other, got, want)
		}
	}
}

// inUse returns the bytes of live memory.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// wantFlat compares the last quarter of the hours with the second one: in the
// first, hosts still get to know each other.
func wantFlat(t *testing.T, heap []uint64) {
	t.Helper()
	n := len(heap)
	if n < 8 {
		return
	}
	early, late := mean(heap[n/4:n/2]), mean(heap[n*3/4:n-1])
	if late > early*1.1+1<<20 {
		t.Errorf("memory grows: %.0f KiB in the second quarter, %.0f KiB in the last one", early/1024, late/1024)
	}
}

func mean(vs []uint64) float64 {
	sum := 0.0
	for _, v := range vs {
		sum += float64(v)
	}
	return sum / float64(max(len(vs), 1))
}

// TestSoakRepeats runs one seed twice.
func TestSoakRepeats(t *testing.T) {
	course := func() (lines string) {
		k := NewSoak(SoakConfig{Seed: 9, Hosts: 10, Span: 10 * time.Minute, Hour: func(h SoakHour) { lines += h.String() + "\n" }})
		c := follow(k)
		k.Run()
		return lines + fmt.Sprintf("course %016x", c.Sum64())
	}
	if a, b := course(), course(); a != b {
		t.Errorf("two runs of one seed differ:\n%s\n%s", a, b)
	}
}
