package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"roam/internal/metrics"
)

// startMetrics serves the metrics. Without them the roles work as well, so a
// fault is a warning.
func (d *Daemon) startMetrics() {
	at := d.cfg.Metrics.Listen
	if !at.IsValid() {
		return
	}
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		what := "metrics are not served: " + err.Error()
		d.warnings = append(d.warnings, what)
		d.opts.Log.Warn(what)
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", d.serveMetrics)
	d.metrics = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second}
	go func() {
		if err := d.metrics.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.opts.Log.Warn("metrics are not served any more", "err", err)
		}
	}()
}

func (d *Daemon) serveMetrics(w http.ResponseWriter, r *http.Request) {
	text, err := d.metricsText(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", metrics.Content)
	_, _ = w.Write(text) // a reader that has gone needs no error
}

// metricsText joins the metrics of the roles. What a role wrote before it failed is left
// out: half a family would spoil the whole page for its reader.
func (d *Daemon) metricsText(ctx context.Context) ([]byte, error) {
	var page bytes.Buffer
	err := d.each(func(m *member) error {
		var own bytes.Buffer
		if err := m.role.Metrics(ctx, &own); err != nil {
			return fmt.Errorf("metrics of the role %q: %w", m.name, err)
		}
		page.Write(own.Bytes())
		return nil
	})
	if err != nil {
		return nil, err
	}
	up := metrics.Family{
		Name: "roam_role_up", Kind: "gauge", Help: "1 for each role of the daemon that runs, 0 for one that failed.",
	}
	for _, m := range d.roles {
		value := 1.0
		if m.failed() != nil {
			value = 0
		}
		up.Samples = append(up.Samples, metrics.Sample{Value: value, Labels: []string{"role", m.name}})
	}
	err = metrics.WriteFamilies(&page, up)
	return page.Bytes(), err
}

// countStart returns how many daemons were started on this run directory,
// which a reboot empties.
func countStart(runDir string) (uint64, error) {
	file := filepath.Join(runDir, "starts")
	n := uint64(0)
	if b, err := os.ReadFile(file); err == nil {
		// Whatever else stands there is not worth to fail for: count from one.
		n, _ = strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	}
	n++
	if err := os.WriteFile(file, []byte(strconv.FormatUint(n, 10)+"\n"), 0o644); err != nil {
		return n, fmt.Errorf("count starts: %w", err)
	}
	return n, nil
}
