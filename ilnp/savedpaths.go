package ilnp

import "time"

// savedPath is what a successor needs to know of the liveness of a path: that it has ever answered, and
// that only our direction of it lives. If the other one is dead, nothing that comes later shows either.
type savedPath struct {
	Path      Path      `json:"path"`
	Heard     time.Time `json:"heard"`              // when an answer last came
	Confirmed time.Time `json:"confirmed,omitzero"` // when a complaint along it was last acknowledged; zero: since then it has answered
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
