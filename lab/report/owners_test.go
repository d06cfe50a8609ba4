package report

import (
	"strings"
	"testing"

	"roam/lab/result"
)

// The page says whose stalls and losses were.
func TestOwnersAreShown(t *testing.T) {
	r := one(0)
	b, err := Render(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, without := range []string{"Whose the lost datagrams are", "Run queues", "excuses no figure"} {
		if strings.Contains(string(b), without) {
			t.Errorf("a page without owners says %q", without)
		}
	}
	r.StallMonitor.RoamMs = 44
	r.StallMonitor.StealByCoreMs = map[int]float64{0: 30, 1: 70}
	r.StallMonitor.Processes = map[result.Owner]result.Processes{result.OwnerRoam: {RunMs: 812, WaitMs: 77}}
	r.StallMonitor.Stalls = append(r.StallMonitor.Stalls, result.Stall{At: r.Started, Ms: 44, Owner: result.OwnerRoam},
		result.Stall{At: r.Started, Ms: 33, Owner: result.OwnerHypervisor})
	r.AddLoss(result.Loss{What: "the probe", Sent: 100, Lost: 21, Emulator: 4, Asked: 3, Sockets: 2, Refused: 5})
	if b, err = Render(r); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(b)), " ")
	for _, want := range []string{
		"3 over 20 ms (1 by Roam&#39;s daemon, 1 by the hypervisor)", "(core 0: 30, core 1: 70)",
		"Roam&#39;s daemon ran for 812 ms and waited for 77 ms", "kept a core from others for 44 ms",
		"the machine itself stood still for 95 ms",
		`<td>the probe</td><td class="v">100</td><td class="v">21</td><td class="v">12</td><td class="v">5</td>` +
			`<td class="v">4</td><td class="v">3</td><td class="v">2</td>`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
