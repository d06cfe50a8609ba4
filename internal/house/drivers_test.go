package house

import "testing"

func TestDrivers(t *testing.T) {
	documented := func(doc string) map[string]string {
		return map[string]string{
			"sched/a.go":                         "// Package sched is small. " + doc + "\npackage sched\n",
			"internal/role/ilnphost/engine/a.go": body(`_ "roam/sched"`, ""),
			"internal/daemon/a.go":               "// Package daemon is small.\npackage daemon\n",
			"lab/exp/video/a.go":                 "// Package video is small.\npackage video\n",
		}
	}
	for name, b := range map[string]breach{
		"an importer": {files: documented("It is driven by internal/role/ilnphost/engine.")},
		"none": {files: documented("internal/daemon drives it."),
			want: "names internal/daemon, which does not import it"},
		"one of two": {files: documented("Driven by internal/role/ilnphost/engine and internal/daemon."),
			want: "internal/daemon"},
		"by its name":             {files: documented("Driven by package daemon."), want: "names internal/daemon"},
		"a package that is gone":  {files: documented("Driven by package old."), want: "names old"},
		"tests without tests":     {files: documented("It is driven by tests."), want: "names tests"},
		"experiments":             {files: documented("Experiments drive it."), want: "names lab/exp"},
		"another sentence":        {files: documented("Driven by internal/role/ilnphost/engine; internal/daemon knows nothing of it.")},
		"a sentence of no driver": {files: documented("It serves internal/daemon.")},
	} {
		b.rule = "drivers"
		t.Run(name, b.check)
	}
	files := documented("It is driven by tests.")
	files["sched/a_test.go"] = "package sched\n"
	breach{rule: "drivers", files: files}.check(t)
}
