package ilnphost

import "time"

// What comes from outside must not fill the disk: the security log has at most so
// many lines in so much time, and what is told of single sessions, too, which
// a host with ten thousand of them has no use for.
const (
	securityLines = 10
	securityTime  = time.Minute
	sessionLines  = 200
	sessionTime   = 10 * time.Second
)

// quota lets through so many lines a period and counts the others.
type quota struct {
	most    int
	period  time.Duration
	start   time.Time
	lines   int
	leftOut int
}

// take reports whether a line may be written now, and how many were left out
// since the last one that was.
func (q *quota) take(now time.Time) (ok bool, leftOut int) {
	if now.Sub(q.start) >= q.period {
		q.start, q.lines = now, 0
	}
	if q.lines >= q.most {
		q.leftOut++
		return false, 0
	}
	q.lines++
	leftOut, q.leftOut = q.leftOut, 0
	return true, leftOut
}
