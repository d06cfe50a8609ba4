package stallmonitor

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"roam/lab/result"
)

const (
	// sampleEvery is the pause between two samples: short, since what the daemon does between
	// a sample and a stall counts as the stall's, and long enough to cost little.
	sampleEvery = 40 * time.Millisecond
	// findEvery is the pause between two searches for new processes and threads.
	findEvery = 10 * sampleEvery
	// keptSamples reach back for the longest stall that can be divided.
	keptSamples = 50
	// daemonName is the name of the daemon's process.
	daemonName = "roamd"
)

// process is one that belongs to the run, or was found not to.
type process struct {
	owner result.Owner // "": it does not belong to the run
	tasks map[int]*thread
}

// thread has the open files of a thread in /proc.
type thread struct{ schedstat, stat *os.File }

// sampler reads what the threads of a run do: those of the process root, which is the
// emulator's, and of all its descendants.
type sampler struct {
	root int

	mu     sync.Mutex
	found  map[int]process
	buf    []byte
	kept   []sample // the oldest first
	totals map[result.Owner]result.Processes
	stat   *os.File
}

// newSampler takes the first sample.
func newSampler(root int) *sampler {
	s := &sampler{root: root, found: map[int]process{}, buf: make([]byte, 1<<16),
		totals: map[result.Owner]result.Processes{}}
	s.stat, _ = os.Open("/proc/stat") // without it nothing was stolen
	s.find()
	s.kept = []sample{s.read(false)}
	return s
}

// run takes samples until quit is closed.
func (s *sampler) run(quit <-chan struct{}) {
	t := time.NewTicker(sampleEvery)
	defer t.Stop()
	for last := time.Now(); ; {
		select {
		case <-quit:
			return
		case <-t.C:
		}
		s.mu.Lock()
		if time.Since(last) >= findEvery {
			s.find()
			last = time.Now()
		}
		now := s.read(false)
		account(s.totals, s.kept[len(s.kept)-1], now)
		s.kept = append(s.kept[max(0, len(s.kept)+1-keptSamples):], now)
		s.mu.Unlock()
	}
}

// settleWithin bounds the wait for the account of stolen time, which the kernel keeps with the
// timer tick: every 10 ms at most.
const settleWithin = 2 * tickMs * time.Millisecond

// settled waits until the kernel has accounted a tick of a core, which a core that sleeps has
// not, and returns the stolen time of each.
func settled(core int) map[int]float64 {
	line := func() string {
		b, _ := os.ReadFile("/proc/stat")
		return coreLine(string(b), core)
	}
	t := time.NewTicker(period)
	defer t.Stop()
	for was, end := line(), time.Now().Add(settleWithin); line() == was && time.Now().Before(end); {
		<-t.C
	}
	return stealByCore()
}

// blame finds whose time a stall was that has just ended. It looks at the threads at once; the
// function that it returns waits for the account of stolen time.
func (s *sampler) blame(stall result.Stall, queuedMs float64) func() result.Stall {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.kept[0]
	began := stall.At.Add(-time.Duration(stall.Ms * float64(time.Millisecond)))
	for _, k := range s.kept {
		if !k.at.After(began) {
			before = k
		}
	}
	s.find()
	after := s.read(true)
	return func() result.Stall {
		after.steal = settled(stall.Core)
		return blame(stall, queuedMs, before, after)
	}
}

// report returns the totals of the run.
func (s *sampler) report() map[result.Owner]result.Processes {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.totals
}

// find looks for processes and threads that are new, and forgets those that have ended.
func (s *sampler) find() {
	pids := numbers("/proc")
	for _, pid := range pids {
		if p, known := s.found[pid]; !known || p.owner != "" {
			s.found[pid] = s.look(pid, p)
		}
	}
	for pid, p := range s.found {
		if _, still := slices.BinarySearch(pids, pid); !still {
			p.forget()
			delete(s.found, pid)
		}
	}
}

// look reads whose a process is, which changes when it executes a program, and its threads.
func (s *sampler) look(pid int, p process) process {
	dir := "/proc/" + strconv.Itoa(pid)
	b, err := os.ReadFile(dir + "/stat")
	name, parent, _, ok := parseTask(string(b))
	if err != nil || !ok {
		return p
	}
	switch {
	case pid == os.Getpid():
		return p // the stall monitor itself
	case pid == s.root:
		p.owner = result.OwnerEmulator
	case p.owner == "" && !s.belongs(parent):
		return p
	case name == daemonName:
		p.owner = result.OwnerRoam
	default:
		p.owner = result.OwnerWorkload
	}
	if p.tasks == nil {
		p.tasks = map[int]*thread{}
	}
	for _, id := range numbers(dir + "/task") {
		if p.tasks[id] != nil {
			continue
		}
		base := dir + "/task/" + strconv.Itoa(id)
		sched, err := os.Open(base + "/schedstat")
		if err != nil {
			continue // it has ended, or the kernel does not have it
		}
		stat, err := os.Open(base + "/stat")
		if err != nil {
			_ = sched.Close()
			continue
		}
		p.tasks[id] = &thread{sched, stat}
	}
	return p
}

// belongs reports whether a process is the root or one of its descendants.
func (s *sampler) belongs(pid int) bool {
	const depth = 100 // of processes, against a loop while they change
	for range depth {
		if p, known := s.found[pid]; known || pid == s.root {
			return pid == s.root || p.owner != ""
		}
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		_, parent, _, ok := parseTask(string(b))
		if err != nil || !ok {
			return false
		}
		pid = parent
	}
	return false
}

func (p process) forget() {
	for id, t := range p.tasks {
		t.close()
		delete(p.tasks, id)
	}
}

func (t *thread) close() {
	_ = t.schedstat.Close()
	_ = t.stat.Close()
}

// read takes a sample; cores says whether to look where all threads ran, and not only those
// of the daemon.
func (s *sampler) read(cores bool) sample {
	out := sample{tasks: map[int]task{}, steal: parseSteal(s.text(s.stat))}
	for _, p := range s.found {
		for id, t := range p.tasks {
			run, wait, ok := parseSchedstat(s.text(t.schedstat))
			if !ok {
				t.close()
				delete(p.tasks, id)
				continue
			}
			now := task{p.owner, unknownCore, run, wait}
			if cores || p.owner == result.OwnerRoam {
				if _, _, core, ok := parseTask(s.text(t.stat)); ok {
					now.core = core
				}
			}
			out.tasks[id] = now
		}
	}
	out.at = time.Now()
	return out
}

// text reads a file of /proc from its beginning; it is valid until the next call.
func (s *sampler) text(f *os.File) string {
	if f == nil {
		return ""
	}
	n, _ := f.ReadAt(s.buf, 0) // an error, such as the end of the thread, leaves nothing
	return string(s.buf[:n])
}

// numbers lists the entries of a directory that are numbers, in order.
func numbers(dir string) (list []int) {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list
}

// parseTask reads the name, the parent and the core of a stat file of a process or a thread.
// The name is in parentheses and may hold anything.
func parseTask(text string) (name string, parent, core int, ok bool) {
	const parentAt, coreAt = 1, 36 // fields after the name
	open, shut := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || shut < open {
		return "", 0, 0, false
	}
	f := strings.Fields(text[shut+1:])
	if len(f) <= coreAt {
		return "", 0, 0, false
	}
	parent, err := strconv.Atoi(f[parentAt])
	core, cerr := strconv.Atoi(f[coreAt])
	return text[open+1 : shut], parent, core, err == nil && cerr == nil
}

// parseSchedstat reads a schedstat file: nanoseconds on a core, and in its run queue.
func parseSchedstat(text string) (run, wait time.Duration, ok bool) {
	f := strings.Fields(text)
	if len(f) < 2 {
		return 0, 0, false
	}
	r, err := strconv.ParseInt(f[0], 10, 64)
	w, werr := strconv.ParseInt(f[1], 10, 64)
	return time.Duration(r), time.Duration(w), err == nil && werr == nil
}

// coreLine finds the line of a core in /proc/stat.
func coreLine(text string, core int) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "cpu"+strconv.Itoa(core)+" ") {
			return line
		}
	}
	return ""
}

// parseSteal reads the stolen milliseconds of each core in /proc/stat.
func parseSteal(text string) map[int]float64 {
	out := map[int]float64{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 9 || !strings.HasPrefix(f[0], "cpu") {
			continue
		}
		core, err := strconv.Atoi(f[0][len("cpu"):])
		ticks, terr := strconv.ParseFloat(f[8], 64)
		if err == nil && terr == nil {
			out[core] = ticks * tickMs
		}
	}
	return out
}
