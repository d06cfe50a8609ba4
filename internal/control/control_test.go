package control_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"roam/internal/control"
	"roam/internal/control/controltest"

	"github.com/google/go-cmp/cmp"
)

// serve runs a server on a socket of its own and returns a client of it.
func serve(t *testing.T, b control.Backend) (*control.Client, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "control.sock")
	l, err := control.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- control.Serve(ctx, l, b) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket stays behind: %v", err)
		}
	})
	return control.NewClient(path), path
}

func TestRoundTrip(t *testing.T) {
	f := controltest.New()
	c, _ := serve(t, f)
	ctx := t.Context()
	check := func(name string, want, got any, err error) {
		t.Helper()
		cmpAddr := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
		cmpPrefix := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
		if d := cmp.Diff(want, got, cmpAddr, cmpPrefix); d != "" || err != nil {
			t.Errorf("%s: error %v, (-want +got):\n%s", name, err, d)
		}
	}
	status, err := c.Status(ctx)
	check("Status", f.StatusValue, status, err)
	locators, err := c.Locators(ctx)
	check("Locators", f.LocatorList, locators, err)
	sessions, err := control.Sessions(ctx, c)
	check("Sessions", f.SessionList, sessions, err)
	counters, err := c.Counters(ctx)
	check("Counters", f.CounterList, counters, err)
	events, err := c.History(ctx)
	check("History", f.EventList, events, err)
	probed, err := c.Probe(ctx, 7)
	check("Probe", f.ProbeValue, probed, err)
	f.FlowList = []control.Flow{{Protocol: "tcp", Rule: 2, Policy: "flow", Paths: []control.Path{{Link: "a"}}}}
	flows, err := c.Flows(ctx, control.FlowRequest{Peer: 7, Port: 443})
	check("Flows", f.FlowList, flows, err)
	line, err := c.Export(ctx)
	check("Export", f.ExportLine, line.Line, err)
	reloaded, err := c.Reload(ctx)
	check("Reload", f.ReloadValue, reloaded, err)
	peers, err := c.Peers(ctx)
	check("Peers", f.PeerList, peers, err)
	peer, err := c.AddPeer(ctx, control.AddRequest{Line: "a line", As: "b", Replace: true, Force: true})
	check("AddPeer", "b", peer.Names[0], err)
	peer, err = c.RenamePeer(ctx, control.RenameRequest{Old: "b", New: "c", Replace: true, Force: true})
	check("RenamePeer", "c", peer.Names[0], err)
	removed, err := c.RemovePeer(ctx, control.RemoveRequest{Peer: "c"})
	check("RemovePeer", control.Removed{NID: 2, Names: []string{"b.example"}, Written: []control.Place{}}, removed, err)
	check("SetMode", nil, nil, c.SetMode(ctx, control.Duality))
	check("SetLinkEnabled", nil, nil, c.SetLinkEnabled(ctx, "wlan0", false))
	check("SetDrained", nil, nil, c.SetDrained(ctx, "wan0", true))
	check("Shutdown", nil, nil, c.Shutdown(ctx, true))
	want := []string{
		"probe 0000:0000:0000:0007", "flows 0000:0000:0000:0007 443", "reload", "add a line as b replace force",
		"rename b c replace force", "remove c", "mode duality", "disable wlan0", "drain wan0", "shutdown and remove",
	}
	check("instructions", want, f.Instructions(), nil)
}

func TestEmptyListsAreLists(t *testing.T) {
	h := control.Handler(&controltest.Fake{PeerList: []control.KnownPeer{{}}})
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/peers", nil)); strings.Contains(w.Body.String(), "null") {
		t.Errorf("peers: %s", w.Body)
	}
	h = control.Handler(&controltest.Fake{})
	for _, path := range []string{"/v1/locators", "/v1/sessions", "/v1/counters", "/v1/peers"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if got := strings.TrimSpace(w.Body.String()); got != "[]" {
			t.Errorf("%s: %q, want []", path, got)
		}
	}
	for _, q := range []string{"GET /v1/status", "POST /v1/peers", "POST /v1/peers/remove", "POST /v1/peers/rename", "POST /v1/reload"} {
		method, path, _ := strings.Cut(q, " ")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if got := w.Body.String(); w.Code != 200 || strings.Contains(got, "null") {
			t.Errorf("%s: %d %s", q, w.Code, got)
		}
	}
}

func TestRefusalsKeepCodeAndHint(t *testing.T) {
	f := controltest.New()
	c, _ := serve(t, f)
	err := c.SetLinkEnabled(t.Context(), "eth9", true)
	var e *control.Error
	if !errors.As(err, &e) || e.Code != control.CodeNotFound || control.Hint(err) != "the links are wlan0, wwan0" {
		t.Errorf("unknown link: %#v", err)
	}
	f.Err = fmt.Errorf("while busy: %w", control.Errorf(control.CodeUnavailable, "not now").WithHint("wait"))
	if _, err := c.Status(t.Context()); err == nil || err.Error() != "while busy: not now" || control.Hint(err) != "wait" {
		t.Errorf("wrapped refusal: %v, hint %q", err, control.Hint(err))
	}
	f.Err = errors.New("disk on fire")
	if _, err := c.Subscribe(t.Context()); err == nil || err.Error() != "disk on fire" || control.Hint(err) != "" {
		t.Errorf("other error: %v", err)
	}
}

func TestBadRequests(t *testing.T) {
	h := control.Handler(controltest.New())
	for _, tc := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"PUT", "/v1/mode", `{"mode":"sofft"}`, 400, "soft, hard and duality"},
		{"PUT", "/v1/mode", `{"mode":`, 400, "read request"},
		{"PUT", "/v1/mode", `{"mood":"soft"}`, 400, "mood"},
		{"PUT", "/v1/mode", `{"mode":"` + strings.Repeat("x", 70000) + `"}`, 400, "too large"},
		{"PUT", "/v1/mode", ``, 400, "unknown mode"},
		{"GET", "/v1/nothing", ``, 404, "roam version"},
		{"GET", "/v1/roles?peer=server", ``, 400, "peer"},
		{"POST", "/v1/reload", ``, 200, "applied"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(tc.method, tc.path, strings.NewReader(tc.body)))
		if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.want) {
			t.Errorf("%s %s %.40s: %d %s, want %d with %q", tc.method, tc.path, tc.body, w.Code, w.Body, tc.status, tc.want)
		}
	}
}

func TestCodesHaveTheirStatus(t *testing.T) {
	for code, want := range map[control.Code]int{
		control.CodeInvalid: 400, control.CodeNotFound: 404, control.CodeConflict: 409, control.CodeChoice: 409,
		control.CodeUnsupported: 501, control.CodeUnavailable: 503, control.CodeInternal: 500,
	} {
		w := httptest.NewRecorder()
		h := control.Handler(&controltest.Fake{Err: control.Errorf(code, "no")})
		h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/status", nil))
		if w.Code != want {
			t.Errorf("%s: status %d, want %d", code, w.Code, want)
		}
	}
}

func TestEvents(t *testing.T) {
	f := controltest.New()
	c, _ := serve(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	events, err := c.Subscribe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := control.Event{Time: controltest.Now, Kind: "peer-moved", Peer: 3}
	f.Hub.Publish(want)
	if got := <-events; !cmp.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	cancel()
	for range events { // ends when the stream has
	}
	events, err = c.Subscribe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.Hub.Close()
	if e, ok := <-events; ok {
		t.Errorf("event %+v after the end", e)
	}
}

func TestListen(t *testing.T) {
	_, path := serve(t, controltest.New())
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("mode %v, %v, want 0660", info.Mode(), err)
	}
	var e *control.Error
	if _, err := control.Listen(path); !errors.As(err, &e) || e.Code != control.CodeConflict {
		t.Errorf("second daemon: %v", err)
	}
	// What a killed daemon leaves is replaced.
	stale := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	again, err := control.Listen(stale)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(filepath.Dir(stale))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := control.Listen(filepath.Join(t.TempDir(), "absent", "s")); err == nil {
		t.Error("listens in a directory that is not there")
	}
}

func TestClientExplains(t *testing.T) {
	c := control.NewClient(filepath.Join(t.TempDir(), "s"))
	_, err := c.Status(t.Context())
	if !errors.Is(err, control.ErrNotRunning) || !strings.Contains(control.Hint(err), "roam up") {
		t.Errorf("no daemon: %v, hint %q", err, control.Hint(err))
	}
	// A server that is not ours.
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/status" {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = io.WriteString(w, "tea")
	})}
	go func() { _ = srv.Serve(l) }()
	defer srv.Close()
	c = control.NewClient(path)
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "418") {
		t.Errorf("unlisted peer's refusal: %v", err)
	}
	_, err = control.Sessions(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "read the daemon's answer") {
		t.Errorf("unlisted peer's answer: %v", err)
	}
}

func TestHubTellsWhatWasLost(t *testing.T) {
	var h control.Hub
	ctx, cancel := context.WithCancel(t.Context())
	events, err := h.Subscribe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const extra = 10
	n := cap(events) + extra
	for i := range n {
		h.Publish(control.Event{Reason: fmt.Sprint(i)})
	}
	for range 2 { // room for the notice and the next event
		<-events
	}
	h.Publish(control.Event{Time: time.Unix(1, 0), Reason: "after"})
	cancel()
	var last []control.Event
	for e := range events {
		last = append(last, e)
	}
	last = last[len(last)-2:]
	if last[0].Kind != control.KindLost || !strings.HasPrefix(last[0].Reason, fmt.Sprint(extra)) || last[1].Reason != "after" {
		t.Errorf("the last two events: %+v", last)
	}
	h.Close()
	h.Publish(control.Event{})
	if events, _ = h.Subscribe(t.Context()); events == nil {
		t.Fatal("no channel from a closed hub")
	}
	if _, ok := <-events; ok {
		t.Error("event from a closed hub")
	}
}
