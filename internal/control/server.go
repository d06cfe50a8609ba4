package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"roam"
)

const (
	maxRequest   = 64 << 10 // bytes of a request's body
	writeTimeout = 10 * time.Second
)

// Serve answers requests on l by calls of b until ctx is done, then ends the
// streams, waits for running requests and closes l. It returns nil then, and
// an error only when l fails.
func Serve(ctx context.Context, l net.Listener, b Backend) error {
	srv := &http.Server{
		Handler:           Handler(b),
		ReadHeaderTimeout: 5 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve control socket: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		_ = srv.Close() // the grace is over: cut what is left
	}
	<-done
	return nil
}

// Handler returns the requests of the control socket as an HTTP handler.
func Handler(b Backend) http.Handler {
	mux := http.NewServeMux()
	get := func(path string, call func(context.Context) (any, error)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			v, err := call(r.Context())
			reply(w, v, err)
		})
	}
	get("/v1/status", func(ctx context.Context) (any, error) {
		s, err := b.Status(ctx)
		for _, l := range []*[]string{&s.Warnings, &s.Notes, &s.Plane.Features, &s.Plane.Uplinks, &s.DNS.Upstream} {
			*l = orEmpty(*l)
		}
		s.Faults = orEmpty(s.Faults)
		s.NotAdmitted = orEmpty(s.NotAdmitted)
		s.Obstructed = orEmpty(s.Obstructed)
		return s, err
	})
	get("/v1/locators", func(ctx context.Context) (any, error) { return list(b.Locators(ctx)) })
	mux.HandleFunc("GET /v1/sessions", func(w http.ResponseWriter, r *http.Request) { sessions(w, r, b) })
	get("/v1/summary", func(ctx context.Context) (any, error) { return b.Summary(ctx) })
	get("/v1/counters", func(ctx context.Context) (any, error) { return list(b.Counters(ctx)) })
	get("/v1/history", func(ctx context.Context) (any, error) { return list(b.History(ctx)) })
	get("/v1/export", func(ctx context.Context) (any, error) { return b.Export(ctx) })
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) { stream(w, r, b) })

	handle(mux, "PUT /v1/mode", func(ctx context.Context, q ModeRequest) (any, error) {
		mode, err := ParseMode(q.Mode)
		if err != nil {
			return nil, err
		}
		return struct{}{}, b.SetMode(ctx, mode)
	})
	handle(mux, "PUT /v1/link", func(ctx context.Context, q LinkRequest) (any, error) {
		return struct{}{}, b.SetLinkEnabled(ctx, q.Link, q.Enabled)
	})
	handle(mux, "PUT /v1/border/link", func(ctx context.Context, q DrainRequest) (any, error) {
		return struct{}{}, b.SetDrained(ctx, q.Link, q.Drained)
	})
	handlePeers(mux, b)
	mux.HandleFunc("GET /v1/roles", func(w http.ResponseWriter, r *http.Request) { roles(w, r, b) })
	handle(mux, "POST /v1/probe", func(ctx context.Context, q ProbeRequest) (any, error) {
		p, err := b.Probe(ctx, q.Peer)
		p.Paths = orEmpty(p.Paths)
		return p, err
	})
	handle(mux, "POST /v1/flows", func(ctx context.Context, q FlowRequest) (any, error) {
		flows, err := b.Flows(ctx, q)
		for i := range flows {
			flows[i].Paths = orEmpty(flows[i].Paths)
		}
		return orEmpty(flows), err
	})
	handle(mux, "POST /v1/reload", func(ctx context.Context, _ struct{}) (any, error) {
		r, err := b.Reload(ctx)
		r.Applied, r.Restart = orEmpty(r.Applied), orEmpty(r.Restart)
		return r, err
	})
	handle(mux, "POST /v1/shutdown", func(ctx context.Context, q ShutdownRequest) (any, error) {
		return struct{}{}, b.Shutdown(ctx, q.RemovePlane)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, Errorf(CodeNotFound, "no such request: %s %s", r.Method, r.URL.Path).
			WithHint("the command and the daemon may be of different versions: compare `roam version`"))
	})
	return mux
}

// handlePeers registers the requests about who is known.
func handlePeers(mux *http.ServeMux, b Backend) {
	mux.HandleFunc("GET /v1/peers", func(w http.ResponseWriter, r *http.Request) {
		peers, err := b.Peers(r.Context())
		for i := range peers {
			p := &peers[i]
			p.Names, p.Locators, p.Options, p.Written = orEmpty(p.Names), orEmpty(p.Locators), orEmpty(p.Options), orEmpty(p.Written)
		}
		reply(w, orEmpty(peers), err)
	})
	whole := func(p Peer, err error) (any, error) {
		p.Names, p.Locators = orEmpty(p.Names), orEmpty(p.Locators)
		return p, err
	}
	handle(mux, "POST /v1/peers", func(ctx context.Context, q AddRequest) (any, error) { return whole(b.AddPeer(ctx, q)) })
	handle(mux, "POST /v1/peers/rename", func(ctx context.Context, q RenameRequest) (any, error) { return whole(b.RenamePeer(ctx, q)) })
	handle(mux, "POST /v1/peers/remove", func(ctx context.Context, q RemoveRequest) (any, error) {
		r, err := b.RemovePeer(ctx, q)
		r.Names, r.Written = orEmpty(r.Names), orEmpty(r.Written)
		return r, err
	})
}

// roles answers what the roles say of themselves and of the peer that the query names.
func roles(w http.ResponseWriter, r *http.Request, b Backend) {
	var peer roam.NID
	if word := r.URL.Query().Get("peer"); word != "" {
		var err error
		if peer, err = roam.ParseNID(word); err != nil {
			fail(w, Errorf(CodeInvalid, "read request: peer: %w", err))
			return
		}
	}
	list, err := b.Roles(r.Context(), peer)
	for i := range list {
		list[i].Findings = orEmpty(list[i].Findings)
	}
	reply(w, orEmpty(list), err)
}

// handle registers a request that has a JSON object as its body.
func handle[Q any](mux *http.ServeMux, pattern string, call func(context.Context, Q) (any, error)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var q Q
		dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
		dec.DisallowUnknownFields()
		// An absent body is an empty object.
		if err := dec.Decode(&q); err != nil && !errors.Is(err, io.EOF) {
			fail(w, Errorf(CodeInvalid, "read request: %w", err))
			return
		}
		v, err := call(r.Context(), q)
		reply(w, v, err)
	})
}

// list keeps an empty list from becoming null.
func list[T any](v []T, err error) (any, error) { return orEmpty(v), err }

func orEmpty[T any](v []T) []T {
	if v == nil {
		return []T{}
	}
	return v
}

func reply(w http.ResponseWriter, v any, err error) {
	if err != nil {
		fail(w, asError(err))
		return
	}
	send(w, http.StatusOK, v)
}

func fail(w http.ResponseWriter, e *Error) { send(w, e.Code.status(), e) }

// send cannot report a failure to write: the reader has gone.
func send(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// sessions writes a list of the correspondents while they are read, so neither end need have
// all of them at once. The first one goes out as soon as it is known.
func sessions(w http.ResponseWriter, r *http.Request, b Backend) {
	enc, before := json.NewEncoder(w), "["
	err := b.EachSession(r.Context(), func(s Session) error {
		first := before == "["
		if first {
			w.Header().Set("Content-Type", "application/json")
		}
		if _, err := io.WriteString(w, before); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		before = ","
		if err := enc.Encode(s); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if first {
			_ = http.NewResponseController(w).Flush() // the next write fails, too
		}
		return nil
	})
	switch {
	case err == nil && before == "[":
		send(w, http.StatusOK, []Session{})
	case err == nil:
		_, _ = io.WriteString(w, "]\n") // the reader may have gone
	case before == "[":
		fail(w, asError(err))
	default:
		panic(http.ErrAbortHandler) // the list has no end, by which the reader knows
	}
}

// stream writes events as they come. The header goes out as soon as the
// subscription stands, so that the client knows from when on it misses nothing.
func stream(w http.ResponseWriter, r *http.Request, b Backend) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	events, err := b.Subscribe(ctx)
	if err != nil {
		fail(w, asError(err))
		return
	}
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	enc := json.NewEncoder(w)
	for {
		// A reader that stopped reading is cut, not waited for.
		_ = out.SetWriteDeadline(time.Now().Add(writeTimeout))
		if err := out.Flush(); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case e, ok := <-events:
			if !ok {
				return
			}
			_ = out.SetWriteDeadline(time.Now().Add(writeTimeout))
			if err := enc.Encode(e); err != nil {
				return
			}
		}
	}
}
