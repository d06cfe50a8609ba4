package ilnphost

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/wire/golden"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

const goldenDir = "../../../wire/testdata"

func goldenCases(t *testing.T) map[string]golden.Case {
	t.Helper()
	files, err := filepath.Glob(goldenDir + "/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden cases in %s: %v", goldenDir, err)
	}
	all := make(map[string]golden.Case)
	for _, f := range files {
		txt, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSuffix(f, ".txt")
		pcap, err := os.ReadFile(base + ".pcap")
		if err != nil {
			t.Fatal(err)
		}
		c, err := golden.Parse(pcap, txt)
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		all[filepath.Base(base)] = c
	}
	return all
}

// differs names the cases in which the programs do something else than the
// model, and why they may.
var differs = map[string]struct{ like, why string }{
	"hop-by-hop": {"hop-by-hop-no-nonce", "the kernel makes room only right behind the IPv6 header, " +
		"and a Hop-by-Hop header must stay there: such packets go without nonce"},
}

// install makes the plane that of the case's host. The nonce of the case is
// ours on the way out, and the correspondent's on the way in.
func (r *rig) install(c golden.Case) ilnp.Entry {
	r.t.Helper()
	e := c.Entry
	r.change(func(s *HostSettings) { s.SessionPrefix, s.NIDs = e.SessionPrefix, []roam.NID{e.LocalNID} })
	r.uplink(e.LocalL64)
	p := ilnp.Entry{
		Key:      ilnp.SessionKey{Local: e.LocalAlias, Remote: e.RemoteAlias},
		State:    ilnp.Established,
		LocalNID: e.LocalNID, RemoteNID: e.RemoteNID,
		LocalNonce: ourNonce, RemoteNonce: theirNonce,
		Seq:   1,
		Paths: []ilnp.Path{{Local: roam.LinkLocator{Link: loopback, L64: e.LocalL64}, Remote: e.RemoteL64}},

		Validated: []roam.L64{e.RemoteL64},
	}
	if e.Rule == xlate.RuleRFC6741 {
		p.Rule = ilnp.RuleRFC6741
	}
	if e.ICMPRule == xlate.RuleRFC6741 && c.Direction == golden.Outward { // inward, a message shows it
		p.ICMPRule = ilnp.RuleRFC6741
	}
	if e.Nonce.Present() && c.Direction == golden.Outward {
		p.LocalNonce, p.NonceUntil = e.Nonce, time.Now().Add(time.Hour)
	}
	if e.Nonce.Present() && c.Direction == golden.Inward {
		p.RemoteNonce = e.Nonce
	}
	r.upsert(p)
	return p
}

// Every golden case gives the same bytes in BPF as in Go.
func TestGolden(t *testing.T) {
	r := newRig(t)
	cases := goldenCases(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := r.enter(t)
			p := r.install(c)
			switch c.Direction {
			case golden.Outward:
				want := c.Wire
				if d, ok := differs[name]; ok {
					want = cases[d.like].Wire
				}
				r.goldenOut(c, want)
			case golden.Inward:
				r.goldenIn(c.Wire, c.Session)
			case golden.ErrorInward:
				v, _ := r.ingress(c.Wire)
				r.wantHandedOver(v, shot, ErrorIn, p.Key, c.Wire)
			case golden.ErrorOutward:
				v, _ := r.egress(c.Session)
				r.wantHandedOver(v, consumed, ErrorOut, p.Key, c.Session)
			}
			r.must(r.Delete(p.Key))
		})
	}
}

func (r *rig) goldenOut(c golden.Case, want []byte) {
	r.t.Helper()
	v, out := r.egress(c.Session)
	if v != redirect || !bytes.Equal(out, want) {
		r.t.Errorf("verdict %d, %s", v, difference(out, want))
	}
	if ks := r.kinds(); len(ks) > 0 {
		r.t.Errorf("events %v", ks)
	}
}

func (r *rig) goldenIn(wire, want []byte) {
	r.t.Helper()
	v, out := r.ingress(wire)
	if v != passOn || !bytes.Equal(out, want) {
		r.t.Errorf("verdict %d, %s", v, difference(out, want))
	}
	if ks := r.kinds(); len(ks) > 0 {
		r.t.Errorf("events %v", ks)
	}
}

// wantHandedOver wants one event with the whole packet.
func (r *rig) wantHandedOver(verdict, want int, kind EventKind, key ilnp.SessionKey, packet []byte) {
	r.t.Helper()
	if verdict != want {
		r.t.Errorf("verdict %d, want %d", verdict, want)
	}
	evs := r.events()
	if len(evs) != 1 || evs[0].Kind != kind || evs[0].Key != key || evs[0].Link != loopback {
		r.t.Fatalf("events %+v, want one of kind %d for %v", evs, kind, key)
	}
	if !bytes.Equal(evs[0].Packet, packet) {
		r.t.Errorf("handed over: %s", difference(evs[0].Packet, packet))
	}
}

// mirrored is the case as the other end has it: what goes out here comes in
// there.
func mirrored(c golden.Case) golden.Case {
	e := c.Entry
	e.LocalAlias, e.RemoteAlias = e.RemoteAlias, e.LocalAlias
	e.LocalNID, e.RemoteNID = e.RemoteNID, e.LocalNID
	e.LocalL64, e.RemoteL64 = e.RemoteL64, e.LocalL64
	return golden.Case{Direction: golden.Inward, Entry: e, Wire: c.Wire, Session: c.Session}
}

// What goes out at one end comes in at the other as it was, but for what the
// data plane answers or hands over there.
func TestGoldenAtTheOtherEnd(t *testing.T) {
	r := newRig(t)
	for name, c := range goldenCases(t) {
		if c.Direction != golden.Outward {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := r.enter(t)
			m := mirrored(c)
			p := r.install(m)
			defer r.Delete(p.Key)
			wire, err := ilnpwire.ParsePacket(c.Wire)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case wire.Proto == ip6.ICMPv6 && wire.Type == ilnpwire.TypeLocatorUpdate:
				v, _ := r.ingress(c.Wire)
				r.wantHandedOver(v, shot, Control, p.Key, c.Wire)
			case wire.Proto == ip6.ICMPv6 && wire.Type == ilnpwire.TypeEchoRequest && wire.Nonce.Present():
				if v, _ := r.ingress(c.Wire); v != redirect {
					t.Errorf("verdict %d on an echo request", v)
				}
				r.kinds()
			default:
				want, err := m.Translate()
				if err != nil {
					t.Fatal(err)
				}
				r.goldenIn(c.Wire, want)
			}
		})
	}
}

// The two cases that the exceptions compare exist, and the list names no
// others.
func TestGoldenExceptions(t *testing.T) {
	cases := goldenCases(t)
	var names []string
	for name, d := range differs {
		names = append(names, name, d.like)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if _, ok := cases[name]; !ok {
			t.Errorf("no golden case %s", name)
		}
	}
}
