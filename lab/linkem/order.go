package linkem

// ring is a queue of frames that reuses its memory.
type ring struct {
	f     []frame // length is a power of two
	first int
	n     int
}

func (r *ring) len() int { return r.n }

func (r *ring) push(f frame) {
	if r.n == len(r.f) {
		r.grow()
	}
	r.f[(r.first+r.n)&(len(r.f)-1)] = f
	r.n++
}

func (r *ring) pop() frame {
	f := r.f[r.first]
	r.f[r.first].buf = nil // the buffer belongs to someone else now
	r.first = (r.first + 1) & (len(r.f) - 1)
	r.n--
	return f
}

// grow doubles the memory and straightens the queue.
func (r *ring) grow() {
	bigger := make([]frame, max(64, 2*len(r.f)))
	for i := range r.n {
		bigger[i] = r.f[(r.first+i)&(len(r.f)-1)]
	}
	r.f, r.first = bigger, 0
}

// flight holds the frames on the wire in order of due time, then of launch. It is a binary
// heap: without reordering frames arrive in due order, and push is an append.
type flight struct {
	h    []frame
	seqs uint64
}

func (w *flight) len() int { return len(w.h) }

// head returns the frame that is due first. There must be one.
func (w *flight) head() *frame { return &w.h[0] }

func (w *flight) less(i, j int) bool {
	a, b := &w.h[i], &w.h[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (w *flight) push(f frame) {
	f.seq = w.seqs
	w.seqs++
	w.h = append(w.h, f)
	for i := len(w.h) - 1; i > 0; {
		up := (i - 1) / 2
		if !w.less(i, up) {
			return
		}
		w.h[i], w.h[up] = w.h[up], w.h[i]
		i = up
	}
}

func (w *flight) pop() frame {
	f := w.h[0]
	n := len(w.h) - 1
	w.h[0] = w.h[n]
	w.h[n].buf = nil
	w.h = w.h[:n]
	for i := 0; ; {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < n && w.less(c, least) {
				least = c
			}
		}
		if least == i {
			return f
		}
		w.h[i], w.h[least] = w.h[least], w.h[i]
		i = least
	}
}
