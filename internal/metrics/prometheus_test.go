package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/wire/xlate/decide"
)

// busy is a host on which everything happens, a little more with every scrape.
func busy(n uint64) Snapshot {
	s := snapshot()
	s.Handoffs, s.HandoffTime, s.UpdateRTT = map[string]uint64{"new locator": n}, &Histogram{}, &Histogram{}
	for range n {
		s.HandoffTime.Observe(30 * time.Millisecond)
		s.UpdateRTT.Observe(20 * time.Millisecond)
	}
	s.Counters = nil
	for c := range decide.Counters {
		s.Counters = append(s.Counters, Counter{Name: decide.Counter(c).String(), Meaning: "counted", Value: 10 * n})
	}
	s.Refused[0].Value = n
	return s
}

// observed is what the observer and the daemon add to the page.
func observed(n uint64) []Family {
	labels := []string{"link", "wlan0", "direction", "out", "protocol", "udp", "flags", "", "checksum", "none"}
	return []Family{
		{Name: "roam_observer_packets_total", Kind: "counter", Help: "h", Samples: []Sample{{labels, float64(n)}}},
		{Name: "roam_observer_bytes_total", Kind: "counter", Help: "h", Samples: []Sample{{labels, 1000 * float64(n)}}},
		{Name: "roam_role_up", Kind: "gauge", Help: "h", Samples: []Sample{{[]string{"role", "host"}, 1}}},
	}
}

// prometheus starts a server that scrapes a page every 200 ms, and evaluates Roam's alerts at an
// interval, which is that of subqueries too. It returns the server's address.
func prometheus(t *testing.T, page, interval string) string {
	t.Helper()
	testutil.Need(t, "prometheus")
	dir := t.TempDir()
	rules, err := filepath.Abs("../../docs/metrics/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("global: {scrape_interval: 200ms, evaluation_interval: %s}\nrule_files: [%q]\n"+
		"scrape_configs: [{job_name: roam, static_configs: [{targets: [%q]}]}]\n", interval, rules,
		strings.TrimPrefix(page, "http://"))
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free, and most likely stays so
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := exec.CommandContext(ctx, "prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+at)
	var log strings.Builder
	c.Stdout, c.Stderr = &log, &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = c.Wait() // it was killed
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return "http://" + at
}

// answer is what Prometheus says to a query or a question about its rules.
type answer struct {
	Status, Error string
	Data          struct {
		Result []struct{ Metric map[string]string }
		Groups []struct {
			Rules []struct{ Name, Health, LastError, State string }
		}
	}
}

func get(address string) (a answer, err error) {
	r, err := http.Get(address)
	if err != nil {
		return a, err
	}
	defer r.Body.Close()
	return a, json.NewDecoder(r.Body).Decode(&a)
}

// served serves the page of a busy host.
func served(t *testing.T) string {
	var scrapes atomic.Uint64
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := scrapes.Add(1)
		w.Header().Set("Content-Type", Content)
		_ = Write(w, busy(n)) // a reader that has gone needs no error
		_ = WriteFamilies(w, observed(n)...)
	}))
	t.Cleanup(page.Close)
	return page.URL
}

// Each query of the dashboard has an answer from a real Prometheus that evaluates at its default
// interval, 1 min, with windows shorter than that. Grafana's are four times the interval of scrapes.
func TestDashboardHasData(t *testing.T) {
	at := prometheus(t, served(t), "1m")
	query := func(expr string) (answer, error) {
		expr = strings.NewReplacer("$instance", ".*", "$__rate_interval", "12s").Replace(expr)
		return get(at + "/api/v1/query?query=" + url.QueryEscape(expr))
	}
	testutil.Eventually(t, 30*time.Second, func() bool {
		a, err := query("rate(roam_tx_packets_total[4s]) > 0")
		return err == nil && len(a.Data.Result) == 1
	}, "Prometheus does not scrape the page")
	for _, e := range expressions(t) {
		testutil.Eventually(t, 30*time.Second, func() bool {
			a, err := query(e.expr)
			if err == nil && a.Status != "success" {
				t.Fatalf("panel %q asks what cannot be answered: %s\n%s", e.title, a.Error, e.expr)
			}
			return err == nil && len(a.Data.Result) > 0
		}, fmt.Sprintf("panel %q stays empty: %s", e.title, e.expr))
	}
}

// A real Prometheus can evaluate the alerts, and those fire that should.
func TestAlertsInPrometheus(t *testing.T) {
	at := prometheus(t, served(t), "200ms")
	states := map[string]string{}
	testutil.Eventually(t, 40*time.Second, func() bool {
		a, err := get(at + "/api/v1/rules")
		if err != nil || len(a.Data.Groups) == 0 {
			return false
		}
		for _, r := range a.Data.Groups[0].Rules {
			if r.Health == "err" {
				t.Fatalf("alert %s: %s", r.Name, r.LastError)
			}
			states[r.Name] = r.Health + " " + r.State
		}
		return states["RoamNonceGuessed"] == "ok firing"
	}, "the alert of guessed nonces does not fire")
	for name, want := range map[string]string{
		"RoamSessionsDead": "ok pending", "RoamSkippedLines": "ok pending", "RoamNoLocator": "ok inactive",
		"RoamRoleFailed": "ok inactive", "RoamRestarts": "ok inactive",
	} {
		if states[name] != want {
			t.Errorf("%s is %q, want %q", name, states[name], want)
		}
	}
}
