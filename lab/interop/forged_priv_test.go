package interop

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"reflect"
	"sync"
	"testing"
	"time"

	"roam"
	"roam/lab/peergen"
)

// Where the attacker is: a network of its own behind the router, off every path.
var netForger = netip.MustParsePrefix("2001:db8:e:1::/64")

const (
	forgedPackets = 1 << 14
	forgedFor     = 8 * time.Second
	forgedRamp    = 250 * time.Millisecond
	forgedBurst   = 5 * time.Millisecond // of overdue packets, sent at once
)

// forger sends forged packets from its own network.
type forger struct {
	t       *testing.T
	file    *os.File
	packets [][]byte
	sent    int
}

func (w *world) forger(peers ...roam.ILV) *forger {
	w.Helper()
	f := &forger{t: w.T}
	err := w.router.Do(func() (err error) {
		f.file, err = peergen.OpenTun("forger")
		return err
	})
	if err == nil {
		err = w.router.SetUp("forger")
	}
	if err == nil {
		err = w.router.AddRoute(netForger, netip.Addr{}, "forger")
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { f.file.Close() })
	go func() { // nothing reads the answers
		b := make([]byte, 2048)
		for {
			if _, err := f.file.Read(b); err != nil {
				return
			}
		}
	}()
	g := peergen.Forger{
		Random: rand.New(rand.NewPCG(6740, 6744)), Victims: peers,
		Own:     roam.ILV{L64: locator(netForger), NID: 0x1000_0000_0000_0bad},
		Targets: []roam.ILV{{L64: locator(netRoam[0]), NID: nidRoam}, {L64: locator(netRoam[1]), NID: nidRoam}},
		Port:    forgedPort, UDPPort: 6740,
	}
	for range forgedPackets {
		b, err := g.Next()
		if err != nil {
			w.Fatal(err)
		}
		f.packets = append(f.packets, b)
	}
	return f
}

// send sends the next packet.
func (f *forger) send() {
	f.sent++
	if _, err := f.file.Write(f.packets[f.sent%len(f.packets)]); err != nil {
		f.t.Error(err)
	}
}

// saturate returns the rate that this machine sends and receives at most.
func (f *forger) saturate() float64 {
	began, n := time.Now(), f.sent
	for time.Since(began) < forgedRamp {
		f.send()
	}
	return float64(f.sent-n) / time.Since(began).Seconds()
}

// flood sends at a rate until stop, which returns how many packets these were.
func (f *forger) flood(rate float64) (stop func() int) {
	done, ended := make(chan struct{}), make(chan struct{})
	from, began := f.sent, time.Now()
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		due, last := 0.0, began
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			now := time.Now() // the tick may have waited for a processor
			due = min(due+rate*now.Sub(last).Seconds(), rate*forgedBurst.Seconds())
			for last = now; due >= 1; due-- {
				f.send()
			}
		}
	}()
	stop = sync.OnceValue(func() int { close(done); <-ended; return f.sent - from })
	f.t.Cleanup(func() { stop() })
	return stop
}

// numbered sends numbered datagrams, one each 20 ms, and notes which are echoed.
type numbered struct {
	conn net.Conn
	mu   sync.Mutex
	sent uint32
	came map[uint32]bool
}

func (w *world) numbered(port uint16) *numbered {
	w.Helper()
	s := &numbered{conn: w.dial("udp6", port), came: map[uint32]bool{}}
	if err := s.conn.SetDeadline(time.Time{}); err != nil {
		w.Fatal(err)
	}
	done := make(chan struct{})
	w.Cleanup(func() { close(done) })
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				s.mu.Lock()
				s.sent++
				b := binary.BigEndian.AppendUint32([]byte("number"), s.sent)
				s.mu.Unlock()
				_, _ = s.conn.Write(b) // a lost one is counted
			}
		}
	}()
	go func() {
		b := make([]byte, 64)
		for {
			n, err := s.conn.Read(b)
			if err != nil {
				select {
				case <-done:
					return
				default:
					continue // an error that an ICMPv6 message caused
				}
			}
			if n == 10 {
				s.mu.Lock()
				s.came[binary.BigEndian.Uint32(b[6:])] = true
				s.mu.Unlock()
			}
		}
	}()
	return s
}

// now is the number of the datagram sent last.
func (s *numbered) now() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// lost returns how many of the datagrams behind from, up to the present one, are not
// echoed within half a second.
func (s *numbered) lost(w *world, from uint32) (n int) {
	w.Helper()
	until := s.now()
	w.eventually("25 more datagrams are sent", func() bool { return s.now() >= until+25 })
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := from + 1; i <= until; i++ {
		if !s.came[i] {
			n++
		}
	}
	return n
}

// learned is what Roam shows of the session with the peer that others must not change.
func (w *world) learned() map[string]any {
	w.Helper()
	var list []map[string]any
	if err := json.Unmarshal(w.ask("session", "show", "--json"), &list); err != nil {
		w.Fatal(err)
	}
	for _, s := range list {
		if s["address"] != sessionAddr(nidPeer).String() {
			continue
		}
		out := map[string]any{}
		for _, name := range []string{"nid", "names", "state", "dead", "checksum", "checksum_icmp", "update_form",
			"option_on", "encapsulation", "spread", "why_plain", "since"} {
			if out[name] = s[name]; name != "why_plain" && s[name] == nil {
				w.Fatalf("the session shows no %s: %v", name, s)
			}
		}
		var locators []string
		for _, l := range s["locators"].([]any) {
			l := l.(map[string]any)
			locators = append(locators, fmt.Sprint(l["l64"], l["preference"], l["state"], l["proven"]))
		}
		out["locators"] = locators
		return out
	}
	w.Fatalf("no session with the peer: %v", list)
	return nil
}

// forgedPort is where forged first packets go.
const forgedPort = 7001

// TestForgedForms floods a host that speaks with another stack by forged messages of every
// form, under both checksum rules, without nonces and with wrong ones, at half of what the
// machine can take: nothing is lost, nothing learned, and a move works.
func TestForgedForms(t *testing.T) {
	for _, p := range []Profile{Linux2019, RFC} {
		t.Run(p.Name, func(t *testing.T) {
			w := onNet1(t, "soft", p.Stack)
			w.listen(forgedPort)
			tcp := w.echoed("tcp6")
			udp := w.numbered(EchoPort)
			w.peer.Advertise([]uint64{uint64(locator(netPeer[0]))}, []uint16{10})
			w.eventually("the peer is known for what it is", func() bool {
				s := w.learned()
				since, err := time.Parse(time.RFC3339, s["since"].(string))
				return err == nil && time.Since(since) > 8*time.Second && s["checksum_icmp"] != "sought"
			})
			f := w.forger(roam.ILV{L64: locator(netPeer[0]), NID: nidPeer}, roam.ILV{L64: locator(netPeer[1]), NID: nidPeer})
			most := f.saturate()
			before, from := w.learned(), udp.now()
			counters, err := w.roam.Counts(w.ctx)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			stop := f.flood(most / 2)
			w.eventually("the flood lasts", func() bool { return time.Since(began) > forgedFor/2 })
			still := udp.lost(w, from)
			if after := w.learned(); !reflect.DeepEqual(before, after) {
				t.Errorf("the session before the flood and in it:\n%v\n%v", before, after)
			}
			moved := udp.now()
			w.moveTo(false, "net2")
			w.eventually("the peer prefers the new locator", func() bool {
				list, _ := w.peer.Locators(nidRoam)
				return len(list) > 0 && list[0] == uint64(locator(netRoam[1]))
			})
			_, came := tcp.gap()
			w.eventually("the flood lasts", func() bool { return time.Since(began) > forgedFor })
			inMove := udp.lost(w, moved)
			n := stop()
			if _, more := tcp.gap(); more < came+20 {
				t.Errorf("TCP stood still: %d echoes behind the move", more-came)
			}
			after := w.learned()
			if !reflect.DeepEqual(before, after) {
				t.Errorf("the session before the flood and after it:\n%v\n%v", before, after)
			}
			t.Logf("%d packets at %.0f a second, half of %.0f; %d datagrams lost, %d around the move, %d sent", n,
				float64(n)/time.Since(began).Seconds(), most, still, inMove, udp.now())
			if still > 0 || inMove > 2 {
				t.Errorf("%d datagrams were lost, and %d around the move", still, inMove)
			}
			w.refusedAll(counters, n)
		})
	}
}

// refusedAll fails if hardly any of the packets were refused: then nothing was tested.
func (w *world) refusedAll(before map[string]uint64, n int) {
	w.Helper()
	after, err := w.roam.Counts(w.ctx)
	if err != nil {
		w.Fatal(err)
	}
	var refused uint64
	for name, v := range after {
		if d := v - before[name]; d > 0 {
			w.Logf("%s %d", name, d)
			if len(name) > 5 && (name[:5] == "drop_" || name[:5] == "core_" || name[:7] == "engine_" ||
				name == "rx_pending_unreported") {
				refused += d
			}
		}
	}
	if refused < uint64(n)/4 {
		w.Errorf("%d of %d forged packets were refused", refused, n)
	}
}
