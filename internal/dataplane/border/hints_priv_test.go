package border

import (
	"fmt"
	"testing"

	"roam"
	"roam/sbr"
	"roam/wire/ilnp"
)

// Each internal locator is rewritten to its own group, also where one hint stands for several
// of them, and after another policy has given them other groups.
func TestHintedGroups(t *testing.T) {
	r := newRig(t)
	list := []roam.L64{internal}
	for l := internal + 1<<16; len(list) < 6; l += 1 << 16 {
		same := bitOf(half(l)) == bitOf(half(internal))
		if same == (len(list) < 3) { // two with the same bit, three with others
			list = append(list, l)
		}
	}
	for turn := range 2 {
		text := fmt.Sprintf("%v 1 0 none 1\n%v 1 0 none 2\n", siteA.Prefix(), siteB.Prefix())
		for i, l := range list {
			text += fmt.Sprintf("%v 1 0 none -1 %d\n", l.Prefix(), 1+(i+turn)%2)
		}
		p, err := sbr.ParsePolicy([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		sites := []sbr.Site{{L64: siteA, Link: loopback, Up: true}, {L64: siteB, Link: loopback, Up: true}}
		if err := r.Install(sbr.NewTable(p, sites), everyIndex, hops); err != nil {
			t.Fatal(err)
		}
		for i, l := range list {
			packet := r.echo(roam.ILV{L64: l, NID: insideNID}, theirs, ilnp.Nonce{}, true, 1, 56)
			verdict, out := r.run(r.objs.SbrInsideIngress, packet)
			if want := []roam.L64{siteA, siteB}[(i+turn)%2]; verdict != redirect || source(out) != want {
				t.Errorf("turn %d, %v: verdict %#x, from %v, want %v", turn, l, verdict, source(out), want)
			}
		}
	}
}
