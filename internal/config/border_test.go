package config

import (
	"slices"
	"strings"
	"testing"

	"roam"
)

const borderText = `[role]
run = ["border"]
[border]
inside = ["lan*"]
links = ["2001:db8:a:: wan0", "2001:db8:b::/64 wan1"]
policy = """
fd00:0:1:: 50 0 vlb 1 2
2001:db8:a:: 50 0 none 2
"""
tcp = "packet"
drained = ["wan1"]
`

func TestBorder(t *testing.T) {
	c, err := Parse("t", []byte(borderText))
	if err != nil {
		t.Fatal(err)
	}
	b := c.Border
	if !b.IsInside("lan3") || b.IsInside("wan0") || !slices.Equal(b.Locators("wan1"), []roam.L64{0x20010db8000b0000}) {
		t.Errorf("links: %+v", b)
	}
	if !slices.Equal(b.Drained, []string{"wan1"}) || b.TCP != ByPacket || b.Fallback != FallbackTranslate ||
		!strings.Contains(b.Policy, "vlb") {
		t.Errorf("%+v", b)
	}
	for _, k := range Keys() {
		if strings.HasPrefix(k.Name, "border.") && k.Role() != RoleBorder {
			t.Errorf("%s belongs to %q", k.Name, k.Role())
		}
	}
	for name, line := range map[string]string{
		"no link":      `links = ["2001:db8:a::"]`,
		"no locator":   `links = ["2001:db8:a::1 wan0"]`,
		"multicast":    `links = ["ff02:: wan0"]`,
		"twice":        `links = ["2001:db8:a:: wan0", "2001:db8:a:: wan1"]`,
		"also inside":  `links = ["2001:db8:a:: lan0"]`,
		"other advice": `tcp = "segment"`,
		"no name":      `drained = [""]`,
		"drained glob": `drained = ["wan*"]`,
		"xdp glob":     `xdp = ["wan*"]`,
		"link glob":    `links = ["2001:db8:a:: wan*"]`,
	} {
		key, _, _ := strings.Cut(line, " ")
		same := func(l string) bool { return strings.HasPrefix(l, key+" ") }
		text := strings.Join(slices.DeleteFunc(strings.Split(borderText, "\n"), same), "\n") + line
		if _, err := Parse("t", []byte(text)); err == nil || !strings.Contains(err.Error(), "border."+key) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
