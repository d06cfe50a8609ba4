// Package live shows a running experiment in the terminal: a small board that it redraws in
// place on a terminal, plain lines elsewhere.
//
// It implements links with state, locator and rate, sessions with their health, the last
// handoff and its cost, and a log. It omits input. It is driven by experiments and by
// lab/scene, from any goroutine.
package live

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// redrawEvery is the pause between two drawings of the board.
const redrawEvery = 200 * time.Millisecond

// logLines is the number of log lines on the board.
const logLines = 6

// Link is a line of the board.
type Link struct {
	Name    string
	Up      bool
	Locator string // "" when there is none
	State   string // such as "active"
	TxMbps  float64
	RxMbps  float64
}

// Session is a line of the board.
type Session struct {
	Name   string
	Alive  bool
	Stuck  time.Duration // time since the receiving application got data
	Detail string
}

// View shows one run. The zero value shows nothing.
type View struct {
	mu       sync.Mutex
	w        io.Writer
	tty      bool
	colour   bool
	started  time.Time
	title    string
	phase    string
	handoff  string
	length   time.Duration
	clock    time.Time // start of traffic
	plan     plan
	links    []Link
	sessions []Session
	log      []string
	drawn    int // lines of the board on the screen
	quit     chan struct{}
	done     chan struct{}
}

// New returns a view that writes to w; it draws a board if w is a terminal, and
// colours it unless NO_COLOR is set.
func New(w io.Writer) *View {
	v := &View{w: w, started: time.Now()}
	if f, ok := w.(*os.File); ok {
		_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
		v.tty = err == nil && os.Getenv("TERM") != "dumb"
	}
	v.colour = v.tty && os.Getenv("NO_COLOR") == ""
	return v
}

// Start starts the drawing.
func (v *View) Start(title string) {
	v.mu.Lock()
	v.title = title
	v.plan.begun = time.Now()
	run := ""
	if v.plan.runs > 1 {
		run = fmt.Sprintf(", run %d of %d", v.plan.run+1, v.plan.runs)
	}
	v.mu.Unlock()
	if !v.tty {
		v.Logf("%s%s", title, run)
		return
	}
	v.quit, v.done = make(chan struct{}), make(chan struct{})
	go v.run()
}

func (v *View) run() {
	defer close(v.done)
	t := time.NewTicker(redrawEvery)
	defer t.Stop()
	for {
		v.draw()
		select {
		case <-v.quit:
			return
		case <-t.C:
		}
	}
}

// Stop draws a last time and leaves the board on the screen.
func (v *View) Stop() {
	if v.quit == nil {
		return
	}
	close(v.quit)
	<-v.done
	v.draw()
	v.quit, v.drawn = nil, 0
}

// Phase names the current phase.
func (v *View) Phase(format string, args ...any) {
	v.mu.Lock()
	v.phase = fmt.Sprintf(format, args...)
	text := v.phase
	v.mu.Unlock()
	v.Logf("%s", text)
}

// Clock starts the clock of the board; length is how long the traffic will run.
func (v *View) Clock(start time.Time, length time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clock, v.length = start, length
}

// Handoff shows the last handoff and its cost.
func (v *View) Handoff(format string, args ...any) {
	v.mu.Lock()
	v.handoff = fmt.Sprintf(format, args...)
	text := v.handoff
	v.mu.Unlock()
	v.Logf("%s", text)
}

// Links replaces the links shown.
func (v *View) Links(l []Link) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.links = l
}

// Sessions replaces the sessions shown.
func (v *View) Sessions(s []Session) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sessions = s
}

// Logf adds a line to the log.
func (v *View) Logf(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	line := fmt.Sprintf("%7.2f s  %s", v.now().Seconds(), fmt.Sprintf(format, args...))
	if !v.tty {
		if v.w != nil {
			fmt.Fprintln(v.w, line)
		}
		return
	}
	v.log = append(v.log, line)
	v.log = v.log[max(0, len(v.log)-logLines):]
}

// now is the time since the start of traffic, or since the start of the view
// before that.
func (v *View) now() time.Duration {
	if !v.clock.IsZero() {
		return time.Since(v.clock)
	}
	return time.Since(v.started)
}

// draw writes the board over the previous one in a single write, each line cleared to its
// end, so that it does not flicker.
func (v *View) draw() {
	v.mu.Lock()
	defer v.mu.Unlock()
	lines := v.board(v.width())
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.drawn)
	}
	b.WriteString("\r")
	for _, l := range lines {
		b.WriteString(l + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	v.drawn = len(lines)
	_, _ = io.WriteString(v.w, b.String()) // a terminal that is gone must not stop the measurement
}

// width returns the width of the terminal; 80 columns if unknown.
func (v *View) width() int {
	if f, ok := v.w.(*os.File); ok {
		if ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && ws.Col > 20 {
			return int(ws.Col)
		}
	}
	return 80
}
