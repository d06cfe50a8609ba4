package exp

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"roam/lab/result"
)

// Store keeps the outcome of finished cells on disk, so that an interrupted experiment can
// resume. lab/runner makes one per run: experiment, seed, parameters, engine and build
// select the directory, so that cells of different versions never mix.
type Store struct{ dir string }

// OpenStore returns the store in a directory, which is made with the first
// cell.
func OpenStore(dir string) *Store { return &Store{dir} }

// Len returns the number of stored cells.
func (s *Store) Len() int {
	names, _ := filepath.Glob(filepath.Join(s.dir, "*.json")) // the pattern is sound
	return len(names)
}

// Dir returns the directory.
func (s *Store) Dir() string { return s.dir }

// Clear removes all cells. A directory that this process cannot reach, as below the home of
// another user, has none for it.
func (s *Store) Clear() error {
	if err := os.RemoveAll(s.dir); err != nil {
		if _, unreachable := os.Stat(s.dir); unreachable != nil {
			return nil
		}
		return fmt.Errorf("remove cells: %w", err)
	}
	return nil
}

// Prune removes the stores below a directory without a write for longer than age, which
// belong to old builds and parameters.
func Prune(dir string, age time.Duration) error {
	stores, _ := os.ReadDir(dir) // a missing directory has none
	for _, s := range stores {
		info, err := s.Info()
		if err != nil || !s.IsDir() || time.Since(info.ModTime()) < age {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, s.Name())); err != nil {
			return fmt.Errorf("remove old cells: %w", err)
		}
	}
	return nil
}

// Load reads a cell into v and reports whether it is stored. An incomplete file does not
// count, so its cell is measured again.
func (s *Store) Load(name string, v any) bool {
	b, err := os.ReadFile(s.path(name))
	return err == nil && json.Unmarshal(b, v) == nil
}

// Save writes a cell atomically.
func (s *Store) Save(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode cell %s: %w", name, err)
	}
	if err := result.WriteFile(s.path(name), b); err != nil {
		return fmt.Errorf("keep cell %s: %w", name, err)
	}
	return nil
}

// unfit are the characters that a name of a cell may have and a file may not.
var unfit = regexp.MustCompile(`[^A-Za-z0-9._-]`)

func (s *Store) path(name string) string {
	return filepath.Join(s.dir, unfit.ReplaceAllStringFunc(name, func(c string) string {
		return fmt.Sprintf("%%%02x", c)
	})+".json")
}

// Tally counts the cells of a run. Read it after all are done.
type Tally struct {
	mu        sync.Mutex
	Used      int      // cells, measured in this process or kept from before
	Disturbed []string // cells disturbed by the machine
	Repeats   int      // attempts that were discarded and measured again
	windows   []Span   // those measured in this process
	schedules []Span   // executed in this process
	cuts      []Cuts   // of schedules executed in this process
	cellCuts  []Cuts   // of the cells used
}

// Cuts is the worst of the links that a schedule took from a host with Roam.
type Cuts struct {
	LateMs      float64 `json:"late_ms"`       // from the moment of the schedule until the carrier was gone
	StillCameMs float64 `json:"still_came_ms"` // from there to the last packet that was sent to that network
}

// worstOf returns the worst of a list, nil of none.
func worstOf(list []Cuts) (worst *Cuts) {
	for _, c := range list {
		if worst == nil {
			worst = new(Cuts)
		}
		worst.LateMs, worst.StillCameMs = max(worst.LateMs, c.LateMs), max(worst.StillCameMs, c.StillCameMs)
	}
	return worst
}

// Span is a part of the run.
type Span struct{ From, To time.Time }

// Meets reports whether two spans have time in common.
func (s Span) Meets(o Span) bool { return s.To.After(o.From) && s.From.Before(o.To) }

// Window is the measuring part of a cell. Outside it the lab builds networks and reads
// captures with all CPUs: a stall there is the lab's own, and disturbs only the windows of
// cells that run in parallel. A cell that sets none is a window as a whole.
type Window struct{ Span }

// Open starts the window.
func (w *Window) Open() { w.From = time.Now() }

// Shut ends the window.
func (w *Window) Shut() { w.To = time.Now() }

// kept is the stored form of a cell.
type kept[T any] struct {
	StallMs float64 `json:"stall_ms,omitempty"` // longest stall of the machine meanwhile
	Cuts    *Cuts   `json:"cuts,omitempty"`     // of its schedules, and of cells that ran at the same time
	Value   T       `json:"value"`
}

// Cell returns the result of measure, or the stored one of the cell of that name in an
// interrupted run. T must survive JSON: unexported fields are lost, and numbers must be
// finite. T must hold everything that the experiment needs of a cell; measure must not
// write to env.Result, which a resumed run would lack. If the machine stalled within its
// window, a cell is measured again, at most env.Repeats times, and never because of its
// result. Cells may run in parallel.
func Cell[T any](env *Env, name string, measure func(w *Window) (T, error)) (T, error) {
	var c kept[T]
	if env.Cells != nil && env.Cells.Load(name, &c) {
		env.View.Logf("cell %s: kept from before", name)
		env.View.CellDone(true)
		env.Kept.note(name, c.StallMs, c.Cuts)
		return c.Value, nil
	}
	var err error
	for n := 0; ; n++ {
		begun := len(env.Kept.cutsSince(0))
		w := Window{Span{From: time.Now()}}
		if c.Value, err = measure(&w); err != nil {
			return c.Value, fmt.Errorf("cell %s: %w", name, err)
		}
		if w.To.IsZero() {
			w.To = time.Now()
		}
		c.StallMs, c.Cuts = 0, worstOf(env.Kept.cutsSince(begun))
		if env.Stalled != nil {
			c.StallMs = env.Stalled(w.Span)
		}
		if c.StallMs == 0 || n >= env.Repeats {
			env.Kept.measuredIn(w.Span)
			break
		}
		env.View.Logf("cell %s: the machine stood still for %.0f ms: it is measured again", name, c.StallMs)
		env.Kept.discard()
	}
	env.View.CellDone(false)
	env.Kept.note(name, c.StallMs, c.Cuts)
	if env.Cells == nil {
		return c.Value, nil
	}
	return c.Value, env.Cells.Save(name, c)
}

func (t *Tally) measuredIn(window Span) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.windows = append(t.windows, window)
}

func (t *Tally) note(name string, stallMs float64, cuts *Cuts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Used++
	if cuts != nil {
		t.cellCuts = append(t.cellCuts, *cuts)
	}
	if stallMs > 0 {
		t.Disturbed = append(t.Disturbed, name)
	}
}

func (t *Tally) discard() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Repeats++
}

// Ran records the span of a schedule. In a run without cells nothing is measured outside of
// them: the lab builds networks there and reads logs.
func (t *Tally) Ran(schedule Span) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.schedules = append(t.schedules, schedule)
}

// Cut records the worst cut of a schedule.
func (t *Tally) Cut(c Cuts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cuts = append(t.cuts, c)
}

// cutsSince returns what Cut has recorded but the first n.
func (t *Tally) cutsSince(n int) []Cuts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.cuts[n:])
}

// Cuts returns the worst cut of the cells; without cells, of the schedules. It is nil if no host
// with Roam lost a link.
func (t *Tally) Cuts() *Cuts {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Used > 0 {
		return worstOf(t.cellCuts)
	}
	return worstOf(t.cuts)
}

// Counts reports whether a stall overlaps the window of a cell; without cells, a schedule; and
// without either, the run. Windows of stored cells were in another process, so they do not count
// here; the cell itself says whether the machine disturbed it.
func (t *Tally) Counts(stall Span) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Used == 0 {
		return len(t.schedules) == 0 || slices.ContainsFunc(t.schedules, stall.Meets)
	}
	return slices.ContainsFunc(t.windows, stall.Meets)
}
