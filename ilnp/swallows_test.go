package ilnp

import "testing"

// TestWhyAPathIsAvoided: each end of a spell in which data keep off a path ends the reason for it. When data keep off
// the path again as it answers no probes, that is the reason.
func TestWhyAPathIsAvoided(t *testing.T) {
	for name, end := range map[string]func(*bench, *session, *checkedPath){
		"used again":              func(b *bench, s *session, h *checkedPath) { b.useAgain(b.now, s, h) },
		"left":                    func(b *bench, s *session, h *checkedPath) { b.leave(b.now, s, h) },
		"no path answers":         func(b *bench, s *session, _ *checkedPath) { b.forgetDoubts(b.now, s) },
		"the last that is listed": func(_ *bench, s *session, h *checkedPath) { trustLast(s, []Path{h.Path}) },
	} {
		b, _ := reporting(t)
		s := b.sessions[theKey]
		h := s.check.of(s.entry.Paths[0])
		h.swallows = true
		b.avoid(b.now, s, h)
		if why := viewOf(b.now, s, h.Path, 0).Why; why != "avoided: data do not arrive" {
			t.Fatalf("%s: %q of a path that drops data", name, why)
		}
		if end(b, s, h); s.avoids(h.Path) {
			t.Fatalf("%s: data still keep off the path", name)
		}
		b.avoid(b.now, s, h)
		if why := viewOf(b.now, s, h.Path, 0).Why; why != "avoided: no answers" {
			t.Errorf("%s: %q of a path that answers nothing", name, why)
		}
	}
}
