package live

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestPlan(t *testing.T) {
	begun := time.Unix(1000, 0)
	now := begun.Add(30 * time.Second)
	tests := []struct {
		name string
		p    plan
		want string
	}{
		{"nothing known", plan{}, ""},
		{"expected", plan{begun: begun, expect: time.Minute}, " 50 %  about 0:30 left"},
		{"longer than expected", plan{begun: begun, expect: 10 * time.Second}, "100 %  about 0:00 left"},
		{"runs", plan{begun: begun, expect: time.Minute, run: 1, runs: 4}, " 38 %  run 2 of 4  about 2:30 left"},
		{"cells", plan{begun: begun, cells: 10, done: 5, fresh: 3}, " 50 %  5 of 10 cells  about 0:50 left"},
		{"cells found only", plan{begun: begun, cells: 10, done: 5}, " 50 %  5 of 10 cells"},
		{"long", plan{begun: begun, expect: 2 * time.Hour}, "  0 %  about 1:59 h left"},
	}
	for _, tt := range tests {
		got := tt.p.line(now, 40)
		if _, after, _ := strings.Cut(got, "]"); strings.TrimSpace(after) != strings.TrimSpace(tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestCellsAreToldWithoutTerminal(t *testing.T) {
	var b bytes.Buffer
	v := New(&b)
	v.Expect(time.Minute, 0, 2)
	v.Start("x")
	v.Cells(2)
	v.CellDone(false)
	v.Stop()
	if !strings.Contains(b.String(), "1 of 2 cells") || !strings.Contains(b.String(), "x, run 1 of 2") {
		t.Errorf("written %q", b.String())
	}
}
