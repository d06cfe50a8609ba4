package interop

import (
	"bytes"
	"io"
	"net"
	"slices"
	"testing"
	"time"
)

// The published kernels with ILNP, according to their descriptions, and one that implements
// only the minimum of the RFCs. options are the necessary options of the hosts file; Roam
// detects the rest.
var stacks = map[string]struct {
	stack   Stack
	options string
}{
	"linux 4.9, duality": {
		Stack{
			NonceAlways:   true,
			NIDChecksums:  true,
			DraftUpdates:  true,
			KnownSource:   true,
			AckToNewest:   true,
			FirstPingLost: true,
		},
		"nonce=always lu-order=old",
	},
	"linux 3.9, handoff": {
		Stack{NonceAlways: true, NIDChecksums: true, OneLocator: true, FirstPingLost: true},
		"nonce=always",
	},
	"the same, not named as one": {Stack{NonceAlways: true, NIDChecksums: true, OneLocator: true, FirstPingLost: true},
		""},
	"one nonce for both": {Stack{NonceAlways: true, NIDChecksums: true, OneNonce: true}, ""},
	"least nonces":       {Stack{NonceOnce: true, OneLocator: true}, ""},
	"least, over NIDs":   {Stack{NonceOnce: true, NIDChecksums: true}, ""},
}

// Unmodified applications on Roam's host communicate with each stack, over TCP and UDP,
// whichever side opens the connection.
func TestStacks(t *testing.T) {
	for name, c := range stacks {
		t.Run(name, func(t *testing.T) {
			t.Run("Roam begins with TCP", func(t *testing.T) {
				w := newWorld(t, "soft", c.options, c.stack)
				w.echo(w.dial("tcp6", EchoPort), 3000)
				// Datagrams are lost until it is known that the stack wants every nonce.
				u := w.dial("udp6", EchoPort)
				w.eventually("an answer over UDP", func() bool { return w.ping(u) })
			})
			t.Run("Roam begins with UDP", func(t *testing.T) {
				w := newWorld(t, "soft", c.options, c.stack)
				u := w.dial("udp6", EchoPort)
				w.eventually("the first answer", func() bool { return w.ping(u) })
				w.echo(w.dial("tcp6", EchoPort), 3000)
			})
			t.Run("the other begins", func(t *testing.T) {
				w := newWorld(t, "soft", c.options, c.stack)
				w.listen(7001)
				w.peer.Open(nidRoam, uint64(locator(netRoam[1])))
				w.eventually("UDP to Roam and back", func() bool {
					w.peer.SendUDP(nidRoam, 7002, 7001, []byte("hello"))
					return w.peer.Datagrams(7002) > 0
				})
				conn, err := w.peer.Dial(nidRoam, 7001)
				if err != nil {
					t.Fatal(err)
				}
				w.eventually("a connection to Roam", conn.Opened)
				conn.Write(bytes.Repeat([]byte("x"), 700))
				w.eventually("an echo from Roam", func() bool { return conn.Received() == 700 })
			})
		})
	}
}

// echo sends data and wants it back.
func (w *world) echo(c net.Conn, size int) {
	w.Helper()
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * 7)
	}
	if _, err := c.Write(data); err != nil {
		w.Fatal(err)
	}
	got := make([]byte, size)
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, data) {
		w.Fatalf("echo over %s: %v, the same: %v", c.LocalAddr().Network(), err, bytes.Equal(got, data))
	}
}

// ping sends one datagram, and reports whether any has come back by a second
// later.
func (w *world) ping(c net.Conn) bool {
	w.Helper()
	if _, err := c.Write([]byte("hello")); err != nil {
		w.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		w.Fatal(err)
	}
	_, err := c.Read(make([]byte, 64))
	return err == nil
}

// A stack that treats packets without nonce as plain IPv6 gets a nonce with every segment
// of a fast transfer, although the sender's kernel makes GSO packets.
func TestEverySegmentHasItsNonce(t *testing.T) {
	for name, s := range map[string]Stack{
		"ordinary checksums":  {NonceAlways: true},
		"checksums over NIDs": {NonceAlways: true, NIDChecksums: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "soft", "nonce=always", s)
			c := w.dial("tcp6", DiscardPort)
			const size = 600_000
			if _, err := c.Write(make([]byte, size)); err != nil {
				t.Fatal(err)
			}
			w.eventually("all of it", func() bool { return w.peer.ReceivedTCP(DiscardPort) == size })
			got := w.peer.Counts()
			if got.Plain != 0 || got.Nonces != got.Received {
				t.Errorf("the peer saw %+v", got)
			}
			if n := w.counter("tx_segdev"); n == 0 {
				t.Error("no GSO packet was cut, so nothing was tested")
			}
		})
	}
}

// Roam detects the needs of such a stack: a transfer continues after the time in which
// every session starts with nonces.
func TestWishForNoncesIsFound(t *testing.T) {
	w := newWorld(t, "soft", "", Stack{NonceAlways: true, NIDChecksums: true})
	u := w.dial("udp6", EchoPort)
	w.eventually("the session is known for what it is", func() bool {
		w.ping(u)
		return w.optionOn() == "always"
	})
	c := w.dial("tcp6", DiscardPort)
	const size = 300_000
	before := w.peer.Counts().Plain
	if _, err := c.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	w.eventually("all of it", func() bool { return w.peer.ReceivedTCP(DiscardPort) == size })
	if n := w.peer.Counts().Plain - before; n > 0 {
		t.Errorf("%d packets without nonce after that", n)
	}
}

// optionOn tells which packets to the peer carry the nonce.
func (w *world) optionOn() string {
	list, err := w.roam.Sessions(w.ctx)
	if err != nil || len(list) != 1 {
		return ""
	}
	return list[0].OptionOn
}

// An unnamed rule costs one packet to detect, whichever side opens the connection.
func TestRuleIsFound(t *testing.T) {
	for name, nids := range map[string]bool{"checksums over NIDs": true, "ordinary checksums": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "soft", "", Stack{NIDChecksums: nids})
			w.echo(w.dial("tcp6", EchoPort), 100)
			w.echo(w.dial("tcp6", EchoPort), 100)
			// Each first packet goes under both rules once, if the guess is wrong.
			if got := w.peer.Counts(); nids && got.BadChecksum == 0 || got.BadChecksum > 3 {
				t.Errorf("the peer saw %+v", got)
			}
			if nids && w.counter("tx_probe_copy") == 0 {
				t.Error("no packet went under both rules, so nothing was tested")
			}
		})
	}
}

// Peers with other stacks still get GSO packets.
func TestOthersGetSuperPackets(t *testing.T) {
	w := newWorld(t, "soft", "", Stack{})
	c := w.dial("tcp6", DiscardPort)
	const size = 200_000
	if _, err := c.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	w.eventually("all of it", func() bool { return w.peer.ReceivedTCP(DiscardPort) == size })
	if n := w.counter("tx_segdev"); n != 0 {
		t.Errorf("%d GSO packets were cut for a peer that does not want it", n)
	}
}

// Locator Updates and their acknowledgements pass in both directions, in the
// form of each stack.
func TestUpdates(t *testing.T) {
	for name, c := range stacks {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "duality", c.options, c.stack)
			if err := w.roam.WaitActive(w.ctx, "net1", "net2"); err != nil {
				t.Fatal(err)
			}
			conn := w.dial("tcp6", EchoPort)
			w.echo(conn, 1000)
			w.knows("both locators of Roam", 1, 2)
			w.ask("locator", "disable", "net1")
			w.knows("the one that Roam still uses", 2)
			w.echo(conn, 1000)
			w.ask("locator", "enable", "net1")
			w.knows("the returned one", 1, 2)
			w.eventually("Roam has its acknowledgement", func() bool { return w.settled() })

			w.peer.Move(uint64(locator(netPeer[1])))
			w.eventually("the acknowledgement of Roam", func() bool { return w.peer.Counts().Acks > 0 })
			w.echo(conn, 1000)
			w.ask("locator", "disable", "net1") // now the form of the peer's own is known
			w.knows("the set after its own move", 2)
			_, code := w.peer.Locators(nidRoam)
			if want := map[bool]byte{true: codeReplaceSoft, false: codeRFC}[c.stack.DraftUpdates]; code != want {
				t.Errorf("Roam's Locator Updates have code %d after one with code %d", code, want)
			}
			w.echo(conn, 1000)
		})
	}
}

// knows waits until the peer's set of Roam's locators are those of the given
// links.
func (w *world) knows(what string, links ...int) {
	w.Helper()
	var want []uint64
	for _, i := range links {
		want = append(want, uint64(locator(netRoam[i-1])))
	}
	w.eventually("the peer knows "+what, func() bool {
		got, _ := w.peer.Locators(nidRoam)
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

// settled reports whether Roam waits for no acknowledgement: a move then has a
// duration.
func (w *world) settled() bool {
	list, err := w.roam.Sessions(w.ctx)
	return err == nil && len(list) == 1 && list[0].MoveMs > 0
}
