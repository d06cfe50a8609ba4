package border

import (
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/internal/config"
	"roam/internal/control"
	"roam/internal/hostnet"
	"roam/internal/keyfile"
	"roam/internal/rawio"
	"roam/sbr"
	"roam/wire/ilnp"
)

// wires is a host's routes and links: those by which packets leave.
type wires struct {
	routes map[netip.Addr]roam.LinkID
	sent   []roam.LinkID
	full   bool
}

func (w *wires) Toward(dst netip.Addr) (roam.LinkID, error) {
	if l, ok := w.routes[dst]; ok {
		return l, nil
	}
	return 0, rawio.ErrNoRoute
}

func (w *wires) Send(link roam.LinkID, _ []byte) error {
	if w.full {
		return rawio.ErrBusy
	}
	w.sent = append(w.sent, link)
	return nil
}

// closable is wires with the Close of a sender.
type closable struct{ *wires }

func (closable) Close() error { return nil }

func (w *wires) Close() {}

// A message of no flow leaves by the link to the inside that the host's routes name, and by no provider's; one that
// cannot be sent is counted.
func TestMessagesOfNoFlow(t *testing.T) {
	const lan1, wan0 = 4, 2
	r := newRole(t)
	r.Config.Border.Inside = []string{"lan*"}
	r.links = append(r.links, hostnet.Uplink{Link: lan1, Name: "lan1", Up: true})
	behind := func(nid roam.NID) roam.ILV { return roam.ILV{L64: internal, NID: nid} }
	w := &wires{routes: map[netip.Addr]roam.LinkID{
		behind(1).Addr(): 1, behind(2).Addr(): lan1, behind(3).Addr(): wan0,
	}}
	r.routes, r.sender = w, closable{w}
	send := func(to roam.ILV, link roam.LinkID) {
		t.Helper()
		b, err := ilnp.BuildEcho(roam.ILV{L64: 0x2001_0db8_00cc_0000, NID: 9}, to, ilnp.Nonce{}, true, 1, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.execute(time.Unix(1, 0), sbr.Transmit{Link: link, Packet: b})
	}
	for nid := range roam.NID(4) {
		send(behind(nid+1), sbr.Routed)
	}
	send(behind(9), wan0) // of a flow
	w.full = true
	send(behind(1), sbr.Routed)
	if !slices.Equal(w.sent, []roam.LinkID{1, lan1, wan0}) {
		t.Errorf("sent by %v", w.sent)
	}
	if got := r.refused[unsent]; got.messages != 3 || got.last.Local != behind(3) {
		t.Errorf("%d counted as not sent, the first to %v", got.messages, got.last.Local)
	}
}

// Another fallback is the core's with the reload.
func TestReloadOfFallback(t *testing.T) {
	r := newRole(t)
	outside, host := roam.ILV{L64: 0x2001_0db8_00cc_0000, NID: 9}, roam.ILV{L64: providerA, NID: 1}
	sent, err := ilnp.BuildEcho(host, outside, ilnp.Nonce{}, true, 1, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	tooBig := ilnp.ErrorMessage{Type: ilnp.TypePacketTooBig, Quoted: sent}
	e, err := ilnp.BuildError(outside, host, ilnp.Nonce{}, tooBig)
	if err != nil {
		t.Fatal(err)
	}
	for fallback, drops := range map[config.Fallback]bool{
		config.FallbackTranslate: false, config.FallbackForward: false, config.FallbackDrop: true,
	} {
		next := r.Config
		next.Border.Fallback = config.Fallback(fallback)
		r.reconfigure(time.Time{}, next)
		r.core.HandlePacket(time.Time{}, sbr.Packet{Bytes: e})
		var last sbr.Output
		for o, ok := r.core.Poll(); ok; o, ok = r.core.Poll() {
			last = o
		}
		if refusal, ok := last.(sbr.Refused); ok != drops || ok && refusal.Why != sbr.NoFlow {
			t.Errorf("fallback %d: %+v", fallback, last)
		}
	}
}

// A faulty policy and a key that cannot be read are refused before anything is taken over.
func TestCheck(t *testing.T) {
	r := newRole(t)
	next := r.Config
	next.Host.StateDir = t.TempDir()
	if err := r.Check(next); err != nil {
		t.Errorf("what is in force: %v", err)
	}
	next.Border.Policy = "what"
	wantRefused(t, r.Check(next), control.CodeInvalid, "border.policy", "line 1", "nothing was changed")
	next.Border.Policy = ""
	if err := os.WriteFile(keyfile.Path(next), []byte("spoilt"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, r.Check(next), control.CodeInvalid, keyfile.Path(next), "nothing was changed")
}
