package bench

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/ilnp"
	"roam/internal/testutil"
	"roam/nidkey"
	ilnpwire "roam/wire/ilnp"
)

// keyedEnd is one core of a keyed session, and the clock of both.
type keyedEnd struct {
	*ilnp.Core
	key nidkey.Key
	nid roam.NID
	at  roam.L64
}

// chance is a seeded source of bytes.
type chance struct{ *rand.Rand }

func (c chance) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(c.Uint32())
	}
	return len(b), nil
}

const (
	keyedResponder roam.NID = 0x0200_0000_0000_0001
	keyedInitiator roam.NID = 0x0200_0001_0000_0000 // of the first one
	keyedPlace     roam.L64 = 0x2001_0db8_0001_0000
	keyedPlaces    roam.L64 = 0x2001_0db8_1000_0000
)

// newKeyedEnd makes a host with a key.
func newKeyedEnd(b *testing.B, now time.Time, nid roam.NID, at roam.L64) *keyedEnd {
	b.Helper()
	random := chance{rand.New(rand.NewPCG(uint64(nid), 19))}
	var seed [nidkey.KeyLen]byte
	_, _ = random.Read(seed[:])
	key, err := nidkey.Ephemeral(seed)
	must(b, err)
	e := &keyedEnd{key: key, nid: nid, at: at}
	e.Core, err = ilnp.New(ilnp.Config{NIDs: []roam.NID{nid}, Accept: ilnp.Known, Rand: random, Key: &e.key})
	must(b, err)
	e.HandleLocator(now, roam.PrefixEvent{
		LinkLocator: roam.LinkLocator{Link: 1, L64: at}, Present: true, Preferred: roam.Infinite,
	})
	return e
}

// knows has one end know the other one's key.
func (e *keyedEnd) knows(b *testing.B, now time.Time, o *keyedEnd) {
	b.Helper()
	secret, err := e.key.Shared(o.key.Public)
	must(b, err)
	e.AddPeer(now, ilnp.Peer{NID: o.nid, Secret: secret, Public: o.key.Public,
		Locators: []ilnp.RemoteLocator{{L64: o.at, Preference: 10, Lifetime: roam.Infinite}}})
	e.sent()
}

// sent returns what a core wants sent.
func (e *keyedEnd) sent() (packets [][]byte) {
	for o, ok := e.Poll(); ok; o, ok = e.Poll() {
		if t, is := o.(ilnp.Transmit); is {
			packets = append(packets, t.Packet)
		}
	}
	return packets
}

// takes has a core take a packet as its programs give it: they report a probe of a node without a session,
// and answer it themselves.
func (e *keyedEnd) takes(now time.Time, packet []byte) {
	q, err := ilnpwire.ParsePacket(packet)
	switch {
	case err != nil:
	case q.Type != ilnpwire.TypeEchoRequest:
		e.HandlePacket(now, 1, packet)
	default:
		own := ilnp.Nonce{Len: 4}
		binary.BigEndian.PutUint32(own.Bytes[:], uint32(q.Src.NID)^0x5a5a5a5a)
		e.HandleObservation(now, ilnp.Observation{
			Trigger: ilnp.SeenPending, Key: ilnp.SessionKey{Local: q.Dst.NID, Remote: q.Src.NID}, LocalNID: q.Dst.NID,
			Local: roam.LinkLocator{Link: 1, L64: q.Dst.L64}, Remote: q.Src, Nonce: q.Nonce, OwnNonce: own,
			Bytes: len(packet), Packets: 1, Found: ilnp.FoundProbe,
		})
	}
}

// spent returns the processor time of this process, collections of garbage included: another load of the machine
// does not count.
func spent(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkKeyedSessions measures what the responder's core does for new keyed sessions: a first contact of each of
// 2,000 peers, which is challenged, as their counters are not known. The programs and system calls are not in it.
func BenchmarkKeyedSessions(b *testing.B) {
	const peers = 2000
	now := time.Unix(1_900_000_000, 0)
	responder := newKeyedEnd(b, now, keyedResponder, keyedPlace)
	var all []*keyedEnd
	for i := range peers {
		o := newKeyedEnd(b, now, keyedInitiator+roam.NID(i)<<32, keyedPlaces+roam.L64(i)<<4)
		o.knows(b, now, responder)
		responder.knows(b, now, o)
		all = append(all, o)
	}
	var took time.Duration
	for b.Loop() {
		if took > 0 {
			continue // they can be new only once
		}
		for _, o := range all {
			now = now.Add(time.Second / peers)
			o.HandleObservation(now, ilnp.Observation{
				Trigger: ilnp.SeenMiss, Key: ilnp.SessionKey{Local: o.nid, Remote: keyedResponder}, LocalNID: o.nid,
			})
			for packets := o.sent(); len(packets) > 0; packets = o.sent() {
				began := spent(b)
				for _, p := range packets {
					responder.takes(now, p)
				}
				answers := responder.sent()
				took += spent(b) - began
				for _, p := range answers {
					if q, err := ilnpwire.ParsePacket(p); err == nil && q.Type != ilnpwire.TypeEchoRequest {
						o.HandlePacket(now, 1, p)
					}
				}
			}
		}
	}
	proved := 0
	for _, s := range responder.Peers(now) {
		if s.Proved && s.State == ilnp.Established {
			proved++
		}
	}
	if proved != peers {
		b.Fatalf("%d of %d sessions; refused %v", proved, peers, responder.RejectedInput())
	}
	b.ReportMetric(0, "ns/op")
	testutil.Report(b, testutil.Figure{
		Name: "KeyedSessions", Unit: "/s",
		Says: "new keyed sessions a second, first contacts with a challenge, core of the responder alone",
		Op:   ">=", Bound: 2000, Value: peers / took.Seconds(), Rounds: 1,
	})
}

// BenchmarkNewKey measures what `roam key new` computes once for a host, and `roam add` for a line whose NID is a hash.
func BenchmarkNewKey(b *testing.B) {
	const keys = 20
	var times []time.Duration
	for b.Loop() {
		for times = times[:0]; len(times) < keys; {
			random, began := chance{rand.New(rand.NewPCG(uint64(len(times)), 23))}, time.Now()
			_, err := nidkey.New(random)
			must(b, err)
			times = append(times, time.Since(began))
		}
	}
	b.ReportMetric(0, "ns/op")
	testutil.Report(b, testutil.Figure{
		Name: "NewKey", Unit: "s", Says: "time for a key pair and the NID that is its hash, the longest",
		Op: "<=", Bound: 3, Value: quantile(times, 1).Seconds(), Rounds: keys,
		Details: map[string]float64{"s median": quantile(times, 0.5).Seconds()},
	})
}

// BenchmarkForgedProof measures what a proof that is forged under a known Node Identifier costs the core.
func BenchmarkForgedProof(b *testing.B) {
	now := time.Unix(1_900_000_000, 0)
	responder := newKeyedEnd(b, now, keyedResponder, keyedPlace)
	o := newKeyedEnd(b, now, keyedInitiator, keyedPlaces)
	o.knows(b, now, responder)
	responder.knows(b, now, o)
	o.HandleObservation(now, ilnp.Observation{
		Trigger: ilnp.SeenMiss, Key: ilnp.SessionKey{Local: o.nid, Remote: keyedResponder}, LocalNID: o.nid,
	})
	var offer []byte
	for _, p := range o.sent() {
		responder.takes(now, p)
		if q, err := ilnpwire.ParsePacket(p); err == nil && q.Proof != nil {
			q.Proof.MAC[0] ^= 1
			lu, err := ilnpwire.ParseLocatorUpdate(q.Payload)
			must(b, err)
			offer, err = ilnpwire.BuildProof(q.Src, q.Dst, q.Nonce, lu, *q.Proof)
			must(b, err)
		}
	}
	responder.sent()
	const forged = "proof that is forged"
	before := responder.RejectedInput()[forged]
	const many = 20_000
	var took time.Duration
	for b.Loop() {
		began := spent(b)
		for range many {
			responder.HandlePacket(now, 1, offer)
			responder.sent()
		}
		took = spent(b) - began
	}
	if n := responder.RejectedInput()[forged] - before; n < many {
		b.Fatalf("%d were refused as forged: %v", n, responder.RejectedInput())
	}
	b.ReportMetric(0, "ns/op")
	testutil.Report(b, testutil.Figure{
		Name: "ForgedProof", Unit: "us",
		Says: "time of the core for a proof that is forged under a known Node Identifier",
		Op:   "<=", Bound: 10, Value: took.Seconds() * 1e6 / many, Rounds: many,
	})
}
