package ilnphost

import (
	"fmt"
	"net"
	"os"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"roam"
	"roam/internal/testutil"
)

// A successor learns to which links the programs of an uplink are attached: not
// to the session device and its like, and not to what was let go or is gone.
func TestAttachedUplinks(t *testing.T) {
	r := newRig(t)
	testutil.Need(t, "ip")
	pid := os.Getpid()
	name := func(end string) string { return fmt.Sprint(end, pid) }
	linkOf := func(end string) roam.LinkID {
		l, err := net.InterfaceByName(name(end))
		r.must(err)
		return roam.LinkID(l.Index)
	}
	for _, entry := range []string{"a", "b"} {
		ip(t, "link add "+name(entry)+" type veth peer name "+name(entry+"x"))
	}
	want := func(what string, links ...roam.LinkID) {
		t.Helper()
		got, err := r.AttachedUplinks()
		r.must(err)
		slices.Sort(got)
		slices.Sort(links)
		if !slices.Equal(got, links) {
			t.Errorf("%s: attached to %v, want %v", what, got, links)
		}
	}
	want("at first")
	a, b, c := linkOf("a"), linkOf("ax"), linkOf("b")
	r.must(r.AttachUplink(loopback, true))
	r.must(r.AttachUplink(a, true))
	r.must(r.AttachUplink(b, true))
	r.must(r.AttachSession(c, linkOf("bx")))
	r.restart()
	want("after a restart", loopback, a, b)
	r.must(r.DetachUplink(loopback))
	want("detached from one", a, b)
	ip(t, "link del "+name("a"))
	want("links are gone")
	if r.set.TCX() {
		if _, err := os.Stat(r.linkPin(a)); err == nil {
			t.Error("the pin of a link that is gone stays")
		}
		r.wantDetached(ebpf.AttachTCXIngress)
	}
}
