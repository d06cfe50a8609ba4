package ip6

import "testing"

func TestProtocolName(t *testing.T) {
	for proto, want := range map[uint8]string{TCP: "tcp", ICMPv6: "icmpv6", 59: "none", 200: "200", 0: "0"} {
		if got := ProtocolName(proto); got != want {
			t.Errorf("ProtocolName(%d) = %q, want %q", proto, got, want)
		}
	}
}
