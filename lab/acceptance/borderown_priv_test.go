package acceptance

import (
	"net/netip"
	"testing"

	"roam"
	"roam/internal/testutil"
	"roam/lab/site"
)

// TestBorderOwnAddress has a border whose links to providers have link-local addresses alone, and an address of a
// provider's prefix on its loopback. Packets to it are not rewritten: the border answers a ping from outside, and gets
// the answers to its own.
func TestBorderOwnAddress(t *testing.T) {
	s := newSite(t, site.Policy(0, "vlb", 50, 50), "")
	own := roam.ILV{L64: roam.ILVFromAddr(site.Providers[0][0].Addr()).L64, NID: 0x99}.Addr()
	outside := site.External.Addr().Next()
	if err := s.Router.AddAddr("lo", netip.PrefixFrom(own, 128)); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, patience, func() bool {
		return s.Core.Command(t.Context(), "ping", "-n", "-q", "-c", "1", "-W", "1", own.String()).Run() == nil
	}, "the border answers at its address on the loopback")
	out, err := s.Router.Command(t.Context(), "ping", "-n", "-q", "-c", "3", "-i", "0.1", "-W", "2", "-I", own.String(),
		outside.String()).CombinedOutput()
	if err != nil {
		t.Errorf("a ping from there: %v\n%s", err, out)
	}
}
