package main

import (
	"fmt"
	"time"

	"roam"
	"roam/internal/cli"
	"roam/internal/control"
)

// stateCell colours the states of locators and sessions.
func stateCell(state string, dead bool) cli.Cell {
	colour := cli.Plain
	switch state {
	case "active", "established":
		colour = cli.Green
	case "expired", "aged", "plain", "disabled":
		colour = cli.Yellow
	}
	if dead {
		return cli.Cell{Text: state + ", no path", Colour: cli.Red}
	}
	return cli.Cell{Text: state, Colour: colour}
}

// millis formats milliseconds with three significant digits.
func millis(ms float64) string {
	switch {
	case ms <= 0:
		return "-"
	case ms < 10:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 100:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 10000:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f s", ms/1000)
}

// span formats a duration in its largest unit, followed by the next unit if that is more than
// a tenth of it.
func span(d time.Duration) string {
	s := int64(d.Round(time.Second) / time.Second)
	switch {
	case s < 0:
		return "0 s"
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 600:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	case s < 3600:
		return fmt.Sprintf("%d min", s/60)
	case s < 86400:
		return fmt.Sprintf("%d h %d min", s/3600, s%3600/60)
	}
	return fmt.Sprintf("%d d %d h", s/86400, s%86400/3600)
}

// ago formats the time since t; "-": never.
func (pr *printer) ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return span(pr.now().Sub(t)) + " ago"
}

// left formats the rest of a lifetime in seconds; nil: infinite.
func left(s *float64) string {
	switch {
	case s == nil:
		return "no limit"
	case *s <= 0:
		return "over"
	}
	return span(time.Duration(*s * float64(time.Second)))
}

// nbytes formats a number of bytes with a decimal prefix.
func nbytes(n uint64) string {
	return scaled(n, 1000, []string{" B", " kB", " MB", " GB", " TB", " PB", " EB"})
}

// count formats a number of things: from a million on with a decimal prefix.
func count(n uint64) string { return scaled(n, 1e6, []string{"", " k", " M", " G", " T", " P", " E"}) }

// scaled formats a number whole below a limit, and with a prefix of thousands from there on.
func scaled(n uint64, whole float64, units []string) string {
	v, i := float64(n), 0
	if v < whole {
		return fmt.Sprintf("%d%s", n, units[0])
	}
	for v >= 1000 && i < len(units)-1 {
		v /= 1000
		i++
	}
	return fmt.Sprintf("%.1f%s", v, units[i])
}

// prefix formats a locator as a /64 prefix, in its shortest form.
func prefix(l roam.L64) string { return l.Prefix().String() }

// pathText formats a path to a peer.
func pathText(p control.Path) string {
	return fmt.Sprintf("%s %s > %s", p.Link, prefix(p.Local), prefix(p.Remote))
}
