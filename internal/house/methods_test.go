package house

import (
	"fmt"
	"strings"
	"testing"
)

// wide declares a type with methods in two files, and a test's type beside it.
func wide(dir string, n int) map[string]string {
	var a, b strings.Builder
	a.WriteString("package p\n\ntype T[V any] struct{}\n\ntype S struct{ T[int] }\n\n")
	b.WriteString("package p\n\n")
	for i := range n {
		file, form := &a, "func (t *T[V]) m%d() {}\n"
		if i%2 == 1 {
			file, form = &b, "func (T[V]) m%d() {}\n"
		}
		fmt.Fprintf(file, form, i)
	}
	return map[string]string{
		dir + "/a.go": a.String(), dir + "/b.go": b.String(),
		dir + "/s.go":      "package p\n\nfunc (S) one() {}\n",
		dir + "/a_test.go": "package p\n\nfunc (T[V]) further() {}\n",
	}
}

func TestMethods(t *testing.T) {
	for name, b := range map[string]breach{
		"as many as may be": {files: wide("sim", MaxMethods), want: ""},
		"one too many":      {files: wide("sim", MaxMethods+1), want: "sim.T: has 81 methods, at most 80"},
	} {
		b.rule = "methods"
		t.Run(name, b.check)
	}
}
