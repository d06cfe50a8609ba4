package hostnet

import (
	"strings"
	"testing"

	"roam/internal/hostnet/nettest"
)

// The segmentation device cuts and sums whatever is sent into it, says nothing by itself,
// is no uplink, and goes with the session device.
func TestSegmentation(t *testing.T) {
	host := nettest.New(t)
	before := host.State()
	cfg := testConfig(t)
	h := openIn(t, host, cfg)
	d := setupIn(t, h)
	for name, index := range map[string]int{"roam0d": d.Segmentation, "roam0dx": d.SegmentationPeer} {
		if index == 0 || host.Index(name) != index {
			t.Errorf("%s has index %d, told %d", name, host.Index(name), index)
		}
		on := h.kernel.features(name)
		for _, f := range []string{"tx-checksum-ip-generic", "tx-tcp6-segmentation", "tx-udp-segmentation", "rx-gro"} {
			if on[f] {
				t.Errorf("%s has %s", name, f)
			}
		}
		link := host.Run("ip", "-o", "link", "show", name)
		for _, want := range []string{"NOARP", "LOWER_UP", "mtu 65535"} {
			if !strings.Contains(link, want) {
				t.Errorf("%s lacks %s: %s", name, want, link)
			}
		}
		if out := host.Run("ip", "-6", "addr", "show", "dev", name); out != "" {
			t.Errorf("%s has addresses: %s", name, out)
		}
		if h.rules.accepts(name) {
			t.Errorf("%s may be an uplink", name)
		}
	}
	if again := setupIn(t, h); again.Segmentation != d.Segmentation {
		t.Error("a second Setup makes another segmentation device")
	}
	h.Close()
	host.Do(func() {
		if err := Restore(cfg.JournalPath); err != nil {
			t.Error(err)
		}
	})
	if after := host.State(); after != before {
		t.Errorf("Restore leaves\n%s, before it was\n%s", after, before)
	}
}
