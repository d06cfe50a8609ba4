package site

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"roam/internal/testutil"
)

// The filter selects each kind of encapsulation, and nothing that hosts and borders send.
func TestEncapsulationFilter(t *testing.T) {
	testutil.Need(t, "tcpdump")
	selected := func(list ...[]byte) int {
		t.Helper()
		var file bytes.Buffer
		w := pcapgo.NewWriter(&file)
		if err := w.WriteFileHeader(65535, layers.LinkTypeEthernet); err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			frame := append(append(make([]byte, 12), 0x86, 0xdd), p...)
			info := gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(frame), Length: len(frame)}
			if err := w.WritePacket(info, frame); err != nil {
				t.Fatal(err)
			}
		}
		name := filepath.Join(t.TempDir(), "all.pcap")
		if err := os.WriteFile(name, file.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("tcpdump", "-n", "-t", "-q", "-r", name, EncapsulationFilter()).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count("\n"+string(out), "\nIP6 ")
	}
	all := encapsulated()
	if len(all) != Encapsulations {
		t.Errorf("%d packets, want %d", len(all), Encapsulations)
	}
	if n := selected(all...); n != Encapsulations {
		t.Errorf("%d of %d encapsulated packets are selected", n, Encapsulations)
	}
	nonce := []byte{0, 0, 0x8b, 4, 1, 2, 3, 4}
	behind := func(next byte, payload []byte) []byte {
		return ip6Packet(60, append(append([]byte{next}, nonce[1:]...), payload...))
	}
	echo, segment := make([]byte, 64), make([]byte, 20)
	echo[0], segment[12] = 128, 0x50
	// As numbered datagrams begin, and control messages in UDP: options before ICMPv6.
	data, control := append([]byte{0x52, 0x4d, 0x55, 0x46}, make([]byte, 60)...), append([]byte{58}, nonce[1:]...)
	none := [][]byte{
		ip6Packet(58, echo), behind(58, echo), ip6Packet(6, segment), behind(6, segment),
		ip6Packet(17, udpDatagram(7000, data)), behind(17, udpDatagram(7000, data)),
		ip6Packet(17, udpDatagram(6740, append(control, echo...))),
		ip6Packet(17, udpDatagram(9, nil)), ip6Packet(44, make([]byte, 16)),
		ip6Packet(17, udpDatagram(9, append(ip6Packet(59, nil), 0))), // begins as IPv6, and is longer
	}
	if n := selected(none...); n != 0 {
		t.Errorf("%d of %d other packets are selected", n, len(none))
	}
}
