package ilnp

import (
	"time"

	"roam/multipath"
)

// savedPath is what a successor needs to know of the liveness of a path: that it has ever answered, and
// that only our direction of it lives. If the other one is dead, nothing that comes later shows either.
type savedPath struct {
	Path      Path      `json:"path"`
	Heard     time.Time `json:"heard"`              // when an answer last came
	Confirmed time.Time `json:"confirmed,omitzero"` // when a complaint along it was last acknowledged; zero: since then it has answered
}

// savedRate is what a successor needs to know of the rate of a path in use, so that shares stay as they are.
type savedRate struct {
	Path  Path    `json:"path"`
	Bytes float64 `json:"bytes,omitempty"` // a second, by the trains of this host; 0: not known
	Told  uint8   `json:"told,omitempty"`  // what it costs by the correspondent's measure
}

// saveRates returns what is known of the rates of the paths in use.
func saveRates(s *session) (list []savedRate) {
	for _, p := range s.entry.Paths {
		v := savedRate{Path: p, Bytes: s.rates[p].Last(), Told: s.reports.told[p]}
		if v.Bytes > 0 || v.Told > 0 {
			list = append(list, v)
		}
	}
	return list
}

// restoreRates takes what a predecessor knew. Each rate is measured anew, and counts until then. told says whether the
// correspondent had told any cost.
func restoreRates(now time.Time, s *session, list []savedRate, told bool) {
	if told {
		s.reports.told = make(map[Path]uint8)
	}
	for _, v := range list[:min(len(list), MaxPaths)] {
		if v.Bytes > 0 {
			s.rates.put(now, v.Path, nil, multipath.Held(v.Bytes))
		}
		if told && v.Told > 0 {
			s.reports.told[v.Path] = min(v.Told, multipath.CostMost)
		}
	}
}

// savePaths returns what is known of the session's paths that have answered.
func (k *pathCheck) savePaths() (list []savedPath) {
	for _, h := range k.paths {
		if !h.Heard().IsZero() {
			list = append(list, savedPath{h.Path, h.Heard(), h.confirmed})
		}
	}
	return list
}

// restorePaths takes what a predecessor knew.
func (k *pathCheck) restorePaths(list []savedPath) {
	for _, v := range list[:min(len(list), 2*MaxPaths)] {
		h := k.of(v.Path)
		h.Recall(v.Heard)
		h.confirmed = v.Confirmed
	}
}
