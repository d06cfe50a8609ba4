package interop

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"roam"
	"roam/lab/node"
	"roam/nidkey"
)

// besideAKey goes on with a key on Roam's host, towards other identifiers of the peer, of which nothing is known:
// sessions begin as without a key, whoever begins them. Where the record demands the peer's key none begins, and
// nothing goes by plain IPv6 in its place.
func (w *world) besideAKey() {
	w.Helper()
	w.ask("key", "new")
	w.listen(7001)
	c, err := w.dialTo(w.appears(1, ""), "tcp6", EchoPort)
	if err != nil {
		w.Fatalf("Roam begins: %v", err)
	}
	w.echo(c, 3000)
	w.unkeyed(nidPeer + 1)
	nid := w.appears(2, "")
	w.peer.Open(nidRoam, uint64(locator(netRoam[1])))
	w.answered("UDP of a peer that begins")
	w.unkeyed(nid)

	k, err := nidkey.New(rand.Reader)
	if err != nil {
		w.Fatal(err)
	}
	nid = w.appears(3, " key="+k.Public.String())
	before, began := w.peer.Counts(), time.Now()
	if c, err := w.dialTo(nid, "tcp6", EchoPort); err == nil || !strings.Contains(err.Error(), "no route to host") &&
		!strings.Contains(err.Error(), "unreachable") {
		w.Errorf("a peer without the key that its record demands: %v, %v", c, err)
	}
	w.Logf("refused after %v", time.Since(began).Round(time.Millisecond))
	w.peer.Open(nidRoam, uint64(locator(netRoam[1])))
	got, held := w.peer.Datagrams(7002), w.counter("rx_held")
	w.eventually("its datagrams wait for a proof", func() bool {
		w.peer.SendUDP(nidRoam, 7002, 7001, []byte("hello"))
		return w.counter("rx_held") > held
	})
	if n := w.peer.Datagrams(7002) - got; n > 0 {
		w.Errorf("%d datagrams of a peer without the key that its record demands were answered", n)
	}
	if after := w.peer.Counts(); after.PlainServed != before.PlainServed || after.Plain != before.Plain {
		w.Errorf("plain IPv6 goes to it: %+v, before %+v", after, before)
	}
	if list, err := w.roam.Sessions(w.ctx); err != nil || slices.ContainsFunc(list, func(s node.Session) bool {
		return s.NID == nid && (s.State == "established" || s.State == "plain")
	}) {
		w.Errorf("sessions %+v, %v", list, err)
	}
}

// appears has the peer go on under another identifier, as a host without sessions, of which Roam gets a record.
func (w *world) appears(n uint64, options string) roam.NID {
	w.Helper()
	nid := roam.NID(nidPeer + n)
	w.peer.become(uint64(nid))
	w.ask("add", fmt.Sprintf("nid=%s l64=%s%s p%d", nid, roam.L64(locator(netPeer[0])), options, n))
	return nid
}

// dialTo connects an application on Roam's host with an identifier.
func (w *world) dialTo(nid roam.NID, network string, port uint16) (c net.Conn, err error) {
	w.Helper()
	failed := w.mn.Do(func() error {
		c, err = net.DialTimeout(network, netip.AddrPortFrom(sessionAddr(nid), port).String(), patience)
		return nil
	})
	if failed != nil {
		w.Fatal(failed)
	}
	if err == nil {
		w.Cleanup(func() { c.Close() })
		err = c.SetDeadline(time.Now().Add(patience))
	}
	return c, err
}

// unkeyed wants a session that no key proves.
func (w *world) unkeyed(nid roam.NID) {
	w.Helper()
	w.eventually("a session without a key", func() bool {
		list, err := w.roam.Sessions(w.ctx)
		return err == nil && slices.ContainsFunc(list, func(s node.Session) bool {
			return s.NID == nid && s.State == "established" && !s.Proved && s.Proof != "keyed"
		})
	})
}
