package sentinel

import (
	"io"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	before := parseStat("cpu  100 0 100 1000 0 0 0 50 0 0\ncpu0 1 2 3\n")
	after := parseStat("cpu  150 10 120 1060 20 5 5 60 0 0\n")
	steal, busy := after.since(before)
	if steal != 100 || busy != 50 {
		t.Errorf("steal %g ms, busy %g %%", steal, busy)
	}
}

func TestWatch(t *testing.T) {
	in, hold := io.Pipe()
	time.AfterFunc(50*time.Millisecond, func() { hold.Close() })
	s := watch(in, 1e-6)
	if s.Cores == 0 || s.WorstMs <= 0 || len(s.Stalls) == 0 {
		t.Errorf("figures %+v", s)
	}
}

func TestMainRefuses(t *testing.T) {
	for _, args := range [][]string{nil, {"x"}, {"-1"}, {"1", "2"}} {
		if err := Main(args); err == nil {
			t.Errorf("arguments %v accepted", args)
		}
	}
}
