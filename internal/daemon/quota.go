package daemon

import "time"

// The security log has at most so many lines in so much time: what is refused
// comes from outside, and whoever sends it must not fill the disk.
const (
	securityLines = 10
	securityTime  = time.Minute
)

// quota lets through so many lines a period and counts the others. The zero
// value is ready.
type quota struct {
	start   time.Time
	lines   int
	leftOut int
}

// take reports whether a line may be written now, and how many were left out
// since the last one that was.
func (q *quota) take(now time.Time) (ok bool, leftOut int) {
	if now.Sub(q.start) >= securityTime {
		q.start, q.lines = now, 0
	}
	if q.lines >= securityLines {
		q.leftOut++
		return false, 0
	}
	q.lines++
	leftOut, q.leftOut = q.leftOut, 0
	return true, leftOut
}
