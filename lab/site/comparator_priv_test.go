package site

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"roam/internal/testutil"
)

// Every comparator carries echoes between two sites. Beyond its own border a host has an
// address of the first provider, except where packets are only forwarded.
func TestComparators(t *testing.T) {
	testutil.NeedRoot(t)
	for _, tool := range []string{"ping", "radvd", "ip", "nft"} {
		testutil.Need(t, tool)
	}
	ctx := t.Context()
	s, err := New("comparators", true)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err == nil {
		err = s.Count(ctx, 40+8+56, 7000)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Comparators {
		t.Run(c.Name, func(t *testing.T) { carries(ctx, t, s, c) })
	}
}

func carries(ctx context.Context, t *testing.T, s *Site, c Comparator) {
	const echoes = 5
	before, err := s.Counted(ctx)
	if err != nil {
		t.Fatal(err)
	}
	target, err := s.Compare(ctx, c)
	testutil.NeedKernel(t, c.Name, !errors.Is(err, ErrUnavailable))
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.InsideHost.AppCommand(ctx, "ping", "-n", "-q", "-i", "0.2", "-c", "5", target.String()).CombinedOutput()
	if err != nil {
		t.Fatalf("ping %v: %v\n%s", target, err, out)
	}
	after, err := s.Counted(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := Passed{Link: [2]uint64{echoes, 0}}
	if c.Name == Forwarding.Name {
		want = Passed{Strays: echoes}
	}
	for b, p := range after {
		if got := p.Since(before[b]); got != want {
			t.Errorf("border %d: %+v passed, want %+v", b, got, want)
		}
	}
	if err := s.Restore(ctx, c); err != nil {
		t.Fatal(err)
	}
	if c.Name == Forwarding.Name {
		return
	}
	if err := s.InsideHost.AppCommand(ctx, "ping", "-n", "-q", "-W", "1", "-c", "1", target.String()).Run(); err == nil {
		t.Error("echoes still pass when the comparator is gone")
	}
}

// A comparator whose program is not there is named, with the package to install.
func TestMissingProgram(t *testing.T) {
	c := NPTv6
	c.Tool = "no-such-program"
	_, err := (&Site{}).Compare(t.Context(), c)
	if !errors.Is(err, ErrUnavailable) {
		t.Fatal(err)
	}
}

// The word behind a prefix of 64 bits makes up for the change of prefix.
func TestTranslatedAddress(t *testing.T) {
	for _, c := range []struct{ host, prefix, want string }{
		{"fd00:0:1::1", "2001:db8:a::/64", "2001:db8:a:0:cf3e::1"},
		{"2001:db8:a::1", "2001:db8:a::/64", "2001:db8:a::1"},
	} {
		if got := nptAddr(netip.MustParseAddr(c.host), netip.MustParsePrefix(c.prefix)); got.String() != c.want {
			t.Errorf("%s by %s is %s, want %s", c.host, c.prefix, got, c.want)
		}
	}
}
