package ilnphost

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"roam"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// reported is a rig with a keyed session whose paths are counted, and counts of two paths as the golden answers have
// them.
func reported(t *testing.T, key [ilnpwire.MACKeyLen]byte) *rig {
	t.Helper()
	r := newRig(t)
	r.uplink(here)
	p := entryFor(there)
	p.Counted, p.MACKey = true, key
	r.upsert(p)
	counts := bpfPathCounts{Epoch: 0x01020304, RxPackets: 1000, RxBytes: 1 << 40, TxPackets: 2000, TxBytes: 3}
	for i := range roam.L64(2) {
		k := bpfPathKey{
			Near: bpfAddr{L64: half(uint64(here + i)), Nid: half(uint64(ours))},
			Far:  bpfAddr{L64: half(uint64(there + i)), Nid: half(uint64(theirs))},
		}
		r.must(r.objs.PathCounts.Put(&k, &counts))
	}
	return r
}

// replyData returns the data of an echo reply.
func replyData(t testing.TB, packet []byte) []byte {
	t.Helper()
	p, err := ilnpwire.ParseControl(packet, encapPort)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ilnpwire.ParseEcho(p.Payload)
	if err != nil || e.Request {
		t.Fatalf("%+v, %v", e, err)
	}
	return e.Data
}

// TestGoldenReports: the programs answer the golden probes by the golden answers, but for the clock, with a right MAC.
func TestGoldenReports(t *testing.T) {
	key := goldenKey()
	r := reported(t, key)
	golden := goldenOf(t, "reports.hex")
	for name, request := range golden {
		rest, is := strings.CutPrefix(name, "request")
		if !is {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r, want := r.enter(t), golden["answer"+rest]
			verdict, got := r.ingress(request)
			if verdict != redirect || len(got) != len(want) {
				t.Fatalf("verdict %d, %d bytes, want %d", verdict, len(got), len(want))
			}
			near, far := here, there
			if strings.Contains(name, "another") {
				near, far = near+1, far+1
			}
			data := replyData(t, got)
			if mac := ilnpwire.ReportMAC(key, data, near, far); !bytes.Equal(mac[:], data[ilnpwire.ReportLen:]) {
				t.Errorf("MAC %x, want %x", data[ilnpwire.ReportLen:], mac)
			}
			if a, b := withoutClock(got), withoutClock(want); !bytes.Equal(a, b) {
				t.Errorf("without the clock: %s", difference(a, b))
			}
		})
	}
}

// TestReportsOfKeyedSessions: a request without space for a MAC, of a build before, is answered without one. One with
// space is returned as it came where the session has no key.
func TestReportsOfKeyedSessions(t *testing.T) {
	request := ilnpwire.Report{Counted: true, Sealed: true}.AppendRequest(nil, [16]byte{1, 2})
	probe := func(data []byte) []byte {
		return mustPacket(t)(ilnpwire.BuildEcho(at(there, theirs), at(here, ours), theirNonce, true, 9, 7, data))
	}
	for name, c := range map[string]struct {
		key    [ilnpwire.MACKeyLen]byte
		data   []byte
		filled bool
	}{
		"a build before":   {macKey, request[:ilnpwire.ReportLen], true},
		"without a key":    {[16]byte{}, request, false},
		"without and none": {[16]byte{}, request[:ilnpwire.ReportLen], true},
		"with a key":       {macKey, request, true},
		"longer":           {macKey, append(bytes.Clone(request), 0), false},
	} {
		t.Run(name, func(t *testing.T) {
			_, out := reported(t, c.key).ingress(probe(c.data))
			data := replyData(t, out)
			if _, err := ilnpwire.ParseReport(data); (err == nil) != c.filled || !c.filled && !bytes.Equal(data, c.data) {
				t.Errorf("%x, %v", data, err)
			}
			if p := out[ip6.HeaderLen:]; binary.BigEndian.Uint16(out[ip6.PayloadLenAt:]) != uint16(len(p)) {
				t.Errorf("a packet of %d bytes", len(p))
			}
		})
	}
}
