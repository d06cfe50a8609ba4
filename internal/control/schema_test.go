package control

import (
	"flag"
	"testing"

	"roam/internal/testutil"
)

var schema = flag.Bool("schema", false, "write docs/schema/event.json anew")

// The schema in docs is that of the lines which `roam monitor --json` prints.
func TestSchemaOfEvents(t *testing.T) {
	testutil.SameSchema(t, "../../docs/schema/event.json", testutil.Schema("An event of roamd", Event{}, nil), *schema)
}
