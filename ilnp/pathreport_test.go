package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/multipath"
	ilnpwire "roam/wire/ilnp"
)

// reporting is a session of two paths with a peer that reports, and one probe of each path.
func reporting(t *testing.T) (*bench, []ilnpwire.Packet) {
	t.Helper()
	b := counting(t)
	b.open(netP)
	return b, b.askReports()
}

// counting is a host with two paths to its peers, whose programs count.
func counting(t *testing.T) *bench {
	t.Helper()
	count := uint64(0)
	b := newBench(t, inMode(Duality), func(c *Config) {
		c.Liveness = func(string) multipath.Level { return multipath.Normal }
		c.PathCounts = func(SessionKey, Path) (PathCounts, bool) {
			count += 100
			n := multipath.Traffic{Packets: count, Bytes: 1000 * count}
			return PathCounts{Epoch: 1, Sent: n, Received: n}, true
		}
	})
	b.prefix(1, netA, roam.Infinite)
	b.prefix(2, netB, roam.Infinite)
	return b
}

// askReports lets time pass with data until probes ask for reports, and returns those.
func (b *bench) askReports() []ilnpwire.Packet {
	b.t.Helper()
	for range 20 {
		b.forget()
		b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now, Asks: true}})
		b.drain()
		b.pass(150 * time.Millisecond)
		probes := slices.DeleteFunc(b.probesSent(), func(p ilnpwire.Packet) bool {
			return len(p.Payload) < 8+ilnpwire.ReportLen
		})
		if len(probes) > 0 {
			return probes
		}
		b.answerProbes()
	}
	b.t.Fatal("no probe asks for a report")
	return nil
}

// report answers a probe with these data.
func (b *bench) report(p ilnpwire.Packet, n Nonce, data []byte) {
	b.t.Helper()
	e, err := ilnpwire.ParseEcho(p.Payload)
	if err != nil {
		b.t.Fatal(err)
	}
	packet, err := ilnpwire.BuildEcho(p.Dst, p.Src, n, false, e.ID, e.Seq, data)
	if err != nil {
		b.t.Fatal(err)
	}
	b.receive(1, packet)
}

// dataOf returns the data of a probe, and of an answer to it with a report.
func dataOf(t *testing.T, p ilnpwire.Packet) (asked, answer []byte) {
	t.Helper()
	e, err := ilnpwire.ParseEcho(p.Payload)
	if err != nil {
		t.Fatal(err)
	}
	n := ilnpwire.Counts{Packets: 7, Bytes: 700}
	r := ilnpwire.Report{Counted: true, Epoch: 1, Clock: 5, Received: n, Sent: n}
	return e.Data, r.AppendReply(nil, [16]byte(e.Data))
}

// TestReportIsTaken: a report makes the path's directions known; a bad one does not, is counted,
// and still is an answer.
func TestReportIsTaken(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func([]byte) []byte
		reason string
		known  bool
	}{
		{"right", func(b []byte) []byte { return b }, "", true},
		{"truncated", func(b []byte) []byte { return b[:len(b)-1] }, reasonReport, false},
		{"token alone", func(b []byte) []byte { return b[:16] }, reasonReport, false},
		{"longer", func(b []byte) []byte { return append(b, 0) }, reasonReport, false},
		{"another mark", func(b []byte) []byte { b[17] ^= 1; return b }, reasonReport, false},
	} {
		b, probes := reporting(t)
		_, data := dataOf(t, probes[0])
		b.now = b.now.Add(20 * time.Millisecond)
		b.report(probes[0], peerNonce, c.change(data))
		path := Path{Local: roam.LinkLocator{Link: 1, L64: probes[0].Src.L64}, Remote: probes[0].Dst.L64}
		if path.Local.L64 == netB {
			path.Local.Link = 2
		}
		e := b.sessions[theKey].reports.estimates[path]
		if e == nil {
			t.Fatalf("%s: the answer is not noted", c.name)
		}
		s := e.State(b.now)
		if known := !s.Out.At.IsZero(); known != c.known || s.RTT != 170*time.Millisecond {
			t.Errorf("%s: known %v, round trip %v", c.name, known, s.RTT)
		}
		want := uint64(0)
		if c.reason != "" {
			want = 1
		}
		if n := b.RejectedInput()[reasonReport]; n != want {
			t.Errorf("%s: %d reports refused, want %d", c.name, n, want)
		}
	}
}

// TestReportOfAnotherExchange: an answer counts once, and only between the nodes and from the
// locator of its probe.
func TestReportOfAnotherExchange(t *testing.T) {
	b, probes := reporting(t)
	_, data := dataOf(t, probes[0])
	refused := b.RejectedInput()[reasonToken]
	other := probes[0]
	other.Src.NID++ // of another session
	b.report(other, peerNonce, data)
	elsewhere := probes[0]
	elsewhere.Dst.L64 = netQ
	b.report(elsewhere, peerNonce, data)
	if n := b.RejectedInput()[reasonToken] - refused; n != 2 {
		t.Errorf("%d answers of other exchanges refused, want 2", n)
	}
	b.report(probes[0], peerNonce, data)
	b.report(probes[0], peerNonce, data) // replayed
	if n := b.RejectedInput()[reasonToken] - refused; n != 3 {
		t.Errorf("%d answers refused after a replay, want 3", n)
	}
}

// TestReportsAreBounded: however many paths there were, estimates of few of them are kept.
func TestReportsAreBounded(t *testing.T) {
	s := &session{}
	now := epoch
	for i := range 10 * estimatesMost {
		s.estimateOf(now, Path{Remote: roam.L64(i)})
	}
	if n := len(s.reports.estimates); n != estimatesMost {
		t.Errorf("%d estimates, want %d", n, estimatesMost)
	}
	if s.estimateOf(now.Add(2*estimateLasts), Path{Remote: 1 << 40}) == nil || len(s.reports.estimates) != 1 {
		t.Errorf("%d estimates are kept for long", len(s.reports.estimates))
	}
}
