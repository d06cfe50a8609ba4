package ilnphost

import (
	"context"
	"errors"
	"log/slog"
	"os/exec"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/config"
	"roam/internal/hostnet/nettest"
)

// TestIdentifierOfALaterAddress: a host that takes its identifier from an address waits for the network, which a boot
// sets up after the daemon has started, and is not content with what comes before the lasting address.
func TestIdentifierOfALaterAddress(t *testing.T) {
	cfg := config.Default()
	cfg.Host.NID.Source = config.NIDFromAddress
	for name, tc := range map[string]struct{ before, then string }{
		"none before":       {"", "2001:db8:a:1::5/128"},
		"a lesser one":      {"2001:db8:a:1:ffff::9/64", "2001:db8:a:1::5/128"},
		"nothing but those": {"2001:db8:a:1::5/64", ""},
	} {
		t.Run(name, func(t *testing.T) {
			host := nettest.New(t)
			nettest.Cable(host, "up0", nettest.New(t), "far")
			if tc.before != "" {
				host.Run("ip", "addr", "add", tc.before, "dev", "up0", "nodad", "preferred_lft", "0")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var nid roam.NID
			var err, notAdded error
			var waited []string
			host.Do(func() {
				nid, err = identity(ctx, cfg, slog.New(slog.DiscardHandler), func(what string) {
					if waited = append(waited, what); tc.then != "" {
						notAdded = exec.Command(
							"ip", "addr", "add", tc.then, "dev", "up0", "nodad").Run()
					}
				})
			})
			if err != nil || notAdded != nil || nid != 5 {
				t.Errorf("identifier %v, %v, %v", nid, err, notAdded)
			}
			if len(waited) != 1 || !strings.Contains(waited[0], "a global IPv6 address") {
				t.Errorf("reported %q", waited)
			}
		})
	}
}

// TestWaitForAnAddressEnds: a daemon that is told to end while it waits does so.
func TestWaitForAnAddressEnds(t *testing.T) {
	cfg := config.Default()
	cfg.Host.NID.Source, cfg.Uplinks.Include = config.NIDFromAddress, []string{"no-such-link"}
	ctx, cancel := context.WithCancel(t.Context())
	nid, err := identity(ctx, cfg, slog.New(slog.DiscardHandler), func(string) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", nid, err)
	}
}
