package nd_test

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"roam/wire/nd"
)

// Another implementation reads what we build.
func TestSolicitationReadByGopacket(t *testing.T) {
	src, router := netip.MustParseAddr("2001:db8:a:1:211:22ff:fe33:4455"), netip.MustParseAddr("fe80::12:3456:789a")
	mac := []byte{2, 0, 0, 0, 0, 9}
	b, err := nd.Solicitation(src, router, mac)
	if err != nil {
		t.Fatal(err)
	}
	p := gopacket.NewPacket(b, layers.LayerTypeIPv6, gopacket.Default)
	if e := p.ErrorLayer(); e != nil {
		t.Fatal(e.Error())
	}
	ip, ok := p.Layer(layers.LayerTypeIPv6).(*layers.IPv6)
	if !ok || ip.HopLimit != 255 || ip.DstIP.String() != "ff02::1:ff56:789a" || ip.SrcIP.String() != src.String() {
		t.Errorf("header %+v", ip)
	}
	ns, ok := p.Layer(layers.LayerTypeICMPv6NeighborSolicitation).(*layers.ICMPv6NeighborSolicitation)
	if !ok || ns.TargetAddress.String() != router.String() || len(ns.Options) != 1 ||
		ns.Options[0].Type != layers.ICMPv6OptSourceAddress || !bytes.Equal(ns.Options[0].Data, mac) {
		t.Errorf("solicitation %+v", ns)
	}
	icmp, ok := p.Layer(layers.LayerTypeICMPv6).(*layers.ICMPv6)
	if !ok || icmp.SetNetworkLayerForChecksum(ip) != nil {
		t.Fatal("no ICMPv6")
	}
	if err, r := icmp.VerifyChecksum(); err != nil || !r.Valid {
		t.Errorf("checksum %+v, %v", r, err)
	}
}
