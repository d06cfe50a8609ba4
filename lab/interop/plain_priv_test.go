package interop

import "testing"

// A host that was plain IPv6 turns to ILNP: its next session is one, for whatever
// begins from then on, and a connection that is open stays plain until it closes.
// Datagrams belong to the session at once, of whatever flow they are.
func TestBackToILNP(t *testing.T) {
	for name, stack := range map[string]Stack{
		"nonce on every packet": {NonceAlways: true, ServesPlain: true},
		"checksums over NIDs":   {NonceAlways: true, NIDChecksums: true, ServesPlain: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "soft", "nonce=always", stack.disabled())
			w.listen(7001)
			plain := w.dial("tcp6", EchoPort)
			w.echo(plain, 2000)
			flow := w.dial("udp6", EchoPort)
			w.echo(flow, 100)
			served := w.peer.Counts()
			if served.PlainServed == 0 || served.Nonces > 0 {
				t.Fatalf("the peer saw %+v, so nothing is tested", served)
			}
			w.peer.Enable(stack)
			w.peer.Open(nidRoam, uint64(locator(netRoam[1])))
			w.answered("the peer's datagrams with its nonce")
			w.eventually("a session", func() bool { return w.state() == "established" })

			before := w.peer.Counts()
			w.echo(w.dial("tcp6", EchoPort), 2000)
			if got := w.peer.Counts(); got.Received-before.Received < 4 || got.PlainServed != before.PlainServed {
				t.Errorf("of a new connection the peer saw %+v, before it %+v", got, before)
			}
			before = w.peer.Counts()
			w.echo(plain, 2000)
			if got := w.peer.Counts(); got.PlainServed == before.PlainServed {
				t.Errorf("of the old connection the peer saw %+v, before it %+v", got, before)
			}
			before = w.peer.Counts()
			w.echo(flow, 100)
			w.echo(w.dial("udp6", EchoPort), 100)
			if got := w.peer.Counts(); got.PlainUDP != before.PlainUDP {
				t.Errorf("of datagrams the peer saw %+v, before them %+v", got, before)
			}
			if got := w.peer.Counts(); got.BadChecksum > got.BadICMP {
				t.Errorf("the peer saw %+v", got)
			}
		})
	}
}

// state returns the state of the session with the peer.
func (w *world) state() string {
	list, err := w.roam.Sessions(w.ctx)
	if err != nil || len(list) != 1 {
		return ""
	}
	return list[0].State
}
