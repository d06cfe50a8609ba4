package result

import (
	"flag"
	"testing"

	"roam/internal/testutil"
)

var schema = flag.Bool("schema", false, "write docs/schema/result.json anew")

// The schema in docs is that of the files which `roam-lab run --json` writes.
func TestSchema(t *testing.T) {
	numberOrWords := []any{map[string]any{"type": "number"}, map[string]any{"type": "string"}}
	s := testutil.Schema("A result of roam-lab", Result{}, map[string]any{"Published": numberOrWords})
	testutil.SameSchema(t, "../../docs/schema/result.json", s, *schema)
}
