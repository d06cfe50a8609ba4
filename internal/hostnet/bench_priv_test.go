package hostnet

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/internal/hostnet/nettest"
)

// BenchmarkAdvertisement measures from a Router Advertisement with a new prefix,
// on a link that is up, to the Locator being usable.
func BenchmarkAdvertisement(b *testing.B) {
	host := nettest.New(b)
	router := nettest.Router(b, "lan", host, "upA")
	var h *Host
	var err error
	host.Do(func() {
		h, err = Open(Config{SessionPrefix: roam.DefaultSessionPrefix, NID: testNID, Device: "roam0",
			JournalPath: filepath.Join(b.TempDir(), "host.json")})
	})
	if err == nil {
		err = h.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	await := func(l roam.L64, want bool) {
		for e := range h.Events() {
			if x, ok := e.(LocatorChanged); ok && x.L64 == l && x.Present == want {
				return
			}
		}
	}
	speak := router.Speaker("lan")
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		l := netA + roam.L64(i)
		a := nettest.Advert{Router: 1800, Prefix: l.Prefix(), Preferred: 600, Valid: 600, NoAutoconf: true}
		begin := time.Now()
		speak(a)
		await(l, true)
		took = append(took, time.Since(begin))
		a.Valid, a.Preferred = 0, 0
		speak(a)
		await(l, false)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "median_ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99_ms")
}
