package bench

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// shareLine is a line of perf report: the share of the samples, and the symbol.
var shareLine = regexp.MustCompile(`^\s*([0-9.]+)%\s+\[[.kgHu]\]\s+(\S+)`)

// bpfTag is the part of a program's symbol that changes with each build.
var bpfTag = regexp.MustCompile(`^bpf_prog_[0-9a-f]{16}_`)

// parseShares reads the output of perf report: of each symbol its share of the time, 0 to 1.
func parseShares(out string) map[string]float64 {
	all := map[string]float64{}
	for line := range strings.Lines(out) {
		if m := shareLine.FindStringSubmatch(line); m != nil {
			share, _ := strconv.ParseFloat(m[1], 64)
			all[bpfTag.ReplaceAllString(m[2], "bpf:")] += share / 100
		}
	}
	return all
}

// sharesTable sets two profiles side by side, in ns of a unit of work, by what the second
// takes more than the first; rows of less than least are summed up.
func sharesTable(names [2]string, shares [2]map[string]float64, ns [2]float64, least float64) string {
	type row struct {
		symbol string
		ns     [2]float64
	}
	byName := map[string]*row{}
	for i := range 2 {
		for symbol, share := range shares[i] {
			if byName[symbol] == nil {
				byName[symbol] = &row{symbol: symbol}
			}
			byName[symbol].ns[i] = share * ns[i]
		}
	}
	var rows []*row
	rest := row{symbol: "everything else"}
	for _, r := range byName {
		if more := r.ns[1] - r.ns[0]; more >= least || more <= -least {
			rows = append(rows, r)
			continue
		}
		rest.ns[0] += r.ns[0]
		rest.ns[1] += r.ns[1]
	}
	slices.SortFunc(rows, func(a, b *row) int {
		return cmp.Or(cmp.Compare(b.ns[1]-b.ns[0], a.ns[1]-a.ns[0]), cmp.Compare(a.symbol, b.symbol))
	})
	var t strings.Builder
	fmt.Fprintf(&t, "%9s %9s %9s  ns\n", names[0], names[1], "more")
	for _, r := range append(rows, &rest) {
		fmt.Fprintf(&t, "%9.0f %9.0f %+9.0f  %s\n", r.ns[0], r.ns[1], r.ns[1]-r.ns[0], r.symbol)
	}
	return t.String()
}

func TestShares(t *testing.T) {
	plain := parseShares("# Overhead  Symbol\n    40.00%  [k] ip6_finish_output2\n    60.00%  [k] udpv6_sendmsg\n\n")
	over := parseShares("    30.00%  [k] bpf_prog_0123456789abcdef_ilnp_session_egress\n" +
		"    20.00%  [k] bpf_prog_f123456789abcdef_ilnp_session_egress\n    50.00%  [k] udpv6_sendmsg        \n")
	if len(plain) != 2 || over["bpf:ilnp_session_egress"] != 0.5 {
		t.Fatalf("plain %v, over %v", plain, over)
	}
	got := sharesTable([2]string{"plain", "now"}, [2]map[string]float64{plain, over}, [2]float64{1000, 1300}, 100)
	want := "    plain       now      more  ns\n" +
		"        0       650      +650  bpf:ilnp_session_egress\n" +
		"      400         0      -400  ip6_finish_output2\n" +
		"      600       650       +50  everything else\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
