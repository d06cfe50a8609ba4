package main

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"roam/internal/config"
)

// The log has the same keys in both forms.
func TestLogFormats(t *testing.T) {
	for form, want := range map[config.LogFormat]string{
		config.LogText: `level=INFO msg=moved from="wlan0 2001:db8::/64" duration_ms=46.7`,
		config.LogJSON: `"level":"INFO","msg":"moved","from":"wlan0 2001:db8::/64","duration_ms":46.7}`,
	} {
		var b strings.Builder
		slog.New(handler(&b, form)).Info("moved", "from", "wlan0 2001:db8::/64", "duration_ms", 46.7)
		if !strings.Contains(b.String(), want) {
			t.Errorf("form %d: %s", form, &b)
		}
		if json.Valid([]byte(b.String())) != (form == config.LogJSON) {
			t.Errorf("form %d: JSON or not: %s", form, &b)
		}
	}
}
