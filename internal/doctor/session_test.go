package doctor

import (
	"slices"
	"strings"
	"testing"
)

// The findings name the reasons why session addresses do not reach their device, and
// foreign routes in their prefix.
func TestSessionDevice(t *testing.T) {
	without := func(f *Facts, name string) {
		f.Links = slices.DeleteFunc(slices.Clone(f.Links), func(l Link) bool { return l.Name == name })
	}
	for _, c := range []struct {
		what string
		do   func(*Facts)
		want string
	}{
		{"deleted", func(f *Facts) { without(f, "roam0") }, "fault device: roam0, the device of session addresses, is gone"},
		{"down", func(f *Facts) {
			without(f, "roam0")
			f.Links = append(f.Links, Link{Name: "roam0"})
		}, "fault device: roam0, the device of session addresses, is down"},
		{"without route", func(f *Facts) { f.SessionRoutes = f.SessionRoutes[1:] },
			"fault device: no route leads fd69:6c6e:7000:2627::/64 to roam0"},
		{"advertised by a router", func(f *Facts) {
			f.SessionRoutes = append(f.SessionRoutes,
				sessionRoutes(`[{"dst":"fd69:6c6e:7000:2627::/64","dev":"wlan0","protocol":"kernel"},{"dst":"unreadable"}]`)...)
		}, "warning device: another route leads fd69:6c6e:7000:2627::/64 to wlan0 (table main)"},
		{"an address in it", func(f *Facts) {
			f.SessionRoutes = append(f.SessionRoutes,
				sessionRoutes(`[{"type":"local","dst":"fd69:6c6e:7000:2627::9","dev":"wlan0","table":"local"}]`)...)
		}, "warning device: wlan0 has the address fd69:6c6e:7000:2627::9"},
		{"an address on a link named like it", func(f *Facts) {
			f.SessionRoutes = append(f.SessionRoutes,
				sessionRoutes(`[{"type":"local","dst":"fd69:6c6e:7000:2627::9","dev":"roam01","table":"local"}]`)...)
		}, "warning device: roam01 has the address fd69:6c6e:7000:2627::9"},
		{"an older kernel", func(f *Facts) { f.Daemon.Plane.Features = []string{"tcx", "csum-replace-ipv6", "ringbuf"} },
			"note device: links are guarded one by one"},
		{"a full run directory", func(f *Facts) { f.RunDir.Free = 4096 }, "fault disk: the file system of /run/roam is full"},
	} {
		f := well()
		c.do(&f)
		if b := bad(f); len(b) != 1 || !strings.HasPrefix(b[0], c.want) {
			t.Errorf("%s: %q", c.what, b)
		}
	}
	f := well()
	f.SessionRoutes, f.Daemon = nil, nil
	without(&f, "roam0")
	if b := bad(f); len(b) != 1 || !strings.HasPrefix(b[0], "fault daemon") {
		t.Errorf("without a daemon: %q", b)
	}
}
