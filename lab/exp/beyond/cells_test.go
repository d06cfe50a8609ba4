package beyond

import (
	"encoding/binary"
	"testing"
	"time"

	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/node"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/workload/tcpflow"
	"roam/lab/workload/udpflow"
)

// Steps must come in order, and but for the outage a link must be left at each end.
func TestCellsAreSound(t *testing.T) {
	for _, preset := range exp.Presets {
		p := exptest.Params(t, Experiment.Params, preset)
		for name, make := range cells {
			c := make(p)
			up := map[string]int{"": len(c.active), "cn1": 1}
			if c.active == nil {
				up[""] = 1
			}
			last := time.Duration(0)
			for _, s := range c.plan.Steps {
				if s.At < last && name != "oneway" {
					t.Errorf("%s %s: %+v is out of order", preset, name, s)
				}
				last = s.At
				switch s.Op {
				case scene.Attach:
					up[s.Host]++
				case scene.Detach, scene.Cut:
					up[s.Host]--
				}
				if up[s.Host] < 1 && name != "outage" {
					t.Errorf("%s %s: no link after %+v", preset, name, s)
				}
			}
			if c.plan.Length <= last {
				t.Errorf("%s %s: ends at %v, last step at %v", preset, name, c.plan.Length, last)
			}
		}
	}
	c := manyCell(exptest.Params(t, Experiment.Params, "standard"))
	if span := c.plan.Steps[len(c.plan.Steps)-2].At - c.plan.Steps[0].At; c.changes != 50 || span > time.Minute {
		t.Errorf("%d handoffs in %v", c.changes, span)
	}
	if c := stormCell(exptest.Params(t, Experiment.Params, "standard")); c.changes != 100 {
		t.Errorf("%d handoffs in the storm", c.changes)
	}
}

func TestChoose(t *testing.T) {
	if l, err := choose("both, storm,both"); err != nil || len(l) != 2 {
		t.Errorf("%v, %v", l, err)
	}
	if _, err := choose("both,nothing"); err == nil {
		t.Error("an unknown cell was taken")
	}
}

// flow is one datagram per millisecond, without those sent within the hole.
func flow(origin time.Time, length, from, to time.Duration) *udpflow.Flow {
	var sent []udpflow.Sent
	var got []udpflow.Got
	for i := range int(length / time.Millisecond) {
		d := time.Duration(i) * time.Millisecond
		at := origin.Add(d).UnixNano()
		sent = append(sent, udpflow.Sent{At: at})
		if d < from || d >= to {
			got = append(got, udpflow.Got{Seq: uint64(i), Sent: at, At: at + int64(time.Millisecond)})
		}
	}
	return udpflow.New(sent, got)
}

func reads(origin time.Time, length, from, to time.Duration) (s tcpflow.Stream) {
	for d := time.Duration(0); d < length; d += time.Millisecond {
		if d < from || d >= to {
			s = append(s, tcpflow.Read{At: origin.Add(d).UnixNano(), Bytes: 100})
		}
	}
	return s
}

func TestOutageIsJudgedFromTheAdvertisement(t *testing.T) {
	p := exptest.Params(t, Experiment.Params, "quick")
	c := outageCell(p)
	c.name = "outage"
	start := time.Unix(1000, 0)
	cut, back := c.plan.Steps[0].At, c.plan.Steps[1].At
	usable := back + 20*time.Millisecond
	tr := &scene.Trace{Start: start, End: start.Add(c.plan.Length), Drops: map[string]uint64{},
		Adverts: []scene.Advert{{At: start.Add(usable), Link: "net1"}},
		Events: map[string][]node.Event{"mn": {
			{Time: start.Add(usable + 50*time.Millisecond), Kind: "locator-added", To: []node.LinkLocator{{Link: "net1"}}},
		}}}
	for _, s := range c.plan.Steps {
		tr.Steps = append(tr.Steps, scene.Done{Step: s, At: start.Add(s.At)})
	}
	l := &load{
		links: scene.NewLosses(udpPort),
		up:    flow(start, c.plan.Length, cut, usable+9*time.Millisecond),
		down:  flow(start, c.plan.Length, cut, usable+29*time.Millisecond),
		reads: [2]tcpflow.Stream{reads(start, c.plan.Length, cut, usable+400*time.Millisecond),
			reads(start, c.plan.Length, cut, usable+700*time.Millisecond)},
	}
	o := outcome{Cell: "outage", Alive: true}
	o.judge(c, tr, l, p)
	r := result.New("")
	o.metrics(r)
	near := func(metric string, want float64) {
		if got := r.Metrics[metric]; got < want-2 || got > want+2 {
			t.Errorf("%s is %g, want %g", metric, got, want)
		}
	}
	near("outage_resume_udp_out_ms", 10)
	near("outage_resume_udp_in_ms", 30)
	near("outage_resume_out_ms", 400)
	near("outage_resume_in_ms", 700)
	near("outage_return_to_advert_ms", 20)
	near("outage_daemon_return_to_locator_ms", 70)
	near("outage_length_s", p.Float("outage_s"))
	// Without an advertisement the result says why nothing is judged, of that cell alone.
	for cell, want := range map[string]bool{"outage": true, "both": false} {
		silent := result.New("")
		(&outcome{Cell: cell}).metrics(silent)
		if why := silent.Unmeasured[cell+"_resume_out_ms"]; (why != "") != want {
			t.Errorf("%s: %q", cell, why)
		}
	}
	// What comes before the advertisement is not early.
	l.up = flow(start, c.plan.Length, cut, back+5*time.Millisecond)
	o = outcome{Cell: "outage", Alive: true}
	o.judge(c, tr, l, p)
	if o.Resume.UDPOut != 0 {
		t.Errorf("resumed after %g ms", o.Resume.UDPOut)
	}
	if r.Metrics["outage_alive"] != 1 {
		t.Error("not alive")
	}
}

// The probe distinguishes a datagram that a link lost from one lost elsewhere, and from
// other losses of links.
func TestLossesAreKnownByNumber(t *testing.T) {
	frame := func(src, dst uint16, seq uint64) []byte {
		payload := binary.BigEndian.AppendUint64([]byte("RMUF"), seq)
		payload = append(payload, make([]byte, 8)...)
		b := append(make([]byte, 12), 0x86, 0xdd, 0x60, 0, 0, 0, 0, byte(8+len(payload)), 17, 64)
		b = append(b, make([]byte, 32)...)
		b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, src), dst)
		return append(append(b, 0, byte(8+len(payload)), 0, 0), payload...)
	}
	l := scene.NewLosses(udpPort)
	l.Note(frame(40000, udpPort, 7))
	l.Note(frame(udpPort, 40000, 9))
	l.Note(frame(6740, 6740, 8))
	l.Note(frame(40000, udpPort, 8)[:60])
	start := time.Unix(1000, 0)
	up := flow(start, 3*time.Second, 7*time.Millisecond, 9*time.Millisecond)
	var o outcome
	o.judge(cell{name: "loss"}, &scene.Trace{Start: start, End: start.Add(3 * time.Second), Drops: map[string]uint64{}},
		&load{up: up, down: flow(start, 3*time.Second, 9*time.Millisecond, 10*time.Millisecond), links: l},
		exptest.Params(t, Experiment.Params, "quick"))
	r := result.New("")
	o.metrics(r)
	if o.Lost != 3 || r.Metrics["_lost_by_links"] != 2 || r.Metrics["_lost_beyond_links"] != 1 {
		t.Errorf("%+v: %v", o.Lost, r.Metrics)
	}
}

func TestClaimsAreOfCells(t *testing.T) {
	r := result.New("")
	if err := missing(r, nil); err != nil {
		t.Fatal(err)
	}
	claims, err := result.ParseExpect(Experiment.Expect)
	if err != nil || len(r.Unmeasured) != len(claims) {
		t.Errorf("%d claims, %d without a cell, %v", len(claims), len(r.Unmeasured), err)
	}
}

// What is shown beside the claims is counted over both ways, and gaps are above the longest of
// the lead.
func TestOutcomeIsCounted(t *testing.T) {
	p := exptest.Params(t, Experiment.Params, "quick")
	start, end := exptest.Origin, exptest.At(5*time.Second)
	events := []node.Event{{Time: exptest.At(-time.Second), Kind: "handoff-done", To: []node.LinkLocator{{Link: "net1"}}}}
	for _, kind := range []string{"handoff-done", "update-failed", "session-fell-back", "peer-dead", "session-replaced",
		"told"} {
		events = append(events, node.Event{Time: exptest.At(time.Second), Kind: kind, To: []node.LinkLocator{{Link: "net1"}}})
	}
	events = append(events, node.Event{Time: exptest.At(time.Second), Kind: "handoff-done"}, events[1])
	tr := &scene.Trace{Start: start, End: end, Events: map[string][]node.Event{"mn": events}, Steps: []scene.Done{
		{Step: scene.Step{Name: "soft 1"}, At: exptest.At(3 * time.Second)}, {At: exptest.At(4 * time.Second)},
		{Step: scene.Step{Name: "soft 2"}, At: exptest.At(4 * time.Second)}}}
	probe := func(pause, late time.Duration) *udpflow.Flow {
		return exptest.UDP(t, 5*time.Second, time.Millisecond, 0, func(d *exptest.Datagram) {
			d.Doubled = d.At == time.Second
			switch {
			case d.At == 1500*time.Millisecond: // overtaken by one
				d.Delay = 1500 * time.Microsecond
			case exptest.Within(1600*time.Millisecond, 1600*time.Millisecond+pause)(d.At): // in the lead
				d.Delay = 1600*time.Millisecond + pause - d.At
			case exptest.Within(3*time.Second, 3*time.Second+late)(d.At):
				d.Delay = 3*time.Second + late - d.At
			}
		})
	}
	quiet := func(pause, late time.Duration) tcpflow.Stream {
		return exptest.TCP(t, 5*time.Second, time.Millisecond, func(d time.Duration) bool {
			return exptest.Within(1600*time.Millisecond, 1600*time.Millisecond+pause)(d) ||
				exptest.Within(3*time.Second, 3*time.Second+late)(d)
		})
	}
	const ms = time.Millisecond
	type pauses [2][2]time.Duration // in the lead and after it, out and in
	for _, c := range []struct {
		udp, tcp   pauses
		lead       float64
		udpG, tcpG float64
	}{
		{pauses{{30 * ms, 90 * ms}, {10 * ms, 40 * ms}}, pauses{{5 * ms, 70 * ms}, {5 * ms, 20 * ms}}, 31, 60, 65},
		{pauses{{5 * ms, 20 * ms}, {10 * ms, 90 * ms}}, pauses{{30 * ms, 20 * ms}, {5 * ms, 70 * ms}}, 31, 80, 40},
		{pauses{{5 * ms, 20 * ms}, {10 * ms, 10 * ms}}, pauses{{5 * ms, 20 * ms}, {30 * ms, 10 * ms}}, 31, 10, 0},
	} {
		l := &load{links: scene.NewLosses(udpPort), up: probe(c.udp[0][0], c.udp[0][1]),
			down:  probe(c.udp[1][0], c.udp[1][1]),
			reads: [2]tcpflow.Stream{quiet(c.tcp[0][0], c.tcp[0][1]), quiet(c.tcp[1][0], c.tcp[1][1])}}
		o := outcome{Cell: "x"}
		o.judge(cell{}, tr, l, p)
		if o.Sent != 8000 || o.Doubled != 2 || o.Misordered != 2 ||
			o.Daemon.Handoffs != 2 || o.Daemon.Failed != 4 || len(o.Marks) != 2 {
			t.Errorf("sent %d, doubled %d, misordered %d, handoffs %d, failed %d, marks %v", o.Sent, o.Doubled, o.Misordered,
				o.Daemon.Handoffs, o.Daemon.Failed, o.Marks)
		}
		r := result.New("")
		o.metrics(r)
		lead := r.Metrics["x_lead_gap_ms"]
		if near := func(a, b float64) bool { return a > b-1.5 && a < b+1.5 }; !near(lead, c.lead) ||
			!near(o.UDPGapMs, c.udpG) || !near(o.TCPGapMs, c.tcpG) {
			t.Errorf("gaps %g, %g and %g, want %g, %g and %g", lead, o.UDPGapMs, o.TCPGapMs, c.lead, c.udpG, c.tcpG)
		}
	}
}

// Transfers are told apart by what they went over; the queues of both count.
func TestTransfers(t *testing.T) {
	var o outcome
	o.transferred("alone", 10, 1)
	o.transferred("duality", 20, 2)
	o.transferred("duality", 21, 4)
	if len(o.AloneMbps) != 1 || len(o.Mbps) != 2 || o.Mbps[1] != 21 || o.Dropped != 7 {
		t.Errorf("%+v", o)
	}
}
