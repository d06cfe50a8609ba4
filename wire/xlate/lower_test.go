package xlate

import (
	"testing"

	"roam/wire/ilnp"
)

// The MTU is lowered by what the nonce took and by what the caller wants to
// spare, never under the least there is; other errors are not touched.
func TestLowerParam(t *testing.T) {
	for _, c := range []struct {
		kind        uint8
		param       uint32
		gone        int
		spare, want uint32
	}{
		{ilnp.TypePacketTooBig, 1492, 0, 0, 1492},
		{ilnp.TypePacketTooBig, 1492, 8, 0, 1484},
		{ilnp.TypePacketTooBig, 1492, 8, 60, 1424},
		{ilnp.TypePacketTooBig, 1300, 16, 60, 1280},
		{ilnp.TypePacketTooBig, 1280, 8, 60, 1280},
		{ilnp.TypePacketTooBig, 600, 8, 0, 600},
		{ilnp.TypeParameterProblem, 60, 8, 60, 52},
		{ilnp.TypeTimeExceeded, 0, 8, 60, 0},
	} {
		if got := lowerParam(ilnp.ErrorMessage{Type: c.kind, Param: c.param}, c.gone, 40, c.spare); got != c.want {
			t.Errorf("type %d, %d less %d and %d: %d, want %d", c.kind, c.param, c.gone, c.spare, got, c.want)
		}
	}
}
