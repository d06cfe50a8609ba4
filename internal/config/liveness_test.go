package config

import (
	"slices"
	"testing"
)

// TestLivenessOfLinks: the lists of links win over the level of the host, and fast over relaxed.
func TestLivenessOfLinks(t *testing.T) {
	const text = "[host]\nliveness = \"relaxed\"\n[uplinks]\nfast = [\"eth*\"]\nrelaxed = [\"eth1\", \"wwan*\"]\n"
	c, err := Parse("t", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for link, want := range map[string]Liveness{
		"eth0": LivenessFast, "eth1": LivenessFast, "wwan0": LivenessRelaxed, "wlan0": LivenessRelaxed,
	} {
		if got := c.LivenessOf(link); got != want {
			t.Errorf("%s: level %d, want %d", link, got, want)
		}
	}
	if got := c.Levels(); !slices.Equal(got, []Liveness{LivenessRelaxed, LivenessFast, LivenessRelaxed}) {
		t.Errorf("levels %v", got)
	}
	d := Default()
	if got := d.LivenessOf("eth0"); got != LivenessNormal || !slices.Equal(d.Levels(), []Liveness{LivenessNormal}) {
		t.Errorf("by default level %d of %v", got, d.Levels())
	}
	for _, text := range []string{
		"[host]\nliveness = \"hasty\"\n", "[uplinks]\nfast = [\"[\"]\n", "[uplinks]\nrelaxed = [\"\"]\n",
	} {
		if _, err := Parse("t", []byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
