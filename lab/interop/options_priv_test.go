package interop

import (
	"bytes"
	"strings"
	"testing"
)

// beside are options and padding that a stack may put around its nonce (RFC 6744 §2,
// RFC 8200 §4.2).
var beside = map[string]Options{
	"12 bytes":                  {LongNonce: true},
	"another option behind it":  {Behind: Unknown},
	"and of 12 bytes":           {Behind: Unknown, LongNonce: true},
	"another option before it":  {Before: Unknown, LongNonce: true},
	"options on both sides":     {Before: Unknown + Unknown, Behind: Unknown},
	"Pad1":                      {Before: strings.Repeat(Pad1, 3) + Unknown + Pad1 + Pad1, Behind: Pad1 + Pad1 + Unknown},
	"PadN, more than Linux has": {Before: PadN(12), Behind: PadN(20), LongNonce: true},
	"a header before it":        {First: Unknown},
	"a header behind it":        {Last: Unknown + Unknown, LongNonce: true},
	"headers on both sides":     {First: Unknown, Before: PadN(2), Behind: Unknown, Last: Unknown},
}

// Applications communicate with stacks that put other options beside the nonce in every
// packet, whichever side opens the connection, and their control messages are accepted.
func TestNonceAmongOptions(t *testing.T) {
	for name, o := range beside {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "soft", "", Stack{NonceAlways: true, Options: o})
			conn := w.dial("tcp6", EchoPort)
			w.echo(conn, 3000)
			u := w.dial("udp6", EchoPort)
			w.eventually("an answer over UDP", func() bool { return w.ping(u) })
			w.peer.Move(uint64(locator(netPeer[1])), uint64(locator(netPeer[0])))
			w.eventually("the acknowledgement of Roam", func() bool { return w.peer.Counts().Acks > 0 })
			w.echo(conn, 1000)
			w.eventually("an answer to a ping by name", w.pinged)
		})
	}
}

// The same where the other begins.
func TestNonceAmongOptionsOfWhoBegins(t *testing.T) {
	for _, name := range []string{"Pad1", "headers on both sides", "and of 12 bytes"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "soft", "", Stack{NonceAlways: true, Options: beside[name]})
			w.listen(7001)
			w.peer.Open(nidRoam, uint64(locator(netRoam[1])))
			conn, err := w.peer.Dial(nidRoam, 7001)
			if err != nil {
				t.Fatal(err)
			}
			w.eventually("a connection to Roam", conn.Opened)
			conn.Write(bytes.Repeat([]byte("x"), 700))
			w.eventually("an echo from Roam", func() bool { return conn.Received() == 700 })
			w.peer.SendUDP(nidRoam, 7002, 7001, []byte("hello"))
			w.eventually("UDP to Roam and back", func() bool { return w.peer.Datagrams(7002) > 0 })
		})
	}
}

// Plain answers of a stack that counts locators as zero do not show that its own packets
// may go without nonce: a connection goes on beside them.
func TestPlainAnswersBesideConnection(t *testing.T) {
	w := newWorld(t, "soft", "", Linux2020.Stack)
	conn := w.dial("tcp6", EchoPort)
	w.echo(conn, 100)
	w.eventually("every nonce is sent", func() bool { return w.optionOn() == "always" })
	u := w.dial("udp6", EchoPort)
	served := w.counter("rx_packets")
	w.eventually("many plain answers", func() bool { w.ping(u); return w.counter("rx_packets") > served+30 })
	for range 3 {
		w.echo(conn, 3000)
	}
	if got := w.optionOn(); got != "always" {
		t.Errorf("the nonce goes on %q", got)
	}
}
