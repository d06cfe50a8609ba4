package rawio

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"roam/internal/testutil"
)

func TestIsAnswer(t *testing.T) {
	request := []byte{128, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}
	answer := func(change func([]byte)) []byte {
		b := []byte{129, 0, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8}
		change(b)
		return b
	}
	if !isAnswer(answer(func([]byte) {}), request) {
		t.Error("the answer is refused")
	}
	for name, b := range map[string][]byte{
		"the request itself": request,
		"another identifier": answer(func(b []byte) { b[4]++ }),
		"other data":         answer(func(b []byte) { b[11]++ }),
		"an error":           answer(func(b []byte) { b[0] = 1 }),
		"too short":          answer(func([]byte) {})[:8],
		"nothing":            nil,
	} {
		if isAnswer(b, request) {
			t.Errorf("%s is taken for the answer", name)
		}
	}
}

func TestEcho(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "ipv6")
	loopback := netip.IPv6Loopback()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if rtt, err := Echo(ctx, loopback, loopback); err != nil || rtt <= 0 {
		t.Errorf("Echo: %v, %v", rtt, err)
	}
	over, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, err := Echo(over, loopback, loopback); err == nil {
		t.Error("an answer came before the question")
	}
}
