package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
)

// TestAnswersOfAnAdmittedPeer: somebody shows a nonce in the name of a host that nobody
// knows, from elsewhere, and is answered under its NID. When the host itself is validated
// and its first datagrams are delivered, the answers to them do not go there.
func TestAnswersOfAnAdmittedPeer(t *testing.T) {
	const elsewhere = netT
	n := New(1)
	a := n.AddNode("a", ilnp.Config{NIDs: []roam.NID{mobileNID}})
	b := n.AddNode("b", ilnp.Config{NIDs: []roam.NID{serverNID}, Accept: ilnp.Any})
	a.Up(1, netA, near, roam.Infinite)
	b.Up(1, netS, near, roam.Infinite)
	a.Know(b, netS)
	forged := &Flow{From: a, To: b, Brief: true}
	a.put(1, Packet{
		Src: roam.ILV{L64: elsewhere, NID: a.nid}, Dst: roam.ILV{L64: netS, NID: b.nid},
		Nonce: Nonce{Len: 4, Bytes: [12]byte{9}}, Data: Datagram{Size: 1000, flow: forged},
	})
	n.Run(100 * time.Millisecond)
	f := &Flow{From: a, To: b, Echo: true}
	astray := 0
	n.Seen = func(h *Node, _ roam.LinkID, leaves bool, p Packet) {
		if leaves && h == b && p.Dst.L64 == elsewhere && p.Data.flow == f {
			astray++
		}
	}
	a.run(f, 10*time.Millisecond)
	n.Run(time.Second)
	f.Stop()
	n.Run(time.Second)
	if astray > 0 || f.Answered != f.Sent {
		t.Errorf("%d answers went elsewhere, %d of %d arrived", astray, f.Answered, f.Sent)
	}
}
