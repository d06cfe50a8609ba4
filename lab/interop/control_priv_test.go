package interop

import (
	"slices"
	"testing"
)

// kernels are stacks whose control messages only they understood: summed over NIDs,
// and updates of code 0 with little-endian entries of 16 bytes.
var kernels = map[string]Stack{
	"linux-2019": Linux2019.Stack,
	"linux-2020": Linux2020.Stack,
	"over NIDs, in the form of the RFC": {
		NonceAlways: true, NIDChecksums: true, ControlOverNIDs: true, PortUnreachable: true,
	},
	// Only the error about a probe in UDP shows that it is there.
	"no echo, over NIDs": {ControlOverNIDs: true, NoEchoAnswer: true, PortUnreachable: true},
}

// Updates of both sides are acknowledged, and both can ping the other by its name, whatever
// the rule and the form of their control messages. The hosts file has the needs of TCP and
// UDP.
func TestControlInKind(t *testing.T) {
	for name, s := range kernels {
		t.Run(name, func(t *testing.T) {
			options := "checksum=rfc6741 nonce=always"
			if !s.NIDChecksums {
				options = ""
			}
			w := newWorld(t, "soft", options, s)
			conn := w.dial("tcp6", EchoPort)
			w.echo(conn, 1000)
			if s.KnownSource { // Roam announced both locators from the one that the stack knows
				w.eventually("Roam has its acknowledgement", func() bool { return w.settled() && w.peer.Counts().Updates > 0 })
			}

			w.peer.Move(uint64(locator(netPeer[1])), uint64(locator(netPeer[0])))
			w.eventually("the acknowledgement of Roam", func() bool { return w.peer.Counts().Acks > 0 })
			w.echo(conn, 1000)
			if !s.NoEchoAnswer {
				w.eventually("an answer to a ping by name", w.pinged)
			}
			w.eventually("an answer to the other's ping", func() bool {
				w.peer.Ping(nidRoam)
				return w.peer.Pongs() > 0
			})

			if s.KnownSource {
				return // it ignores updates from any other locator
			}
			w.ask("locator", "disable", "net2")
			w.eventually("the peer knows the locator that is left", func() bool {
				got, _ := w.peer.Locators(nidRoam)
				return slices.Equal(got, []uint64{uint64(locator(netRoam[0]))})
			})
			w.eventually("Roam has its acknowledgement", w.settled)
			w.echo(conn, 1000)
		})
	}
}

// pinged reports whether the peer answers a ping of an application on Roam's host.
func (w *world) pinged() bool {
	out, err := w.mn.Command(w.ctx, "ping", "-6", "-n", "-c", "1", "-W", "1",
		sessionAddr(nidPeer).String()).CombinedOutput()
	if err != nil {
		w.Logf("%s", out)
	}
	return err == nil
}
