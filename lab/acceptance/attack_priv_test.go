package acceptance

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/peergen"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// tooLate fails a test for what took too long, but where a machine is judged by what is
// correct alone: a busy one is late without being wrong.
func tooLate(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("ROAM_LAB_JUDGE") == "correctness" {
		t.Logf("not judged here: "+format, args...)
		return
	}
	t.Errorf(format, args...)
}

// offPath is the part of the Internet that an attacker speaks from, and where the
// third parties are that its packets name.
var offPath = netip.MustParsePrefix("2001:db8:e000::/36")

const firstOffPath roam.L64 = 0x2001_0db8_e000_0000

// tally is what went to one address, as on the wire: with the IPv6 header.
type tally struct {
	packets, bytes, largest int
	at                      []time.Time
}

// stage is a device of the second router, behind which offPath is. It sends
// packets with any source, and counts what arrives by destination. Nobody
// answers there but those who were given a nonce.
type stage struct {
	t    testing.TB
	file *os.File

	mu     sync.Mutex
	sent   map[netip.Addr]*tally // by source
	came   map[netip.Addr]*tally
	nonces map[netip.Addr]ilnpwire.Nonce // of the addresses that answer
	shown  map[ilnpwire.Nonce]int        // that came
}

// stage makes the device for the rest of the test.
func (w *world) stage(t testing.TB) *stage {
	t.Helper()
	s := &stage{
		t: t, sent: map[netip.Addr]*tally{}, came: map[netip.Addr]*tally{},
		nonces: map[netip.Addr]ilnpwire.Nonce{}, shown: map[ilnpwire.Nonce]int{},
	}
	err := w.r1.Do(func() (err error) {
		s.file, err = peergen.OpenTun("stage")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.file.Close() })
	if err := w.r1.SetUp("stage"); err != nil {
		t.Fatal(err)
	}
	if err := w.r1.AddRoute(offPath, netip.Addr{}, "stage"); err != nil {
		t.Fatal(err)
	}
	go s.receive()
	return s
}

func (s *stage) receive() {
	b := make([]byte, 1<<16)
	for {
		n, err := s.file.Read(b)
		if err != nil {
			return
		}
		p, err := ilnpwire.ParsePacket(b[:n])
		if err != nil || !offPath.Contains(p.Dst.Addr()) {
			continue // neighbour discovery of the device
		}
		if answer := s.take(p, n); answer != nil {
			_, _ = s.file.Write(answer) // the peer retransmits after a lost answer
		}
	}
}

// take counts a packet, and returns the answer of a correspondent to a probe or a
// Locator Update.
func (s *stage) take(p ilnpwire.Packet, n int) (answer []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add(s.came, p.Dst.Addr(), n)
	if p.Nonce.Present() {
		s.shown[p.Nonce]++
	}
	nonce, ok := s.nonces[p.Dst.Addr()]
	if !ok || p.Proto != ip6.ICMPv6 {
		return nil
	}
	switch p.Type {
	case ilnpwire.TypeEchoRequest:
		if e, err := ilnpwire.ParseEcho(p.Payload); err == nil {
			answer, _ = ilnpwire.BuildEcho(p.Dst, p.Src, nonce, false, e.ID, e.Seq, e.Data)
		}
	case ilnpwire.TypeLocatorUpdate:
		if lu, err := ilnpwire.ParseLocatorUpdate(p.Payload); err == nil && lu.Operation == ilnpwire.Advertisement {
			answer, _ = ilnpwire.BuildUpdate(p.Dst, p.Src, nonce, lu.Ack())
		}
	}
	return answer
}

func add(m map[netip.Addr]*tally, a netip.Addr, n int) {
	t := m[a]
	if t == nil {
		t = &tally{}
		m[a] = t
	}
	t.packets++
	t.bytes += n
	t.largest = max(t.largest, n)
	t.at = append(t.at, time.Now())
}

// answers has an address answer probes and Locator Updates with a nonce.
func (s *stage) answers(at roam.ILV, nonce ilnpwire.Nonce) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nonces[at.Addr()] = nonce
}

// send sends a packet, and counts it for its source.
func (s *stage) send(b []byte) error {
	s.mu.Lock()
	add(s.sent, netip.AddrFrom16([16]byte(b[8:24])), len(b))
	s.mu.Unlock()
	_, err := s.file.Write(b)
	return err
}

// to returns what went to an address, and what that sent.
func (s *stage) to(a netip.Addr) (came, sent tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.came[a]; t != nil {
		came = *t
	}
	if t := s.sent[a]; t != nil {
		sent = *t
	}
	return came, sent
}

// total is how many packets came and were sent.
func (s *stage) total() (came, sent int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.came {
		came += t.packets
	}
	for _, t := range s.sent {
		sent += t.packets
	}
	return came, sent
}

// unshown fails if one of these nonces came: those of a session are for the
// locators that the session or a record lists.
func (s *stage) unshown(t testing.TB, nonces map[ilnpwire.Nonce]bool) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(nonces) == 0 {
		t.Error("no nonce of the session was seen")
	}
	for n := range nonces {
		if s.shown[n] > 0 {
			t.Errorf("%d packets off the path had the session's nonce", s.shown[n])
		}
	}
}

// quiet waits until nothing has come for a while.
func (s *stage) quiet(d, most time.Duration) {
	came, _ := s.total()
	since := time.Now()
	testutil.Wait(most, func() bool {
		if now, _ := s.total(); now != came {
			came, since = now, time.Now()
		}
		return time.Since(since) > d
	})
}

// flood sends n packets at a rate and returns when they are sent.
func (s *stage) flood(rate float64, n int, next func(i int) []byte) {
	s.t.Helper()
	if _, err := paced(context.Background(), rate, n, func(i int) error { return s.send(next(i)) }); err != nil {
		s.t.Fatal(err)
	}
}

// start sends packets at a rate until stop, which returns how many these were.
func (s *stage) start(rate float64, next func(i int) []byte) (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	sent := make(chan int, 1)
	go func() {
		n, _ := paced(ctx, rate, 0, func(i int) error { return s.send(next(i)) })
		sent <- n
	}()
	return sync.OnceValue(func() int { cancel(); return <-sent })
}

// paced calls f at a rate, n times or, if n is 0, until ctx ends. If this thread does not
// run for a while, it makes up for at most 20 ms.
func paced(ctx context.Context, rate float64, n int, f func(i int) error) (done int, err error) {
	const step = time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	began, skipped := time.Now(), 0
	for n == 0 || done < n {
		select {
		case <-ctx.Done():
			return done, nil
		case <-tick.C:
		}
		due := int(rate*time.Since(began).Seconds()) - skipped
		if most := done + int(rate*20*step.Seconds()) + 1; due > most {
			skipped += due - most
			due = most
		}
		for ; done < due && (n == 0 || done < n); done++ {
			if err := f(done); err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

// nonceOf is a nonce that is another one for every number.
func nonceOf(i int) ilnpwire.Nonce {
	n := ilnpwire.Nonce{Len: 4}
	binary.BigEndian.PutUint32(n.Bytes[:], (uint32(i)+1)*2654435761)
	return n
}

// first makes a first packet of a kind, with its nonce: what anybody can send
// who knows the public fields.
func first(kind string, src, dst roam.ILV, nonce ilnpwire.Nonce) []byte {
	const port = 7007
	var b []byte
	var err error
	transport := func(proto uint8, head []byte) {
		h := ip6.Header{NextHeader: ip6.DestOpts, HopLimit: 64, Src: src.Addr(), Dst: dst.Addr(),
			PayloadLen: uint16(nonce.HeaderLen() + len(head))}
		if b, err = h.AppendTo(nil); err == nil {
			b, err = nonce.AppendHeader(b, proto)
		}
		b = append(b, head...)
		if err == nil {
			err = ip6.FinishL4(b)
		}
	}
	ports := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, 40000), port)
	switch kind {
	case "ping":
		b, err = ilnpwire.BuildEcho(src, dst, nonce, true, 7, 1, make([]byte, 16))
	case "update":
		lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement,
			Locators: []ilnpwire.LocatorEntry{entry(src.L64, 10, 600)}}
		b, err = ilnpwire.BuildUpdate(src, dst, nonce, lu)
	case "udp":
		transport(ip6.UDP, append(binary.BigEndian.AppendUint16(ports, 8+5), 0, 0, 's', 'p', 'o', 'o', 'f'))
	case "syn":
		head := append(ports, 0, 0, 0, 1, 0, 0, 0, 0, 5<<4, 2, 0xff, 0xff, 0, 0, 0, 0)
		transport(ip6.TCP, head)
	default:
		panic("no packet of kind " + kind)
	}
	if err != nil {
		panic(fmt.Sprintf("build %s: %v", kind, err))
	}
	return b
}

// marker begins every word of the owner's that an attacker must not see.
const marker = "secret"

// leaks is the oracle of whose bytes went where: it counts the packets on links of
// the attacker, and the words at its servers, that have the marker in them.
type leaks struct {
	taps  []*wiretap
	heard *said
}

func (l leaks) count() (n int) {
	for _, tap := range l.taps {
		for _, f := range tap.frames() {
			if bytes.Contains(f, []byte(marker)) {
				n++
			}
		}
	}
	return n + strings.Count(l.heard.text(), marker)
}

// ledger starts an echo server that records its datagrams.
func (w *world) ledger(t testing.TB, name string, port int) *said {
	t.Helper()
	s := &said{}
	w.agent(t, name, s, "ledger", fmt.Sprint(port))
	listens(t, w, name, port)
	return s
}

// stream is a connection that sends a numbered word every 20 ms and receives its echo.
type stream struct {
	*client
	sent atomic.Int64
}

func (w *world) stream(t testing.TB, from, network, to string, port int) *stream {
	t.Helper()
	s := &stream{client: w.talk(t, from, network, to, port)}
	if !s.connected() {
		t.Fatalf("%s from %s to %s: %s", network, from, to, s.out.text())
	}
	ctx, cancel := context.WithCancel(w.top.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = paced(ctx, 50, 0, func(i int) error {
			_, err := fmt.Fprintf(s.in, "%s-%06d\n", marker, i)
			s.sent.Store(int64(i + 1))
			return err
		})
	}()
	t.Cleanup(func() { cancel(); _ = s.in.Close(); <-ended })
	s.goesOn(t, 25, patience)
	return s
}

// words returns the echoed words in order.
func (s *stream) words() []string {
	all := strings.Split(s.out.text(), "\n")
	return all[1 : len(all)-1] // behind the outcome, before what has no end yet
}

// goesOn waits for that many more words.
func (s *stream) goesOn(t testing.TB, more int, most time.Duration) {
	t.Helper()
	from := len(s.words())
	if !testutil.Wait(most, func() bool { return len(s.words()) >= from+more }) {
		t.Errorf("the session stood still: %d of %d words in %v; it ended with %q", len(s.words())-from, more, most, s.tail())
	}
}

// watch looks for times without a word until stop, which returns the longest one.
func (s *stream) watch() (stop func() time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	longest := make(chan time.Duration, 1)
	go func() {
		have, last, gap := len(s.words()), time.Now(), time.Duration(0)
		_, _ = paced(ctx, 100, 0, func(int) error {
			gap = max(gap, time.Since(last))
			if n := len(s.words()); n > have {
				have, last = n, time.Now()
			}
			return nil
		})
		longest <- max(gap, time.Since(last))
	}()
	return sync.OnceValue(func() time.Duration { cancel(); return <-longest })
}

func (s *stream) tail() string {
	text := s.out.text()
	return text[max(0, len(text)-160):]
}

// whole fails unless every word came back once and in its order.
func (s *stream) whole(t testing.TB) {
	t.Helper()
	for i, word := range s.words() {
		if word != fmt.Sprintf("%s-%06d", marker, i) {
			t.Errorf("word %d of the session is %q; it ended with %q", i, word, s.tail())
			return
		}
	}
}

// fresh takes all state from hosts, as if none had ever spoken to another.
func fresh(nodes ...*host) {
	for _, n := range nodes {
		n.down()
		if err := n.Forget(); err != nil {
			n.w.t.Fatal(err)
		}
	}
	for _, n := range nodes {
		n.start()
	}
}

// rateOf is the greatest number of times within a span.
func rateOf(at []time.Time, span time.Duration) (most int) {
	slices.SortFunc(at, time.Time.Compare)
	from := 0
	for i := range at {
		for at[i].Sub(at[from]) >= span {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}
