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

// Store keeps the outcome of finished cells on disk, so that a long experiment
// that was interrupted goes on where it stopped. Package runner makes one per
// run: experiment, seed, parameters, engine and build choose the directory, so
// that a cell of another version is never taken for one of this.
type Store struct{ dir string }

// OpenStore returns the store in a directory, which is made with the first
// cell.
func OpenStore(dir string) *Store { return &Store{dir} }

// Len returns how many cells are there.
func (s *Store) Len() int {
	names, _ := filepath.Glob(filepath.Join(s.dir, "*.json")) // the pattern is sound
	return len(names)
}

// Dir returns the directory.
func (s *Store) Dir() string { return s.dir }

// Clear removes all cells.
func (s *Store) Clear() error {
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("remove cells: %w", err)
	}
	return nil
}

// Prune removes the stores below a directory that nothing was written to for
// longer than age: of builds and parameters that nobody goes on with.
func Prune(dir string, age time.Duration) error {
	stores, _ := os.ReadDir(dir) // a directory that is not there has none
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

// Load reads a cell into v and reports whether it was there. A file that cannot
// be read whole is no cell: it is measured again.
func (s *Store) Load(name string, v any) bool {
	b, err := os.ReadFile(s.path(name))
	return err == nil && json.Unmarshal(b, v) == nil
}

// Save writes a cell so that it is there whole or not at all.
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

// Tally is what became of the cells of a run. It is read when all are done.
type Tally struct {
	mu        sync.Mutex
	Used      int      // cells, measured in this process or kept from before
	Disturbed []string // those that the machine disturbed
	Repeats   int      // attempts that were discarded and measured again
	windows   []Span   // those of the cells that were measured in this process
}

// Span is a part of the run.
type Span struct{ From, To time.Time }

// Meets reports whether two spans have time in common.
func (s Span) Meets(o Span) bool { return s.To.After(o.From) && s.From.Before(o.To) }

// Window is the part of a cell in which what is measured goes on. Before it
// networks are built, and after it captures are read, with all that the machine
// has: a stall then is the lab's own, and spoils nothing but the windows of cells
// that run beside this one. A cell that does not say is a window as a whole.
type Window struct{ Span }

// Open begins the window.
func (w *Window) Open() { w.From = time.Now() }

// Shut ends the window.
func (w *Window) Shut() { w.To = time.Now() }

// kept is a cell as it is stored.
type kept[T any] struct {
	StallMs float64 `json:"stall_ms,omitempty"` // longest stall of the machine meanwhile
	Value   T       `json:"value"`
}

// Cell returns what measure returns, or what it returned for the cell of that
// name before the experiment was interrupted. T must survive JSON: what is not
// exported in it is lost, and numbers must be finite. Everything that the
// experiment needs of a cell has to be in T; measure must not write to
// env.Result, or a resumed run would lack it. A cell in whose window the machine
// stood still is measured again, at most env.Repeats times; never for its
// outcome. Cells may be measured side by side.
func Cell[T any](env *Env, name string, measure func(w *Window) (T, error)) (T, error) {
	var c kept[T]
	if env.Cells != nil && env.Cells.Load(name, &c) {
		env.View.Logf("cell %s: kept from before", name)
		env.View.CellDone(true)
		env.Kept.note(name, c.StallMs)
		return c.Value, nil
	}
	var err error
	for n := 0; ; n++ {
		w := Window{Span{From: time.Now()}}
		if c.Value, err = measure(&w); err != nil {
			return c.Value, fmt.Errorf("cell %s: %w", name, err)
		}
		if w.To.IsZero() {
			w.To = time.Now()
		}
		c.StallMs = 0
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
	env.Kept.note(name, c.StallMs)
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

func (t *Tally) note(name string, stallMs float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Used++
	if stallMs > 0 {
		t.Disturbed = append(t.Disturbed, name)
	}
}

func (t *Tally) discard() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Repeats++
}

// Counts reports whether a stall reached into the window of a cell. Without cells
// all of a run is measured. That of a cell kept from before was in another
// process; whether the machine disturbed it stands with the cell.
func (t *Tally) Counts(stall Span) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Used == 0 || slices.ContainsFunc(t.windows, stall.Meets)
}
