// Package controltest offers a Backend for tests: a host with two links, four
// correspondents and a fixed past.
//
// It implements the answers from fields that a test may change, and records
// what it was told to do. It omits every effect. Tests of packages control and
// cmd/roam drive it.
package controltest

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"roam"
	"roam/internal/control"
)

// Now is the moment at which the host is looked at.
var Now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Fake is a Backend. Err, when set, is what every method returns.
type Fake struct {
	Err          error
	StatusValue  control.Status
	LocatorList  []control.Locator
	SessionList  []control.Session
	MoreSessions func(each func(control.Session) error) error
	NoSummary    bool // it is older than that request
	CounterList  []control.Counter
	EventList    []control.Event
	ProbeValue   control.Probed
	FlowList     []control.Flow
	RoleList     []control.RoleReport
	PeerList     []control.KnownPeer
	ReloadValue  control.Reloaded
	ExportLine   string
	AddWarning   string // of AddPeer and RemovePeer
	Undecided    error  // what AddPeer and RenamePeer return without Replace and Force
	Hub          control.Hub
	OnShutdown   func(removePlane bool)
	mu           sync.Mutex
	instructions []string
}

// New returns the host as the golden files show it.
func New() *Fake {
	return &Fake{
		StatusValue: status(),
		LocatorList: locators(),
		SessionList: sessions(),
		CounterList: []control.Counter{
			{Name: "drop_wrong_nonce", Meaning: "another nonce than the session's", Value: 12},
			{Name: "drop_two_nonces", Meaning: "two Nonce options in one packet"},
			{Name: "tx_packets", Meaning: "translated and sent", Value: 123456},
		},
		EventList: history(), ProbeValue: probed(), PeerList: peers(),
		ReloadValue: control.Reloaded{
			Applied: []string{`host.mode: "soft" -> "hard"`}, Restart: []string{`host.device: "roam0" -> "r1"`},
		},
		ExportLine: "roam1:11-22ff-0-1:2001+db8+1+1:host.example:00000000",
	}
}

// Instructions lists what the backend was told, in words.
func (f *Fake) Instructions() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.instructions...)
}

func (f *Fake) note(s string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Err == nil {
		f.instructions = append(f.instructions, s)
	}
	return f.Err
}

// Status returns StatusValue.
func (f *Fake) Status(context.Context) (control.Status, error) { return f.StatusValue, f.Err }

// Roles returns RoleList.
func (f *Fake) Roles(context.Context, roam.NID) ([]control.RoleReport, error) {
	return f.RoleList, f.Err
}

// Locators returns LocatorList.
func (f *Fake) Locators(context.Context) ([]control.Locator, error) { return f.LocatorList, f.Err }

// EachSession calls each for those of SessionList, then, if it is set, MoreSessions.
func (f *Fake) EachSession(_ context.Context, each func(control.Session) error) error {
	if f.Err != nil {
		return f.Err
	}
	for _, s := range f.SessionList {
		if err := each(s); err != nil {
			return err
		}
	}
	if f.MoreSessions != nil {
		return f.MoreSessions(each)
	}
	return nil
}

// Summary counts those of SessionList.
func (f *Fake) Summary(context.Context) (control.Summary, error) {
	if f.NoSummary {
		return control.Summary{}, control.Errorf(control.CodeNotFound, "no such request: GET /v1/summary")
	}
	var sum control.Summary
	for _, s := range f.SessionList {
		sum.Count(s)
	}
	return sum, f.Err
}

// Counters returns CounterList.
func (f *Fake) Counters(context.Context) ([]control.Counter, error) { return f.CounterList, f.Err }

// History returns EventList.
func (f *Fake) History(context.Context) ([]control.Event, error) { return f.EventList, f.Err }

// Probe notes "probe NID" and returns ProbeValue.
func (f *Fake) Probe(_ context.Context, peer roam.NID) (control.Probed, error) {
	return f.ProbeValue, f.note("probe " + peer.String())
}

// Flows notes "flows NID PORT" and returns FlowList.
func (f *Fake) Flows(_ context.Context, q control.FlowRequest) ([]control.Flow, error) {
	return f.FlowList, f.note(fmt.Sprintf("flows %v %d", q.Peer, q.Port))
}

// Subscribe returns what is published on Hub.
func (f *Fake) Subscribe(ctx context.Context) (<-chan control.Event, error) {
	if f.Err != nil {
		return nil, f.Err
	}
	return f.Hub.Subscribe(ctx)
}

// SetMode notes "mode MODE".
func (f *Fake) SetMode(_ context.Context, m control.Mode) error {
	return f.note("mode " + string(m))
}

// SetLinkEnabled notes "enable LINK" or "disable LINK"; a link of no locator
// is refused as the daemon does.
func (f *Fake) SetLinkEnabled(_ context.Context, link string, enabled bool) error {
	for _, l := range f.LocatorList {
		if l.Link == link {
			return f.note(map[bool]string{true: "enable ", false: "disable "}[enabled] + link)
		}
	}
	return control.Errorf(control.CodeNotFound, "no uplink %q", link).WithHint("the links are wlan0, wwan0")
}

// SetDrained notes "drain LINK" or "undrain LINK"; wan9 is refused as the daemon does.
func (f *Fake) SetDrained(_ context.Context, link string, drained bool) error {
	if link == "wan9" {
		return control.Errorf(control.CodeNotFound, "no link to a provider is called %q", link).
			WithHint("border.links has: wan0, wan1")
	}
	return f.note(map[bool]string{true: "drain ", false: "undrain "}[drained] + link)
}

// Peers returns PeerList.
func (f *Fake) Peers(context.Context) ([]control.KnownPeer, error) { return f.PeerList, f.Err }

// AddPeer notes "add LINE" with the options.
func (f *Fake) AddPeer(_ context.Context, q control.AddRequest) (control.Peer, error) {
	if f.Undecided != nil && !q.Replace && !q.Force && q.As == "" {
		return control.Peer{}, f.Undecided
	}
	what := "add " + q.Line
	if q.As != "" {
		what += " as " + q.As
	}
	return f.peer(q.As), f.note(what + options(q.Replace, q.Force))
}

func options(replace, force bool) string {
	return map[bool]string{true: " replace"}[replace] + map[bool]string{true: " force"}[force]
}

func (f *Fake) peer(name string) control.Peer {
	return control.Peer{
		NID: 2, Names: []string{cmp.Or(name, "b.example")}, Address: control.SessionAddr(roam.DefaultSessionPrefix, 2),
		Locators: []roam.L64{0x2001_0db8_0001_0001}, Warning: f.AddWarning,
		Proof: control.ProofListed, Plain: true,
	}
}

// RemovePeer notes "remove PEER".
func (f *Fake) RemovePeer(_ context.Context, q control.RemoveRequest) (control.Removed, error) {
	return control.Removed{NID: 2, Names: []string{"b.example"}, Written: []control.Place{}, Warning: f.AddWarning}, f.note("remove " + q.Peer)
}

// RenamePeer notes "rename OLD NEW" with the options.
func (f *Fake) RenamePeer(_ context.Context, q control.RenameRequest) (control.Peer, error) {
	if f.Undecided != nil && !q.Replace && !q.Force {
		return control.Peer{}, f.Undecided
	}
	return f.peer(q.New), f.note("rename " + q.Old + " " + q.New + options(q.Replace, q.Force))
}

// Export returns ExportLine.
func (f *Fake) Export(context.Context) (control.Exported, error) {
	return control.Exported{Line: f.ExportLine}, f.Err
}

// Reload notes "reload" and returns ReloadValue.
func (f *Fake) Reload(context.Context) (control.Reloaded, error) {
	return f.ReloadValue, f.note("reload")
}

// Shutdown notes "shutdown" or "shutdown and remove".
func (f *Fake) Shutdown(_ context.Context, removePlane bool) error {
	if f.OnShutdown != nil {
		f.OnShutdown(removePlane)
	}
	if removePlane {
		return f.note("shutdown and remove")
	}
	return f.note("shutdown")
}
