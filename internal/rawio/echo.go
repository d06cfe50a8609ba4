package rawio

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"
)

// ErrNoAnswer is wrapped by Echo's error if no reply arrives in time.
var ErrNoAnswer = errors.New("no answer")

// Echo sends one ordinary ICMPv6 echo request (RFC 4443 §4.1) from src to dst through the
// host's own stack and returns the round-trip time. It waits until ctx is done, so ctx
// needs a deadline. It needs CAP_NET_RAW.
func Echo(ctx context.Context, src, dst netip.Addr) (time.Duration, error) {
	var lc net.ListenConfig
	pc, err := lc.ListenPacket(ctx, "ip6:ipv6-icmp", src.String())
	if err != nil {
		return 0, fmt.Errorf("open socket for an echo request: %w", err)
	}
	defer pc.Close()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(time.Second)
	}
	if err := pc.SetDeadline(deadline); err != nil {
		return 0, fmt.Errorf("limit the time of an echo request: %w", err)
	}
	request := make([]byte, 24)
	request[0] = 128
	// Identifier, sequence number and data are random, so that no other reply matches.
	rand.Read(request[4:]) // never fails
	sent := time.Now()
	if _, err := pc.WriteTo(request, &net.IPAddr{IP: dst.AsSlice()}); err != nil {
		return 0, fmt.Errorf("send echo request to %s: %w", dst, err)
	}
	answer := make([]byte, 1500)
	for {
		n, from, err := pc.ReadFrom(answer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, fmt.Errorf("echo request to %s: %w", dst, ErrNoAnswer)
		}
		if err != nil {
			return 0, fmt.Errorf("wait for the answer of %s: %w", dst, err)
		}
		a, ok := from.(*net.IPAddr)
		if ok && a.IP.Equal(dst.AsSlice()) && isAnswer(answer[:n], request) {
			return time.Since(sent), nil
		}
	}
}

// isAnswer reports whether b is the echo reply to a request.
func isAnswer(b, request []byte) bool {
	return len(b) == len(request) && b[0] == 129 && b[1] == 0 &&
		binary.BigEndian.Uint32(b[4:]) == binary.BigEndian.Uint32(request[4:]) && string(b[8:]) == string(request[8:])
}
