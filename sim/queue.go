package sim

import "time"

// event is a function and the time to call it.
type event struct {
	at    time.Duration // since Start
	order uint64
	do    func()
}

func (e event) before(o event) bool {
	return e.at < o.at || e.at == o.at && e.order < o.order
}

// queue is a binary heap of events.
type queue []event

func (q *queue) push(e event) {
	*q = append(*q, e)
	a := *q
	for i := len(a) - 1; i > 0 && a[i].before(a[(i-1)/2]); i = (i - 1) / 2 {
		a[i], a[(i-1)/2] = a[(i-1)/2], a[i]
	}
}

func (q *queue) pop() event {
	a := *q
	first, last := a[0], len(a)-1
	a[0] = a[last]
	a[last] = event{}
	a = a[:last]
	*q = a
	for i := 0; ; {
		least := i
		for _, c := range []int{2*i + 1, 2*i + 2} {
			if c < len(a) && a[c].before(a[least]) {
				least = c
			}
		}
		if least == i {
			return first
		}
		a[i], a[least] = a[least], a[i]
		i = least
	}
}
