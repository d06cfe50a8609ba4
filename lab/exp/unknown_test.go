package exp

import "testing"

// A near name is suggested, or those that contain the one given; a long list has a line for each
// name.
func TestUnknown(t *testing.T) {
	known := []string{"quickstart", "yanagida-duality-udp", "flood"}
	for name, want := range map[string]string{
		"quikstart":            `no experiment is called "quikstart"; did you mean "quickstart"?`,
		"yanagida-duality-tcp": `no experiment is called "yanagida-duality-tcp"; did you mean "yanagida-duality-udp"?`,
		"fld":                  `no experiment is called "fld"; did you mean "flood"?`,
		"nonsense":             `no experiment is called "nonsense"; there are quickstart, yanagida-duality-udp, flood`,
	} {
		if err := Unknown("experiment", name, known); err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	const all = "\n  quickstart\n  yanagida-duality-udp\n  flood\n  yanagida-mobility-udp"
	known = append(known, "yanagida-mobility-udp")
	for name, want := range map[string]string{
		"nope":  `no preset is called "nope"; there are:` + all,
		"f":     `no preset is called "f"; there are:` + all,
		"start": `no preset is called "start"; did you mean "quickstart"?`,
		"yanagida": `no preset is called "yanagida"; did you mean one of these?` +
			"\n  yanagida-duality-udp\n  yanagida-mobility-udp",
	} {
		if err := Unknown("preset", name, known); err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"", "ab", 2}, {"abc", "abd", 1}, {"abc", "bc", 1}, {"kitten", "sitting", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("from %q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
