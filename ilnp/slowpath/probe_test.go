package slowpath

import (
	"bytes"
	"testing"

	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
)

// TestAnswerProbe: a probe of a pending peer is answered with our nonce, however long, in
// the form and by the checksum rule of the probe; nothing else is.
func TestAnswerProbe(t *testing.T) {
	const port = 6740
	host := Host{UDPPort: port}
	long := ilnp.Nonce{Len: 12, Bytes: [12]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}
	probe := func(n ilnp.Nonce, request bool, size int) []byte {
		return built(t)(ilnpwire.BuildEcho(them, us, n, request, 3, 4, bytes.Repeat([]byte{7}, size)))
	}
	overNIDs := probe(theirNonce, true, probeData)
	if err := ilnpwire.FinishOverNIDs(overNIDs); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		packet   []byte
		own      ilnp.Nonce
		answered bool
	}{
		"by option":          {probe(theirNonce, true, probeData), long, true},
		"per flow":           {probe(long, true, probeDataPerFlow), ourNonce, true},
		"over NIDs":          {overNIDs, long, true},
		"in UDP":             {built(t)(ilnpwire.Encapsulate(probe(theirNonce, true, probeData), port)), long, true},
		"no nonce of ours":   {probe(theirNonce, true, probeData), ilnp.Nonce{}, false},
		"no nonce of theirs": {probe(ilnp.Nonce{}, true, probeData), long, false},
		"a reply":            {probe(theirNonce, false, probeData), long, false},
		"somebody's ping":    {probe(theirNonce, true, 56), long, false},
		"a damaged one":      {append(probe(theirNonce, true, probeData)[:60], make([]byte, 12)...), long, false},
		"nothing":            {nil, long, false},
		"an update": {built(t)(ilnpwire.BuildUpdate(them, us, theirNonce, ilnpwire.LocatorUpdate{
			Operation: ilnpwire.Advertisement, Locators: []ilnpwire.LocatorEntry{{L64: there, Lifetime: 60}},
		})), long, false},
	} {
		b, ok := host.AnswerProbe(c.packet, c.own)
		if ok != c.answered {
			t.Errorf("%s: answered %t, want %t", name, ok, c.answered)
		}
		if !ok {
			continue
		}
		q, err := ilnpwire.ParseControl(c.packet, port)
		if err != nil {
			t.Fatal(err)
		}
		a, err := ilnpwire.ParseControl(b, port)
		ends, form := a.Src == us && a.Dst == them && a.Nonce == c.own, a.Encapsulated == q.Encapsulated && a.OverNIDs == q.OverNIDs
		if err != nil || !ends || !form {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		e, err := ilnpwire.ParseEcho(a.Payload)
		if err != nil || e.Request || e.ID != 3 || e.Seq != 4 || !bytes.Equal(e.Data, q.Payload[8:]) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}
