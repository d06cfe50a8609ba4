package control_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"roam/internal/control"
	"roam/internal/control/controltest"
)

// requests are those that read a body.
var requests = []struct{ method, path string }{
	{http.MethodPut, "/v1/mode"},
	{http.MethodPut, "/v1/link"},
	{http.MethodPost, "/v1/peers"},
	{http.MethodPost, "/v1/probe"},
	{http.MethodPost, "/v1/reload"},
	{http.MethodPost, "/v1/shutdown"},
	{http.MethodPost, "/v1/peers/remove"},
	{http.MethodPost, "/v1/peers/rename"},
}

// FuzzRequest sends any body to the control socket. Whatever it is, the answer
// is JSON, and a refusal says why.
func FuzzRequest(f *testing.F) {
	for i, body := range []string{
		`{"mode":"hard"}`, `{"link":"eth0","enabled":true}`, `{"line":"roam1:1-2-3-4::host:00000000"}`,
		`{"peer":"0200:0000:0000:0001"}`, ``, `{"remove_plane":true}`,
		`{"peer":"b"}`, `{"old":"b","new":"c","replace":true,"force":true}`,
	} {
		f.Add(uint8(i), body)
	}
	f.Fuzz(func(t *testing.T, which uint8, body string) {
		to := requests[int(which)%len(requests)]
		w := httptest.NewRecorder()
		control.Handler(controltest.New()).ServeHTTP(w, httptest.NewRequest(to.method, to.path, strings.NewReader(body)))
		if w.Code == http.StatusOK {
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("answer is not JSON: %q", w.Body)
			}
			return
		}
		var e control.Error
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Message == "" || w.Code >= 600 {
			t.Errorf("status %d with %q", w.Code, w.Body)
		}
	})
}
