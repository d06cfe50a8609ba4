package ilnphost

import (
	"testing"
	"time"

	"roam/internal/config"
	"roam/multipath"
)

// TestSilenceOfLevels: the programs report the silence that the most eager level wants to
// know of, and each link has its own level.
func TestSilenceOfLevels(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"":                                 multipath.Normal.Timing().Silence,
		"[host]\nliveness = \"relaxed\"\n": multipath.Relaxed.Timing().Silence,
		"[host]\nliveness = \"relaxed\"\n[uplinks]\nfast = [\"eth0\"]\n": multipath.Fast.Timing().Silence,
		"[uplinks]\nrelaxed = [\"eth0\"]\n":                              multipath.Normal.Timing().Silence,
	} {
		c, err := config.Parse("t", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := silenceOf(c); got != want {
			t.Errorf("%q: silence of %v, want %v", text, got, want)
		}
		h := &Host{cfg: c}
		if got := liveness(&h.cfg)("eth0"); got != coreLevel[c.LivenessOf("eth0")] {
			t.Errorf("%q: level %d of eth0", text, got)
		}
	}
}
