package slowpath

import (
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
)

// The data of a probe, as the core and the data plane know it.
const (
	probeData        = 16 // bytes
	probeDataPerFlow = 20
)

// AnswerProbe makes the answer to a probe of a pending peer that is held, in the form of
// the probe. The data plane answers those whose nonce is as long as ours. One that is not
// must not wait for the validation of its sender: that may hold our probes as well, and
// neither end would ever answer the other.
func (h Host) AnswerProbe(packet []byte, own ilnp.Nonce) ([]byte, bool) {
	q, err := ilnpwire.ParseControl(packet, h.UDPPort)
	if err != nil || !q.Nonce.Present() || !own.Present() {
		return nil, false
	}
	e, err := ilnpwire.ParseEcho(q.Payload)
	if err != nil || !e.Request || len(e.Data) != probeData && len(e.Data) != probeDataPerFlow {
		return nil, false
	}
	b, err := ilnpwire.BuildEcho(q.Dst, q.Src, own, false, e.ID, e.Seq, e.Data)
	if err == nil && q.OverNIDs {
		err = ilnpwire.FinishOverNIDs(b)
	}
	if err == nil && q.Encapsulated {
		b, err = ilnpwire.Encapsulate(b, h.UDPPort)
	}
	return b, err == nil
}
