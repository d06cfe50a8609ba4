package workload

import (
	"time"

	"roam/lab/live"
)

// Row returns a session for the live view.
func Row(s Session) live.Session {
	st := s.State()
	row := live.Session{Name: s.Name(), Alive: st.Alive, Detail: st.Detail}
	if !st.Last.IsZero() {
		row.Stuck = time.Since(st.Last)
	}
	return row
}
