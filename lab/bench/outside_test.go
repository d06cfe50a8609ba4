package bench

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/node"
	"roam/lab/packets"
	"roam/lab/workload/tcpflow"
	"roam/wire/ilnp"
)

// updates is what the links of MN carried while its set of locators changed. The daemon's times
// stand beside: they decide nothing.
type updates struct {
	wire  []packets.Packet // in order of time
	asked []time.Time      // when each change was asked for
	says  []time.Duration  // from each update to its acknowledgement, in the daemon's opinion
}

// took returns how long each change took, from its update on MN's links, or the first of several,
// to the acknowledgement there.
func (u *updates) took() (all []time.Duration, err error) {
	list := packets.Exchanges(u.wire, nidMN, nidCN)
	for i, from := range u.asked {
		k := slices.IndexFunc(list, func(e packets.Exchange) bool {
			return !e.Refresh && !e.Sent.At.Before(from) && (i+1 == len(u.asked) || e.Sent.At.Before(u.asked[i+1]))
		})
		if k < 0 || len(list[k].Acks) == 0 {
			return nil, fmt.Errorf("change %d: no acknowledged Locator Update in the capture", i+1)
		}
		all = append(all, list[k].Acks[0].At.Sub(list[k].Sent.At))
	}
	return all, nil
}

// echoes returns the round-trip times to an address, without the first of each run of ping, which
// neighbor discovery delays.
func (u *updates) echoes(to netip.Addr) (all []time.Duration) {
	for _, e := range packets.Echoes(u.wire, to) {
		if e.Number > 1 {
			all = append(all, e.Took)
		}
	}
	return all
}

// figures compare the updates with the echoes to an address of CN.
func (u *updates) figures(to netip.Addr) (all []testutil.Figure, err error) {
	times, err := u.took()
	if err != nil {
		return nil, err
	}
	echoes := u.echoes(to)
	if len(echoes) < len(times) {
		return nil, fmt.Errorf("%d echoes for %d updates", len(echoes), len(times))
	}
	echo := quantile(echoes, 0.5)
	for _, q := range []struct {
		name     string
		q, bound float64
	}{{"median", 0.5, 2}, {"p99", 0.99, 7}} {
		all = append(all, testutil.Figure{
			Name: "LocatorUpdate/" + q.name,
			Says: "update to acknowledgement on the host's links, " + q.name + ", beyond the median echo there",
			Unit: "ms", Op: "<=", Bound: q.bound, Value: milli(quantile(times, q.q) - echo), Rounds: len(times),
			Raw: map[string][]float64{"ms update": millis(times), "ms echo": millis(echoes)},
			Details: map[string]float64{"ms echo": milli(echo), "ms echo p99": milli(quantile(echoes, 0.99)),
				"ms worst": milli(quantile(times, 1)), "ms " + q.name + " as the daemon says": milli(quantile(u.says, q.q))},
		})
	}
	return all, nil
}

// keyedFigure compares updates of keyed sessions with those of unkeyed ones, change by change.
func keyedFigure(keyed, unkeyed *updates) (f testutil.Figure, err error) {
	over, err := keyed.took()
	if err != nil {
		return f, fmt.Errorf("with keys: %w", err)
	}
	under, err := unkeyed.took()
	if err != nil {
		return f, fmt.Errorf("without keys: %w", err)
	}
	e := apart(over, under)
	return testutil.Figure{
		Name: "KeyedLocatorUpdate", Unit: "ms",
		Says: "update to acknowledgement on the host's links in a keyed session, beyond an unkeyed one",
		Op:   "<=", Bound: 0.3, Value: e.Mid, Half: e.Half, Within: 0.1, Rounds: len(over),
		Raw: map[string][]float64{"ms keyed": millis(over), "ms unkeyed": millis(under)},
		Details: map[string]float64{
			"ms keyed": milli(quantile(over, 0.5)), "ms unkeyed": milli(quantile(under, 0.5)),
			"ms keyed as the daemon says":   milli(quantile(keyed.says, 0.5)),
			"ms unkeyed as the daemon says": milli(quantile(unkeyed.says, 0.5)),
		},
	}, nil
}

// interrupted is what the only link of MN carried when it came back from each outage, and the
// daemon's events.
type interrupted struct {
	wire   []packets.Packet
	back   []time.Time // when the link came back
	events []node.Event
}

// daemonOutage names what the daemon's event of its locator would have made of an outage.
const daemonOutage = "ms from the locator as the daemon says"

// figure takes the time from the first Router Advertisement after each outage to data, at the
// application that reads it.
func (o *interrupted) figure(who string, bound float64, reads tcpflow.Stream) (f testutil.Figure, err error) {
	var took, fromLocator []time.Duration
	for i, back := range o.back {
		usable, ok := packets.FirstAdvert(o.wire, back)
		if !ok {
			return f, fmt.Errorf("outage %d: no Router Advertisement in the capture", i+1)
		}
		data, ok := reads.FirstAfter(back)
		if !ok {
			return f, fmt.Errorf("outage %d: no data of the %s", i+1, who)
		}
		took = append(took, max(0, data.Sub(usable)))
		if at, ok := node.Added(o.events, "net1", back); ok {
			fromLocator = append(fromLocator, data.Sub(at))
		}
	}
	return testutil.Figure{
		Name: "Outage/" + who,
		Says: "30 s without a link, from the first Router Advertisement to data of the " + who + ", longest",
		Unit: "ms", Op: "<=", Bound: bound, Value: milli(quantile(took, 1)), Rounds: len(took),
		Raw:     map[string][]float64{"ms": millis(took)},
		Details: map[string]float64{"ms median": milli(quantile(took, 0.5)), daemonOutage: milli(quantile(fromLocator, 1))},
	}, nil
}

var outsideBegan = time.Unix(1000, 0)

func afterMs(ms float64) time.Time {
	return outsideBegan.Add(time.Duration(ms * float64(time.Millisecond)))
}

// message is a Locator Update of MN, or CN's acknowledgement, as a capture has it.
func message(t *testing.T, ms float64, ack bool, locators ...roam.L64) packets.Packet {
	t.Helper()
	from, to := roam.ILV{L64: 1, NID: nidMN}, roam.ILV{L64: 9, NID: nidCN}
	lu := ilnp.LocatorUpdate{Operation: ilnp.Advertisement}
	for _, l := range locators {
		lu.Locators = append(lu.Locators, ilnp.LocatorEntry{L64: l, Preference: 10, Lifetime: 60})
	}
	if ack {
		lu, from, to = lu.Ack(), to, from
	}
	b, err := ilnp.BuildUpdate(from, to, ilnp.Nonce{Len: 4, Bytes: [12]byte{1, 2, 3, 4}}, lu)
	if err != nil {
		t.Fatal(err)
	}
	p, ok := packets.Parse(b)
	if !ok {
		t.Fatalf("not read: %x", b)
	}
	p.At = afterMs(ms)
	return p
}

// answered is a request to an address and its reply.
func answered(ms, took float64, to netip.Addr, number uint16) []packets.Packet {
	data := binary.BigEndian.AppendUint16([]byte{128, 0, 0, 0, 0, 1}, number)
	reply := append([]byte{129}, data[1:]...)
	return []packets.Packet{
		{At: afterMs(ms), Proto: packets.ICMPv6, Dst: to, Data: data},
		{At: afterMs(ms + took), Proto: packets.ICMPv6, Src: to, Data: reply},
	}
}

// changes are ten changes of the set, one every 100 ms, each acknowledged after 20 ms and as late as
// is asked for, and ten echoes of 20 ms.
func changes(t *testing.T, late, saysLate float64) *updates {
	u := &updates{}
	for i := range 10 {
		at := float64(100 * i)
		set := []roam.L64{1, 2}[:1+i%2]
		u.asked = append(u.asked, afterMs(at))
		exchange := []packets.Packet{message(t, at+2, false, set...), message(t, at+22+late, true, set...)}
		u.wire = packets.Merge(u.wire, exchange, answered(at+50, 90, cnOutside, 1), answered(at+51, 20, cnOutside, 2))
		u.says = append(u.says, time.Duration((20+saysLate)*float64(time.Millisecond)))
	}
	return u
}

var cnOutside = netip.MustParseAddr("2001:db8:c::1")

// A daemon that says late that its update was acknowledged changes no figure, an acknowledgement that
// is late on the wire does; what the daemon says stands beside.
func TestUpdatesAreJudgedFromTheWire(t *testing.T) {
	for _, c := range []struct {
		name                          string
		late, saysLate, value, daemon float64
		verdict                       string
	}{
		{"both are right", 0, 0, 0, 20, testutil.Pass},
		{"the daemon is late", 0, 500, 0, 520, testutil.Pass},
		{"the daemon is early", 1, -15, 1, 5, testutil.Pass},
		{"the packet is late", 8, 0, 8, 20, testutil.Fail},
	} {
		all, err := changes(t, c.late, c.saysLate).figures(cnOutside)
		if err != nil || len(all) != 2 {
			t.Fatalf("%s: %d figures, %v", c.name, len(all), err)
		}
		for i, q := range []string{"median", "p99"} {
			f := all[i]
			says := f.Details["ms "+q+" as the daemon says"]
			if !near(f.Value, c.value) || !near(says, c.daemon) || !near(f.Details["ms echo p99"], 20) ||
				f.Judge() != c.verdict || f.Rounds != 10 {
				t.Errorf("%s: %v, %v, %v, want %v", c.name, f, f.Details, f.Judge(), c)
			}
		}
		f, err := keyedFigure(changes(t, c.late, c.saysLate), changes(t, 0, 0))
		if err != nil || !near(f.Value, c.value) || !near(f.Details["ms keyed as the daemon says"], c.daemon) {
			t.Errorf("%s: keyed %v, %v, %v", c.name, f, f.Details, err)
		}
	}
	u := changes(t, 0, 0)
	u.wire = packets.Select(u.wire, func(p packets.Packet) bool { return !p.At.Equal(afterMs(922)) })
	if _, err := u.figures(cnOutside); err == nil {
		t.Error("a change without an acknowledgement in the capture is judged")
	}
	u = changes(t, 0, 0)
	u.wire = packets.Select(u.wire, func(p packets.Packet) bool { return p.Nonce })
	if _, err := u.figures(cnOutside); err == nil {
		t.Error("updates are judged without echoes")
	}
}

// A daemon that says late that its locator is there changes no figure of an outage; data, or an
// advertisement, that is late does.
func TestOutageIsJudgedFromTheAdvertisement(t *testing.T) {
	advert := func(ms float64) packets.Packet {
		return packets.Packet{At: afterMs(ms), Proto: packets.ICMPv6, Data: []byte{134, 0, 0, 0}}
	}
	read := func(ms float64) tcpflow.Read { return tcpflow.Read{At: afterMs(ms).UnixNano()} }
	for _, c := range []struct {
		name               string
		advert, data, said float64
		value, daemon      float64
		verdict            string
	}{
		{"in time", 30, 90, 50, 60, 40, testutil.Pass},
		{"the daemon is late", 30, 90, 550, 60, -460, testutil.Pass},
		{"data are late", 30, 1090, 50, 1060, 1040, testutil.Fail},
		{"data and what the daemon says are late", 30, 1090, 1050, 1060, 40, testutil.Fail},
		{"the advertisement is late", 60, 90, 50, 30, 40, testutil.Pass},
		{"data come before the advertisement", 100, 90, 50, 0, 40, testutil.Pass},
	} {
		o := &interrupted{
			wire:   []packets.Packet{advert(-1000), advert(c.advert), advert(c.advert + 200)},
			back:   []time.Time{afterMs(0)},
			events: []node.Event{{Kind: "locator-added", Time: afterMs(c.said), To: []node.LinkLocator{{Link: "net1"}}}},
		}
		f, err := o.figure("host", 1020, tcpflow.Stream{read(-20000), read(c.data), read(c.data + 5)})
		if err != nil || !near(f.Value, c.value) || !near(f.Details[daemonOutage], c.daemon) || f.Judge() != c.verdict {
			t.Errorf("%s: %v, %v, %v, %v", c.name, f, f.Details, f.Judge(), err)
		}
	}
	o := &interrupted{wire: []packets.Packet{advert(10), advert(5010)}, back: []time.Time{afterMs(0), afterMs(5000)}}
	f, err := o.figure("host", 1020, tcpflow.Stream{read(90), read(5050)})
	if err != nil || !near(f.Value, 80) || f.Rounds != 2 {
		t.Errorf("the longest of two: %v, %v", f, err)
	}
	if _, err := o.figure("host", 1020, tcpflow.Stream{read(90)}); err == nil {
		t.Error("an outage without data after it is judged")
	}
	o.wire = o.wire[:1]
	if _, err := o.figure("host", 1020, tcpflow.Stream{read(90), read(5050)}); err == nil {
		t.Error("an outage without an advertisement after it is judged")
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }
