package border

import (
	"os"
	"strings"
	"testing"

	"roam/internal/control"
	"roam/internal/metrics"
)

// The metrics have each site locator's packets and bytes, in and out, and the number of flows, and the manual names
// them.
func TestMetrics(t *testing.T) {
	var page strings.Builder
	err := metrics.WriteFamilies(&page, families(control.BorderReport{
		Sites: []control.BorderSite{
			{Locator: providerA, Link: "wan0", TXPackets: 1, TXBytes: 100, RXPackets: 2, RXBytes: 200},
			{Locator: providerB, Link: "wan1", TXPackets: 3, TXBytes: 300, RXPackets: 4, RXBytes: 400},
		},
		Flows: make([]control.BorderFlow, 5),
	})...)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for line := range strings.Lines(page.String()) {
		if !strings.HasPrefix(line, "#") {
			values = append(values, strings.TrimSpace(line))
		}
	}
	const want = `roam_border_packets_total{locator="2001:db8:a::",link="wan0",direction="in"} 2
roam_border_packets_total{locator="2001:db8:a::",link="wan0",direction="out"} 1
roam_border_packets_total{locator="2001:db8:b::",link="wan1",direction="in"} 4
roam_border_packets_total{locator="2001:db8:b::",link="wan1",direction="out"} 3
roam_border_bytes_total{locator="2001:db8:a::",link="wan0",direction="in"} 200
roam_border_bytes_total{locator="2001:db8:a::",link="wan0",direction="out"} 100
roam_border_bytes_total{locator="2001:db8:b::",link="wan1",direction="in"} 400
roam_border_bytes_total{locator="2001:db8:b::",link="wan1",direction="out"} 300
roam_border_flows 5`
	if got := strings.Join(values, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	manual, err := os.ReadFile("../../../docs/howto/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families(control.BorderReport{}) {
		if !strings.Contains(string(manual), "`"+f.Name) ||
			!strings.Contains(page.String(), "# TYPE "+f.Name+" "+f.Kind+"\n") {
			t.Errorf("the manual does not name %s, or the page has no type of it", f.Name)
		}
	}
}
