package metrics

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"roam/internal/testutil"
)

// expression is one question of the dashboard.
type expression struct{ title, expr string }

// expressions returns all that the dashboard asks for.
func expressions(t *testing.T) (list []expression) {
	t.Helper()
	b, err := os.ReadFile("../../docs/metrics/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		for _, e := range p.Targets {
			list = append(list, expression{p.Title, e.Expr})
		}
	}
	return list
}

// Alerts and the dashboard ask only for metrics that there are: those of the manual, and the
// counters of the data plane.
func TestDashboardAsksForWhatThereIs(t *testing.T) {
	read := func(file string) string {
		b, err := os.ReadFile("../../docs/" + file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	manual, counters := read("howto/metrics.md"), read("../wire/xlate/decide/counter.go")
	name := regexp.MustCompile(`\broam_[a-z0-9_]*[a-z0-9]\b`)
	asked := map[string]string{}
	for _, e := range expressions(t) {
		for _, n := range name.FindAllString(e.expr, -1) {
			asked[n] = "panel " + e.title
		}
	}
	for line := range strings.Lines(read("metrics/alerts.yml")) {
		if _, expr, ok := strings.Cut(line, "expr: "); ok {
			for _, n := range name.FindAllString(expr, -1) {
				asked[n] = "alert " + strings.TrimSpace(expr)
			}
		}
	}
	if len(asked) < 15 {
		t.Fatalf("only %d metrics are asked for: %v", len(asked), asked)
	}
	for n, where := range asked {
		family := strings.TrimSuffix(n, "_bucket")
		counter := strings.TrimSuffix(strings.TrimPrefix(n, "roam_"), "_total")
		if !strings.Contains(manual, "`"+family+"`") && !strings.Contains(counters, `"`+counter+`"`) {
			t.Errorf("%s: there is no %s", where, n)
		}
	}
}

// The alerts fire where they should, and nowhere else.
func TestAlertsFire(t *testing.T) {
	testutil.Need(t, "promtool")
	c := exec.Command("promtool", "test", "rules", "alerts_test.yml")
	c.Dir = "../../docs/metrics"
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
