package live

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// barWidth is the length of a full rate bar, in columns.
const barWidth = 18

// stuckAfter is the time without delivered data after which a session shows as stuck.
const stuckAfter = 700 * time.Millisecond

// board returns the lines to draw.
func (v *View) board(width int) []string {
	out := []string{v.paint("1", v.title)}
	if whole := v.plan.line(time.Now(), width); whole != "" {
		out = append(out, whole)
	}
	out = append(out, v.progress(width))
	if len(v.links) > 0 {
		out = append(out, "", v.paint("2", fmt.Sprintf("%-8s%-9s%-24s%8s  %-*s%8s  %s", "link", "state", "locator",
			"out Mb/s", barWidth, "", "in Mb/s", "")))
		full := 1.0
		for _, l := range v.links {
			full = max(full, l.TxMbps, l.RxMbps)
		}
		for _, l := range v.links {
			out = append(out, v.link(l, full))
		}
	}
	if len(v.sessions) > 0 {
		out = append(out, "")
	}
	for _, s := range v.sessions {
		out = append(out, v.session(s))
	}
	if v.handoff != "" {
		out = append(out, "", v.paint("1", "last: ")+v.handoff)
	}
	out = append(out, "")
	for _, l := range v.log {
		out = append(out, v.paint("2", l))
	}
	for i, l := range out {
		out[i] = clip(l, width-1)
	}
	return out
}

// progress is the phase with a bar of the time that has passed.
func (v *View) progress(width int) string {
	if v.length == 0 {
		return v.phase
	}
	share := min(1, max(0, v.now().Seconds()/v.length.Seconds()))
	n := min(30, max(5, width/4))
	return fmt.Sprintf("[%s] %5.1f / %s s  %s", bar(share, n, '·'), v.now().Seconds(),
		strconv.FormatFloat(math.Round(10*v.length.Seconds())/10, 'f', -1, 64), v.phase)
}

func (v *View) link(l Link, full float64) string {
	state, code := l.State, "32"
	switch {
	case !l.Up:
		state, code = "down", "31"
	case state == "":
		state, code = "up", "33"
	case state != "active":
		code = "33"
	}
	return fmt.Sprintf("%-8s%s%-24s%8.1f  %s%8.1f  %s", l.Name, v.paint(code, fmt.Sprintf("%-9s", state)), l.Locator,
		l.TxMbps, v.paint("34", bar(l.TxMbps/full, barWidth, ' ')), l.RxMbps,
		v.paint("36", bar(l.RxMbps/full, barWidth, ' ')))
}

func (v *View) session(s Session) string {
	mark := v.paint("32", "● alive ")
	switch {
	case !s.Alive:
		mark = v.paint("31", "✗ dead  ")
	case s.Stuck > stuckAfter:
		mark = v.paint("33", fmt.Sprintf("○ %4.1f s ", s.Stuck.Seconds()))
	}
	return fmt.Sprintf("%s %-12s %s", mark, s.Name, s.Detail)
}

// bar draws a share of n columns in eighths.
func bar(share float64, n int, rest rune) string {
	eighths := int(min(1, max(0, share))*float64(n)*8 + 0.5)
	s := strings.Repeat("█", eighths/8)
	if eighths%8 > 0 {
		s += string([]rune(" ▏▎▍▌▋▊▉")[eighths%8])
	}
	return s + strings.Repeat(string(rest), n-utf8.RuneCountInString(s))
}

func (v *View) paint(code, s string) string {
	if !v.colour {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// clip cuts a line to n columns; escape sequences take none. A line that wraps
// would spoil the count of lines to draw over.
func clip(s string, n int) string {
	columns, escape := 0, false
	for i, r := range s {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		default:
			if columns++; columns > n {
				return s[:i] + "\x1b[0m"
			}
		}
	}
	return s
}
