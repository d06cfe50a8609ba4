package house

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestMeasures(t *testing.T) {
	tree, err := Load(fstest.MapFS{
		"sim/a.go": {
			Data: []byte("// Package sim is small.\npackage sim\n\n// F does.\nfunc F() {\n}\n\nfunc g() {}\n")},
		"sim/a_test.go": {Data: []byte("package sim\n\nfunc h() {\n\n\n}\n")},
		"bpf/a.h":       {Data: []byte("/* SPDX-License-Identifier: X */\n/* One\n * two. */\nint a; // three\nint b;\n\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, m := range Measures(tree) {
		got[m.Check] = m.Value
	}
	for check, want := range map[string]string{
		"function p90 / max (Go)":               "2 / 2",
		"functions of at most 40 lines (Go)":    "100% (2 of 2)",
		"largest hand-written file":             "8 (sim/a.go)",
		"exported symbols documented, pure":     "100% (1 of 1)",
		"comment share (Go)":                    "33% (2 of 6)",
		"comment share (BPF C)":                 "60% (3 of 5)",
		"test:code in wire, naming, cores, sim": "0.75",
	} {
		if got[check] != want {
			t.Errorf("%s: %q, want %q", check, got[check], want)
		}
	}
}

func TestHistory(t *testing.T) {
	log := "ilnp: send the newest set\x1fBecause.\n\x1e\n" +
		"wire/ip6, bpf: agree\x1f\x1e\n" +
		"Stuff\x1fBecause.\n\nAnd\n\x1e\n"
	rows := History(log)
	if rows[0].Value != "67% (2 of 3)" || rows[1].Value != "67% (2 of 3)" {
		t.Errorf("measured %v, want two of three in both", rows)
	}
	if rows[0].Good || rows[1].Good {
		t.Errorf("%v are off their limits", rows)
	}
}

func TestTable(t *testing.T) {
	table := Table([]Measure{{"short", "1", "1", true}, {"a longer check", "10", "11", false}})
	want := "  check           limit  ours\n" +
		"  short           1      1\n" +
		"* a longer check  10     11\n"
	if table != want {
		t.Errorf("laid out as\n%swant\n%s", table, want)
	}
	if strings.Contains(table, "\t") {
		t.Error("tabs do not line up in every terminal")
	}
}
