package ilnphost

import (
	"slices"
	"testing"

	"roam/naming"
)

// FuzzBook changes any two files in every way. Whatever they hold, what is to be written
// has no fault that was not there before, says what was asked for, and leaves others be.
func FuzzBook(f *testing.F) {
	f.Add("nid=1:2:3:4 a\n", "nid=1:2:3:5 b c # d\nnid=1:2:3:6 b\nwhat\n", "b", true)
	f.Add("order=locator-first\n2001-1-1-1.1+2+3+4 a", "order=x\n2001-1-1-1.1+2+3+5 b\n\x00", "x", false)
	f.Add("", "nid=1:2:3:6 l64=2001:1:1:1,1 l64=2001:1:1:1,2 c\r\nnid=1:2:3:6 c", "d", true)
	f.Fuzz(func(t *testing.T, hosts, peers, name string, replace bool) {
		name, err := naming.CleanName(name)
		if err != nil {
			return
		}
		b := bookOf(hosts, peers)
		check := func(what string, next book, err error) book {
			if err != nil {
				return b
			}
			if len(next.Faults) > len(b.Faults) || next.hosts != b.hosts {
				t.Errorf("%s: faults %v, before %v, of %q", what, next.Faults, b.Faults, next.peers.Text)
			}
			if again := naming.ReadHosts(next.hosts, next.peers); len(again.Faults) != len(next.Faults) {
				t.Errorf("%s: read again, %v", what, again.Faults)
			}
			return next
		}
		next, err := b.add(named(nodeC, name), replace)
		if next = check("add", next, err); err == nil && !next.has(nodeC, name) {
			t.Errorf("added, and %s does not mean it in %q", name, next.peers.Text)
		}
		removed := check("remove", next.remove(nodeC), nil)
		if slices.ContainsFunc(removed.Written(nodeC), func(l naming.Line) bool { return l.File == "peers" }) {
			t.Errorf("removed, and it is in %q", removed.peers.Text)
		}
		for _, r := range b.Records {
			renamed, err := b.rename(r.NID, r.Names[0], name, replace)
			if check("rename", renamed, err); err == nil && len(b.inHosts(b.Written(r.NID))) == 0 && !renamed.has(r.NID, name) {
				t.Errorf("renamed, and %s does not mean it in %q", name, renamed.peers.Text)
			}
		}
	})
}
