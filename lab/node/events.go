package node

import "time"

// Added finds the first event after a time that reports a new locator on a link.
func Added(events []Event, link string, after time.Time) (time.Time, bool) {
	for _, e := range events {
		if e.Kind != "locator-added" || e.Time.Before(after) {
			continue
		}
		if HasLink(e.To, link) {
			return e.Time, true
		}
	}
	return time.Time{}, false
}

// HasLink reports whether a set of locators has one on a link.
func HasLink(set []LinkLocator, link string) bool {
	for _, l := range set {
		if l.Link == link {
			return true
		}
	}
	return false
}
