package ilnphost

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"roam/ilnp"
	"roam/internal/control"
)

// keyless are the reasons for which input without keys is refused. A new reason has to be put here, or to get a hint.
var keyless = map[string]bool{
	"malformed packet": true, "unexpected message": true, "no nonce": true, "wrong nonce": true, "no session": true,
	"locator update without locators": true, "unknown code of a locator update": true, "locator not usable": true,
	"reply to no probe": true, "error that quotes nothing of ours": true, "correspondent not known": true,
	"too many pending peers": true, "other nonce while the right one is in use": true, "no randomness": true,
	"locator of another session": true, "too many pending peers of one site": true, "malformed report": true,
	"report of less than before": true, "report of more than was sent": true,
	"report from outside of the round trip": true,
}

// reasons returns all reasons of the core, as its source has them.
func reasons(t *testing.T) (all []string) {
	f, err := parser.ParseFile(token.NewFileSet(), "../../../ilnp/events.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if ok && strings.HasPrefix(v.Names[0].Name, "reason") {
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text)
		}
		return true
	})
	if len(all) < 37 {
		t.Fatalf("%d reasons: they are elsewhere", len(all))
	}
	return all
}

// TestRefusalHints: whatever input with keys is refused, the log says in the same line what to do, and
// docs/howto/keys.md says the same.
func TestRefusalHints(t *testing.T) {
	page, err := os.ReadFile("../../../docs/howto/keys.md")
	if err != nil {
		t.Fatal(err)
	}
	hints := map[string]bool{}
	for _, reason := range reasons(t) {
		hint := control.RefusalHint(reason)
		if keyless[reason] != (hint == "") {
			t.Errorf("%s: without keys %t, hint %q", reason, keyless[reason], hint)
		}
		if hint == "" {
			continue
		}
		hints[hint] = true
		if strings.ContainsAny(hint, "\n") || !strings.Contains(string(page), "| `"+reason+"` | "+hint+" |\n") {
			t.Errorf("docs/howto/keys.md lacks\n| `%s` | %s |", reason, hint)
		}
		var log bytes.Buffer
		h := &Host{log: slog.New(slog.NewTextHandler(&log, nil)), security: quota{most: 1, period: time.Minute},
			chatter: quota{most: 1, period: time.Minute}}
		key := ilnp.SessionKey{Local: 1, Remote: 7}
		ev := ilnp.Event{Time: time.Unix(1000, 0), Kind: ilnp.Refused, Key: key, Reason: reason}
		h.logRefused(ev, control.Event{Kind: control.KindRefused, Peer: 7, Reason: reason})
		if line := log.String(); strings.Count(line, "\n") != 1 || !strings.Contains(line, "do="+strconv.Quote(hint)) {
			t.Errorf("%s: the log has %s", reason, line)
		}
	}
	if len(hints) < 15 {
		t.Errorf("%d hints", len(hints))
	}
}
