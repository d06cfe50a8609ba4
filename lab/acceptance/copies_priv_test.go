package acceptance

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
)

// TestNothingTwice: between two hosts with Roam no datagram is delivered twice, though
// the first ones may go under both rules of checksums where the way is long, and none is
// lost for that: whether the receiver has the sender where its record says or validates
// it first, and whether its application answers.
func TestNothingTwice(t *testing.T) {
	for _, rtt := range []time.Duration{20 * time.Millisecond, 600 * time.Millisecond} {
		w := newWorld(t, fmt.Sprintf("twice%d", rtt.Milliseconds()), rtt/2, place{"mn", 1, true}, place{"cn", 1, false})
		mn, cn := w.newHost("mn", settings{}).start(), w.newHost("cn", settings{}).start()
		elsewhere := fmt.Sprintf("nid=%s l64=2001:db8:a77:7 mn\n", w.nid("mn"))
		for _, c := range []struct {
			name, hosts string
			answers     bool
		}{
			{"at its record's place, no answers", "", false},
			{"at its record's place, answered", "", true},
			{"elsewhere, no answers", elsewhere, false},
			{"elsewhere, answered", elsewhere, true},
		} {
			w.sub(fmt.Sprintf("RTT %v, %s", rtt, c.name), func(t *testing.T) {
				cn.write(settings{hosts: c.hosts})
				got, twice, copies := w.copied(t, mn, cn, c.answers, rtt)
				least := sentToCN
				if c.hosts != "" {
					least = 16 // so many are held until the sender is validated; the others are lost
				}
				if twice > 0 || got < least {
					t.Errorf("%d of %d datagrams got there, %d twice", got, sentToCN, twice)
				}
				if copies == 0 && rtt > 200*time.Millisecond {
					t.Error("nothing went under both rules, so nothing was tested")
				}
			})
		}
	}
}

// copied sends datagrams between new sessions, and counts the copies. After a second without
// answer mn repeats the first datagram over plain IPv6. That is so long if the router of a slow link has
// to ask for mn's hardware address first, and is no case of this test: it begins anew.
func (w *world) copied(t *testing.T, mn, cn *host, answers bool, rtt time.Duration) (got, twice int, copies uint64) {
	t.Helper()
	fallbacks := func() int {
		b, err := os.ReadFile(mn.Log)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(b, []byte("msg=session-fell-back"))
	}
	for range 3 {
		fresh(mn, cn)
		before, plain := mn.counter("tx_probe_copy"), fallbacks()
		got, twice = w.datagrams(t, answers, rtt)
		copies = mn.counter("tx_probe_copy") - before
		t.Logf("%d datagrams got there, %d copies", got, copies)
		if fallbacks() == plain {
			return got, twice, copies
		}
	}
	t.Fatal("three sessions fell back to plain IPv6")
	return 0, 0, 0
}

const sentToCN = 100 // 50 in a second

// datagrams sends numbered datagrams from mn to cn, and counts those that the application
// there receives, and receives more than once.
func (w *world) datagrams(t *testing.T, answers bool, rtt time.Duration) (got, twice int) {
	t.Helper()
	const port = 7009
	var in net.PacketConn
	var out net.Conn
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.hosts["cn"].Do(func() (err error) {
		in, err = net.ListenPacket("udp6", fmt.Sprintf("[::]:%d", port))
		return err
	}))
	defer in.Close()
	to := roam.ILV{NID: w.nid("cn"), L64: roam.DefaultSessionPrefix}.Addr()
	must(w.hosts["mn"].Do(func() (err error) {
		out, err = net.Dial("udp6", netip.AddrPortFrom(to, port).String())
		return err
	}))
	defer out.Close()
	var lock sync.Mutex
	seen := make(map[uint32][]time.Duration)
	began := time.Now()
	go func() {
		b := make([]byte, 64)
		for {
			n, from, err := in.ReadFrom(b)
			if err != nil {
				return
			}
			lock.Lock()
			nr := binary.BigEndian.Uint32(b[:n])
			seen[nr] = append(seen[nr], time.Since(began))
			lock.Unlock()
			if answers {
				_, _ = in.WriteTo(b[:n], from)
			}
		}
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := range uint32(sentToCN) {
		if _, err := out.Write(binary.BigEndian.AppendUint32(nil, i)); err != nil &&
			!strings.Contains(err.Error(), "refused") {
			t.Fatal(err)
		}
		<-tick.C
	}
	all := func() bool { lock.Lock(); defer lock.Unlock(); return len(seen) == sentToCN }
	testutil.Wait(4*rtt+2*time.Second, all)
	lock.Lock()
	defer lock.Unlock()
	for nr, at := range seen {
		if len(at) > 1 {
			twice++
			t.Logf("datagram %d, due at %v, came at %v", nr, time.Duration(nr)*20*time.Millisecond, at)
		}
	}
	return len(seen), twice
}
