package acceptance

import (
	"path/filepath"
	"testing"
	"time"

	"roam/lab/packets"
	"roam/lab/site"
	"roam/lab/topo"
)

// TestBorderFlowLabel has hosts and the border mark and recognise sessions by the flow label. Datagrams of
// the session have its highest bit on the inside and at both providers, in both directions, and none are lost
// where the border drops plain packets.
func TestBorderFlowLabel(t *testing.T) {
	policy := site.Policy(0, "vlb", 50, 50)
	s := newSite(t, policy, "[ilnp]\nflow_label = true\n")
	err := s.Configure(site.Section(0, policy, "fallback = \"drop\"\nflow_label = true\n"))
	if err == nil {
		_, err = s.Border.Ask(t.Context(), "config", "reload")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []*topo.Host{s.InsideHost, s.Far} { // which would draw labels, half of them with the bit
		out, err := h.Command(t.Context(), "sysctl", "-w", "net.ipv6.auto_flowlabels=0").CombinedOutput()
		if err != nil {
			t.Fatalf("sysctl: %v: %s", err, out)
		}
	}
	ping(t, s, "-c", "5", "-i", "0.1")
	announced(t, s)
	const datagrams = "ip6[6]==17 and ip6[40:2]!=6740 and ip6[42:2]!=6740 and not ip6 multicast"
	counts := map[string]func() int{}
	for _, link := range []string{"lan", "wan0", "wan1"} {
		for name, label := range map[string]string{"marked": "!=0", "unmarked": "==0"} {
			file := filepath.Join(t.TempDir(), link+name)
			w, err := s.Router.Capture(t.Context(), link, file, 100, datagrams+" and ip6[1]&8"+label)
			if err != nil {
				t.Fatal(err)
			}
			counts[link+" "+name] = func() int {
				if _, err := w.Stop(); err != nil {
					t.Error(err)
				}
				list, err := packets.Read(file, link)
				if err != nil {
					t.Error(err)
				}
				return len(list)
			}
		}
	}
	sent, lost := between(t, s, 500, 2*time.Second, func() {})
	if lost > 0 {
		t.Errorf("%d of %d datagrams lost", lost, sent)
	}
	for _, link := range []string{"lan", "wan0", "wan1"} {
		least := sent / 50 // on a busy machine a capture is far from whole
		marked, unmarked := counts[link+" marked"](), counts[link+" unmarked"]()
		if unmarked > 0 || marked < least {
			t.Errorf("on %s %d of %d datagrams have the bit, and %d have not", link, marked, sent, unmarked)
		}
	}
}
