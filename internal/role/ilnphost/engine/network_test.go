package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/hostnet"
	"roam/internal/rawio"
)

// table is a data plane that knows rows and entries only: a path without a row
// is left out.
type table struct {
	Plane
	rows    []roam.LinkLocator
	entries map[ilnp.SessionKey]ilnp.Entry
	writes  int
	full    bool
	hints   []dataplane.Event
}

func (p *table) AttachUplink(roam.LinkID, bool) error { return nil }
func (p *table) GuardLink(roam.LinkID, bool) error    { return nil }
func (p *table) Behind() bool                         { return false }
func (p *table) TakeOver() error                      { return nil }
func (p *table) IsRead(<-chan dataplane.Event) bool   { return true }
func (p *table) Requests() <-chan dataplane.Event     { return nil }

func (p *table) LastHeard([]ilnp.SessionKey) ([]ilnp.Activity, error) { return nil, nil }

func (p *table) SetUplinks(us []dataplane.UplinkEntry) error {
	p.rows = nil
	for _, u := range us {
		p.rows = append(p.rows, u.Local)
	}
	return nil
}

func (p *table) Upsert(e ilnp.Entry, _ dataplane.Turn) error {
	if p.full {
		return dataplane.ErrFull
	}
	p.writes++
	e.Paths = slices.DeleteFunc(slices.Clone(e.Paths), func(path ilnp.Path) bool { return !slices.Contains(p.rows, path.Local) })
	p.entries[e.Key] = e
	return nil
}

// TestPathsOfALocatorThatComesLate: a session that was restored into a new data
// plane sends as soon as its locator is there, and is not written again with
// every advertisement.
func TestPathsOfALocatorThatComesLate(t *testing.T) {
	e, _ := withSession(t, ilnp.Established)
	p := &table{entries: make(map[ilnp.SessionKey]ilnp.Entry)}
	e.cfg.Plane = p
	if err := p.Upsert(e.entries[sessionKey], dataplane.Turn{}); err != nil || len(p.entries[sessionKey].Paths) != 0 {
		t.Fatal("the path has a row before its locator is there")
	}
	e.handleNetwork(time.Now(), hostnet.UplinkChanged{Uplink: hostnet.Uplink{Link: 7, Name: "net7", Up: true, Routed: true, HasMAC: true}})
	at := hostnet.LocatorChanged{PrefixEvent: roam.PrefixEvent{LinkLocator: roam.LinkLocator{Link: 7, L64: here}, Present: true, Preferred: time.Hour}}
	for range 3 {
		e.handleNetwork(time.Now(), at)
	}
	if got := p.entries[sessionKey].Paths; !slices.Equal(got, e.entries[sessionKey].Paths) {
		t.Errorf("paths %v, want %v", got, e.entries[sessionKey].Paths)
	}
	if p.writes != 2 {
		t.Errorf("written %d times, want once more", p.writes)
	}
}

// TestSendWithoutARoute: while the kernel has no default route, what is to be sent
// goes to the router that the link had a moment ago, or is counted. Other errors
// are nobody's to mend.
func TestSendWithoutARoute(t *testing.T) {
	router := hostnet.Uplink{Link: 7, Routed: true, HasMAC: true, NextHopMAC: net.HardwareAddr{2, 0, 0, 0, 0, 9}, NextHopValid: true}
	forgotten, gone, raw := router, router, router
	forgotten.NextHopValid, gone.Routed, raw.HasMAC = false, false, false
	away := fmt.Errorf("send: %w: %w", rawio.ErrNoRoute, unix.ENETUNREACH)
	for name, c := range map[string]struct {
		uplink              hostnet.Uplink
		err                 error
		sent, past, counted int
	}{
		"a route":                    {router, nil, 1, 0, 0},
		"held":                       {router, away, 0, 1, 0},
		"held, neighbour forgotten":  {forgotten, away, 0, 0, 1},
		"none any more":              {gone, away, 0, 0, 1},
		"without hardware addresses": {raw, away, 0, 0, 1},
		"busy":                       {router, rawio.ErrBusy, 0, 0, 0},
	} {
		e, o := withSession(t, ilnp.Established)
		e.links[7], o.fails = c.uplink, c.err
		e.execute(time.Now(), ilnp.Transmit{Link: 7, Packet: make([]byte, 40)})
		if len(o.sent) != c.sent || len(o.past) != c.past || e.refused[noRoute] != uint64(c.counted) {
			t.Errorf("%s: sent %d, past routing %d, counted %v", name, len(o.sent), len(o.past), e.refused)
		}
	}
}

// adopted is a data plane of a predecessor, with one locator in use.
type adopted struct{ table }

func (p *adopted) UplinksInUse() []roam.LinkLocator { return []roam.LinkLocator{{Link: 7, L64: here}} }

// deaf is a network whose watch has ended.
type deaf struct{ outside }

func (*deaf) Events() <-chan hostnet.Event {
	c := make(chan hostnet.Event)
	close(c)
	return c
}

// TestStartWithoutNetwork: a successor that cannot see the network ends at once, and
// leaves the paths of the sessions that it found.
func TestStartWithoutNetwork(t *testing.T) {
	e, _ := withSession(t, ilnp.Established)
	rows := []roam.LinkLocator{{Link: 7, L64: here}}
	p := &adopted{table{entries: make(map[ilnp.SessionKey]ilnp.Entry), rows: rows}}
	e.cfg.Plane, e.cfg.Network, e.cfg.StateFile = p, &deaf{}, filepath.Join(t.TempDir(), "none")
	if err := e.start(t.Context()); !errors.Is(err, errNetworkEnded) || !slices.Equal(p.rows, rows) {
		t.Errorf("%v, with rows %v", err, p.rows)
	}
}

func (p *table) UplinksInUse() []roam.LinkLocator { return nil }

func (p *table) Hints() ([]dataplane.Event, error) { return p.hints, nil }

func (p *table) Sync(want []ilnp.Entry) error {
	var errs []error
	for _, w := range want {
		errs = append(errs, p.Upsert(w, dataplane.Turn{}))
	}
	return errors.Join(errs...)
}

// TestStartWithMoreSessionsThanRoom: the table of sessions has been made smaller. The
// daemon starts, and what has no entry is not taken for a session that has one.
func TestStartWithMoreSessionsThanRoom(t *testing.T) {
	p := &table{entries: make(map[ilnp.SessionKey]ilnp.Entry)}
	before, _, first := attached(t, p, nil)
	before.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.Miss, Key: sessionKey, Packet: bytes.Clone(first)})
	before.drain(time.Now())
	state := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(state, before.core.Export(), 0o600); err != nil {
		t.Fatal(err)
	}
	small := &table{entries: make(map[ilnp.SessionKey]ilnp.Entry), full: true}
	core, err := ilnp.New(ilnp.Config{NIDs: []roam.NID{ourNID}, Rand: chance{rand.New(rand.NewPCG(3, 4))}})
	if err != nil {
		t.Fatal(err)
	}
	o := &outside{}
	e := New(Config{Core: core, Plane: small, Network: o, Sender: o, SessionPrefix: roam.DefaultSessionPrefix, StateFile: state,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err := e.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(core.Snapshot()) != 1 {
		t.Fatal("the session was not restored")
	}
	e.handlePlane(time.Now(), dataplane.Event{Kind: dataplane.Miss, Key: sessionKey, Packet: first})
	e.drain(time.Now())
	if len(e.entries) != 0 || len(o.resent) != 0 || e.refused[noRoom] != 1 {
		t.Errorf("%d entries, %d packets retransmitted, %d refused, want 0, 0, 1", len(e.entries), len(o.resent), e.refused[noRoom])
	}
}

// TestStartFollowsHints: a peer has moved while no daemon ran. The successor learns where to
// from the programs, and its own entry has that locator.
func TestStartFollowsHints(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	confirmed := bytes.Replace(established(t).core.Export(), []byte(`"local":`), []byte(`"confirmed":true,"local":`), 1)
	if err := os.WriteFile(state, confirmed, 0o600); err != nil {
		t.Fatal(err)
	}
	const elsewhere = there + 1<<16
	p := &table{entries: make(map[ilnp.SessionKey]ilnp.Entry)}
	p.hints = []dataplane.Event{{Kind: dataplane.LocatorSeen, Key: sessionKey, Nonce: theirNonce,
		Remote: roam.ILV{L64: elsewhere, NID: peerNID}, Local: roam.ILV{NID: ourNID}}}
	e, _, _ := attached(t, p, nil)
	e.cfg.StateFile = state
	if err := e.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := p.entries[sessionKey].Paths; len(got) == 0 || got[0].Remote != elsewhere {
		t.Errorf("the session's paths: %+v", got)
	}
}
