package sbr

import (
	"strings"
	"testing"

	"roam"
	"roam/wire/ip6"
)

func TestExplain(t *testing.T) {
	text := testPolicy(20, 80).AppendTo(nil)
	p, err := ParsePolicy(append(text, "fd00:0:2:: 60 0 none 1 3\n2001:db8:a:: 20 0 none 3\n"...))
	if err != nil {
		t.Fatal(err)
	}
	aside := roam.ILV{L64: 0xfd00_0000_0002_0000, NID: insideNID}
	up, down := NewTable(p, bothUp), NewTable(p, nil)
	one := NewTable(p, bothUp[1:])
	site := roam.ILV{L64: siteB, NID: insideNID}
	for name, c := range map[string]struct {
		table Table
		q     Question
		says  string
	}{
		"data":        {up, Question{Src: mine, Dst: theirs}, "2001:db8:a::/64 80.0 %, 2001:db8:b::/64 20.0 %"},
		"TCP":         {up, Question{Src: mine, Dst: theirs, Proto: ip6.TCP, From: 1, To: 2}, "ports 1 and 2 leaves from"},
		"by packets":  {up, Question{Src: mine, Dst: theirs, Proto: ip6.TCP, TCPPackets: true}, "furthest below its share"},
		"one link":    {one, Question{Src: mine, Dst: theirs}, "leaves from 2001:db8:b::/64"},
		"no link":     {down, Question{Src: mine, Dst: theirs}, "drop_no_link"},
		"inward":      {up, Question{Src: theirs, Dst: site}, "without a flow it becomes fd00:0:1::/64 (line 2)"},
		"hairpin":     {up, Question{Src: mine, Dst: site}, "2001:db8:b::/64, and forwards the packet back inside"},
		"link down":   {down, Question{Src: mine, Dst: site}, "the source to 2001:db8:b::/64, and forwards"},
		"no such one": {up, Question{Src: aside, Dst: site}, "the source to 2001:db8:a::/64, and forwards"},
		"nor another": {down, Question{Src: aside, Dst: site}, "drop_no_link"},
		"inside":      {up, Question{Src: mine, Dst: mine}, "does not cross"},
		"intruder":    {up, Question{Src: theirs, Dst: mine}, "drop_internal"},
		"passing by":  {up, Question{Src: theirs, Dst: theirs}, "stays as it is"},
		"its own way": {up, Question{Src: roam.ILV{L64: siteA}, Dst: theirs}, "stays as it is"},
	} {
		if got := strings.Join(Explain(p, c.table, c.q), " "); !strings.Contains(got, c.says) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
