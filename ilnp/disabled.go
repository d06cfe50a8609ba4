package ilnp

// DisabledLinks says by name which links are out of use, since an index does not outlast its link. A successor compares
// its configuration with that of before: a command lasts where they agree.
type DisabledLinks struct {
	Configured []string `json:"configured,omitempty"` // out of use by configuration
	Names      []string `json:"names,omitempty"`      // out of use, by configuration and commands
}

// disabledLinks returns what a predecessor kept; one of a build before has left the names beside its indexes.
func (st *savedState) disabledLinks() (l DisabledLinks) {
	if st.Links != nil {
		return *st.Links
	}
	for _, d := range st.Disabled {
		if d.Name != "" {
			l.Names = append(l.Names, d.Name)
		}
	}
	return l
}
