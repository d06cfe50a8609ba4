package arm

// Static is plain IPv6 on the first link, which never changes: the reference for every
// figure.
var Static Simulated = static{}

// static differs from plain IPv6 in its schedule only.
type static struct{ plain }

func (static) Name() string   { return "static" }
func (static) Title() string  { return "IPv6 that never moves" }
func (static) Traits() Traits { return Traits{Survives: true} }
