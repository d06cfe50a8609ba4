package acceptance

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/topo"
	ilnpwire "roam/wire/ilnp"
)

// wiretap is a capture on an interface of a router, read while it grows.
type wiretap struct {
	t    testing.TB
	file string
}

// tap starts a capture on an interface, of everything or of what a filter of
// pcap-filter(7) takes.
func (w *world) tap(t testing.TB, h *topo.Host, ifname string, filter ...string) *wiretap {
	t.Helper()
	file := filepath.Join(w.dir, fmt.Sprintf("%s-%s-%d.pcap", h.Name(), ifname, w.taps))
	w.taps++
	c, err := h.Capture(w.top.Context(), ifname, file, 0, filter...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Stop() })
	return &wiretap{t: t, file: file}
}

// record is an IPv6 packet of a capture.
type record struct {
	at     time.Time
	packet []byte
}

// frames are the IPv6 packets so far, as bytes.
func (tap *wiretap) frames() (list [][]byte) {
	tap.t.Helper()
	for _, r := range tap.records() {
		list = append(list, r.packet)
	}
	return list
}

// records are the IPv6 packets so far. The file is in the form of
// pcap-savefile(5), in the order of bytes of this machine; its last record may
// be on its way still.
func (tap *wiretap) records() (list []record) {
	tap.t.Helper()
	b, err := os.ReadFile(tap.file)
	if err != nil {
		tap.t.Fatal(err)
	}
	const fileHeader, recordHeader, ethernet = 24, 16, 14
	for b = b[min(len(b), fileHeader):]; len(b) >= recordHeader; {
		seconds, micros := binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint32(b[4:])
		n := int(binary.NativeEndian.Uint32(b[8:]))
		if len(b) < recordHeader+n {
			break
		}
		frame := b[recordHeader : recordHeader+n]
		if n > ethernet && binary.BigEndian.Uint16(frame[12:]) == 0x86dd {
			list = append(list, record{time.Unix(int64(seconds), int64(micros)*1000), frame[ethernet:]})
		}
		b = b[recordHeader+n:]
	}
	return list
}

// last waits for a packet that matches, and returns the newest one.
func (tap *wiretap) last(what string, match func(ilnpwire.Packet) bool) (p ilnpwire.Packet, raw []byte) {
	tap.t.Helper()
	testutil.Eventually(tap.t, patience, func() bool {
		frames := tap.frames()
		for i := len(frames) - 1; i >= 0; i-- {
			var err error
			if p, err = ilnpwire.ParsePacket(frames[i]); err == nil && match(p) {
				raw = frames[i]
				return true
			}
		}
		return false
	}, "capture of "+what)
	return p, raw
}

// count counts the packets that match.
func (tap *wiretap) count(match func(ilnpwire.Packet) bool) (n int) {
	tap.t.Helper()
	for _, f := range tap.frames() {
		if p, err := ilnpwire.ParsePacket(f); err == nil && match(p) {
			n++
		}
	}
	return n
}

// updateFrom matches Locator Updates and their acknowledgements of a sender.
func updateFrom(nid roam.NID, op ilnpwire.Operation) func(ilnpwire.Packet) bool {
	return func(p ilnpwire.Packet) bool {
		return p.Src.NID == nid && p.Type == ilnpwire.TypeLocatorUpdate && len(p.Payload) > 5 &&
			ilnpwire.Operation(p.Payload[5]) == op
	}
}

// injector sends packets as they are, from a router.
type injector struct {
	t   testing.TB
	in  io.WriteCloser
	out *said
}

func (w *world) injector(t testing.TB, name string) *injector {
	i := &injector{t: t, out: &said{}}
	i.in = w.agent(t, name, i.out, "inject")
	return i
}

func (i *injector) send(packet []byte) {
	i.t.Helper()
	if _, err := fmt.Fprintln(i.in, hex.EncodeToString(packet)); err != nil {
		i.t.Fatalf("inject: %v: %s", err, i.out.text())
	}
}
