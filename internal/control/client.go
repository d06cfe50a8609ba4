package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"

	"roam"
)

// maxReply bounds what the client reads of one answer, in bytes: 100,000 sessions are 75 MB.
const maxReply = 1 << 30

// Client asks a daemon. It is a Backend; every method is one request.
type Client struct {
	socket string
	http   *http.Client
}

var _ Backend = (*Client)(nil)

// NewClient returns a client of the daemon that listens on socket. It connects
// only when asked something.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return &Client{socket: socket, http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// Status is Backend.Status.
func (c *Client) Status(ctx context.Context) (out Status, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/status", nil, &out)
	return out, err
}

// Locators is Backend.Locators.
func (c *Client) Locators(ctx context.Context) (out []Locator, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/locators", nil, &out)
	return out, err
}

// EachSession is Backend.EachSession.
func (c *Client) EachSession(ctx context.Context, f func(Session) error) error {
	return each(ctx, c, "/v1/sessions", f)
}

// Summary is Backend.Summary.
func (c *Client) Summary(ctx context.Context) (out Summary, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/summary", nil, &out)
	return out, err
}

// Counters is Backend.Counters.
func (c *Client) Counters(ctx context.Context) (out []Counter, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/counters", nil, &out)
	return out, err
}

// History is Backend.History.
func (c *Client) History(ctx context.Context) (out []Event, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/history", nil, &out)
	return out, err
}

// Roles is Backend.Roles.
func (c *Client) Roles(ctx context.Context, peer roam.NID) (out []RoleReport, err error) {
	path := "/v1/roles"
	if peer != 0 {
		path += "?peer=" + url.QueryEscape(peer.String())
	}
	err = c.call(ctx, http.MethodGet, path, nil, &out)
	return out, err
}

// Probe is Backend.Probe.
func (c *Client) Probe(ctx context.Context, peer roam.NID) (out Probed, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/probe", ProbeRequest{Peer: peer}, &out)
	return out, err
}

// Flows is Backend.Flows.
func (c *Client) Flows(ctx context.Context, q FlowRequest) (out []Flow, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/flows", q, &out)
	return out, err
}

// SetMode is Backend.SetMode.
func (c *Client) SetMode(ctx context.Context, mode Mode) error {
	return c.call(ctx, http.MethodPut, "/v1/mode", ModeRequest{Mode: string(mode)}, nil)
}

// SetLinkEnabled is Backend.SetLinkEnabled.
func (c *Client) SetLinkEnabled(ctx context.Context, link string, enabled bool) error {
	return c.call(ctx, http.MethodPut, "/v1/link", LinkRequest{Link: link, Enabled: enabled}, nil)
}

// SetDrained is Backend.SetDrained.
func (c *Client) SetDrained(ctx context.Context, link string, drained bool) error {
	return c.call(ctx, http.MethodPut, "/v1/border/link", DrainRequest{Link: link, Drained: drained}, nil)
}

// Peers is Backend.Peers.
func (c *Client) Peers(ctx context.Context) ([]KnownPeer, error) {
	out := []KnownPeer{}
	err := each(ctx, c, "/v1/peers", func(p KnownPeer) error {
		out = append(out, p)
		return nil
	})
	return out, err
}

// AddPeer is Backend.AddPeer.
func (c *Client) AddPeer(ctx context.Context, q AddRequest) (out Peer, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/peers", q, &out)
	return out, err
}

// RemovePeer is Backend.RemovePeer.
func (c *Client) RemovePeer(ctx context.Context, q RemoveRequest) (out Removed, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/peers/remove", q, &out)
	return out, err
}

// RenamePeer is Backend.RenamePeer.
func (c *Client) RenamePeer(ctx context.Context, q RenameRequest) (out Peer, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/peers/rename", q, &out)
	return out, err
}

// Export is Backend.Export.
func (c *Client) Export(ctx context.Context) (out Exported, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/export", nil, &out)
	return out, err
}

// Reload is Backend.Reload.
func (c *Client) Reload(ctx context.Context) (out Reloaded, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/reload", nil, &out)
	return out, err
}

// Shutdown is Backend.Shutdown. It returns when the daemon has agreed, which
// is before it has ended.
func (c *Client) Shutdown(ctx context.Context, removePlane bool) error {
	return c.call(ctx, http.MethodPost, "/v1/shutdown", ShutdownRequest{RemovePlane: removePlane}, nil)
}

// Subscribe is Backend.Subscribe. When it returns, no later event is missed.
func (c *Client) Subscribe(ctx context.Context) (<-chan Event, error) {
	resp, err := c.do(ctx, http.MethodGet, "/v1/events", nil)
	if err != nil {
		return nil, err
	}
	out := make(chan Event)
	go func() {
		defer close(out)
		defer resp.Body.Close()
		dec := json.NewDecoder(resp.Body)
		for {
			var e Event
			if dec.Decode(&e) != nil {
				return
			}
			select {
			case out <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	resp, err := c.do(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReply)).Decode(out); err != nil {
		return fmt.Errorf("read the daemon's answer to %s: %w", path, err)
	}
	return nil
}

// each reads a list that may be long and calls f for each element as it comes.
func each[T any](ctx context.Context, c *Client, path string, f func(T) error) error {
	resp, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	broken := func(err error) error { return fmt.Errorf("read the daemon's answer to %s: %w", path, err) }
	dec := json.NewDecoder(io.LimitReader(resp.Body, maxReply))
	if _, err := dec.Token(); err != nil {
		return broken(err)
	}
	for dec.More() {
		var v T
		if err := dec.Decode(&v); err != nil {
			return broken(err)
		}
		if err := f(v); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil { // an answer that was cut is not a short one
		return broken(err)
	}
	return nil
}

// do returns the response only when it is a success; its body is the caller's.
func (c *Client) do(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encode request %s: %w", path, err)
		}
		body = bytes.NewReader(b)
	}
	// The host of the URL is not used: the socket is the address.
	req, err := http.NewRequestWithContext(ctx, method, "http://roamd"+path, body)
	if err != nil {
		return nil, fmt.Errorf("make request %s: %w", path, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.explain(err)
	}
	if resp.StatusCode < 400 {
		return resp, nil
	}
	defer resp.Body.Close()
	e := &Error{Code: CodeInternal}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxRequest)).Decode(e); err != nil || e.Message == "" {
		return nil, fmt.Errorf("request %s: the daemon answered %s", path, resp.Status)
	}
	return nil, e
}

// explain turns a failure to connect into what the user can do about it.
func (c *Client) explain(err error) error {
	var op *net.OpError
	if !errors.As(err, &op) {
		return fmt.Errorf("ask the daemon on %s: %w", c.socket, err)
	}
	switch {
	case errors.Is(op, syscall.ENOENT), errors.Is(op, syscall.ECONNREFUSED):
		return Errorf(CodeUnavailable, "%w on %s", ErrNotRunning, c.socket).WithHint("start it with `roam up`")
	case errors.Is(op, os.ErrPermission):
		return Errorf(CodeUnavailable, "connect to %s: %w", c.socket, os.ErrPermission).
			WithHint("run this as root or as a member of group %s", Group)
	}
	return fmt.Errorf("connect to %s: %w", c.socket, op)
}
