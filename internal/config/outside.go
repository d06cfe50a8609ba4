package config

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"roam"
	"roam/naming"
)

// mostOutside is how many locators a border makes of one: those of a proof.
const mostOutside = 8

// prefix64 reads a usable prefix of 64 bits; "/64" may be missing.
func prefix64(text string) (roam.L64, bool) {
	p, err := netip.ParsePrefix(strings.TrimSuffix(text, "/64") + "/64")
	if err != nil || !p.Addr().Is6() || p.Masked() != p {
		return 0, false
	}
	l := roam.ILVFromAddr(p.Addr()).L64
	return l, l.Usable()
}

// outside checks the table of what a site border makes of internal locators.
func (c *checker) outside(key string, table map[string][]string) map[roam.L64][]roam.L64 {
	if len(table) == 0 {
		return nil
	}
	out := make(map[roam.L64][]roam.L64, len(table))
	for _, text := range slices.Sorted(maps.Keys(table)) {
		own, ok := prefix64(text)
		if !ok || len(table[text]) == 0 || len(table[text]) > mostOutside || out[own] != nil {
			c.refuse(key, fmt.Sprintf("%q with %d prefixes", text, len(table[text])))
			continue
		}
		for _, text := range table[text] {
			l, ok := prefix64(text)
			if !ok || l == own || slices.Contains(out[own], l) {
				c.refuse(key, strconv.Quote(text))
				continue
			}
			out[own] = append(out[own], l)
		}
	}
	return out
}

// outsideText returns the table as it stands in the file.
func outsideText(table map[roam.L64][]roam.L64) string {
	var out []string
	for _, own := range slices.Sorted(maps.Keys(table)) {
		list := make([]string, len(table[own]))
		for i, l := range table[own] {
			list[i] = l.Prefix().Addr().String()
		}
		out = append(out, fmt.Sprintf("%q = %s", own.Prefix().Addr(), quoteAll(list)))
	}
	if out == nil {
		return "{}"
	}
	return "{ " + strings.Join(out, ", ") + " }"
}

// names checks names of the hosts file.
func (c *checker) names(key string, list []string) (out []string) {
	for _, text := range list {
		name, err := naming.CleanName(text)
		if err != nil {
			c.refuse(key, strconv.Quote(text))
			continue
		}
		if slices.Contains(out, name) {
			c.fault(key, "%q is listed twice", text)
			continue
		}
		out = append(out, name)
	}
	return out
}
