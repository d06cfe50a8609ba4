package house

import (
	"strings"
	"testing"
)

// TestRFCs has one table of two rows, and breaks it.
func TestRFCs(t *testing.T) {
	const (
		first  = "| 6741-5.4-1 | look up by nonce | MUST | implemented | `ilnp/a.go` | `ilnp.TestNonce/a wrong one` | |"
		second = "| 6741-5.4-2 | look up by locator | MUST | DEVIATION | `ilnp` | `roam.TestAddr` | " +
			"[slow](#deviation-slower-on-purpose) |"
	)
	tree := func(old, replaced string) map[string]string {
		doc := "# RFC 6741\n\nKeywords counted: 2.\n\n" + rfcHead + "\n|---|---|---|---|---|---|---|\n" + first + "\n" +
			second +
			"\n\n## DEVIATION: slower, on purpose\n\nText.\n"
		files := map[string]string{
			"docs/rfc/rfc6741.md": doc,
			"docs/rfc/README.md":  "| [6741](rfc6741.md) | engineering | 2 | 1 | 1 | 0 | 0 |\n",
			"ilnp/a.go":           "package ilnp\n",
			"ilnp/a_test.go":      "package ilnp\n\nfunc TestNonce() { _ = \"a wrong one\" }\n",
			"roam_test.go":        "package roam\n\nfunc TestAddr() {}\n",
		}
		for p, src := range files {
			files[p] = strings.Replace(src, old, replaced, 1)
		}
		return files
	}
	for name, b := range map[string]breach{
		"whole":                   {files: tree("", ""), want: ""},
		"a column less":           {files: tree(" | |\n", " |\n"), want: "rfc6741.md:7: a row of 6 columns"},
		"a row left out":          {files: tree("6741-5.4-2", "6741-5.4-3"), want: "6741-5.4-3 is number 2 of its section"},
		"another RFC's":           {files: tree("6741-5.4-2", "6743-5.4-1"), want: "6743-5.4-1 is no id of this RFC"},
		"fewer rows than counted": {files: tree("counted: 2", "counted: 3"), want: "2 rows for 3 requirements"},
		"not counted":             {files: tree("Keywords", "Words"), want: "does not say"},
		"other totals":            {files: tree("2 | 1 | 1 |", "2 | 2 | 0 |"), want: `must end in "| 2 | 1 | 1 | 0 | 0 |"`},
		"no requirement":          {files: tree("look up by nonce", ""), want: "5.4-1 does not say what"},
		"level":                   {files: tree("| MUST | DEV", "| OUGHT | DEV"), want: `5.4-2 has the level "OUGHT"`},
		"no place":                {files: tree("`ilnp/a.go`", ""), want: "does not say where"},
		"place that is not there": {files: tree("`ilnp/a.go`", "`ilnp/b.go`"), want: "is in ilnp/b.go, which is not"},
		"no proof":                {files: tree("`ilnp.TestNonce/a wrong one`", ""), want: "is proven by nothing"},
		"test that is not there": {files: tree("func TestNonce", "func TestPlain"),
			want: "by ilnp.TestNonce, which is not there"},
		"case that is not there": {files: tree(`"a wrong one"`, `"another"`), want: `case "a wrong one" of TestNonce`},
		"test without place":     {files: tree("`roam.TestAddr`", "`TestAddr`"), want: "want directory.TestName"},
		"a departure not told": {files: tree("## DEVIATION:", "## Departure:"),
			want: "5.4-2 departs, and its note links to no section"},
		"a section of no row": {files: tree("\nText.\n", "\nText.\n\n## DEVIATION: later\n\nText.\n"),
			want: "no requirement links to the section deviation-later"},
	} {
		b.rule = "rfcs"
		t.Run(name, b.check)
	}
}
