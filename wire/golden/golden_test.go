package golden_test

import (
	"bytes"
	"encoding/binary"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"roam/wire/golden"
	"roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

var rewrite = flag.Bool("update", false, "write the golden files anew from the cases and the model")

const dir = "../testdata"

// TestUpdate writes the golden files if requested, and always checks that the files are
// those of the cases.
func TestUpdate(t *testing.T) {
	var want []string
	for _, s := range allCases(t) {
		for ext, b := range map[string][]byte{".pcap": s.AppendPcap(nil), ".txt": s.AppendText(nil)} {
			path := filepath.Join(dir, s.name+ext)
			want = append(want, path)
			if *rewrite {
				if err := os.WriteFile(path, b, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			have, err := os.ReadFile(path)
			if err != nil {
				t.Errorf("golden file is missing, run with -update: %v", err)
			} else if !bytes.Equal(have, b) {
				t.Errorf("%s is not what its case makes; run with -update and look at the difference", path)
			}
		}
	}
	for _, pattern := range []string{"/*.pcap", "/*.txt"} {
		have, err := filepath.Glob(dir + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range have {
			if !slices.Contains(want, path) {
				t.Errorf("no case makes %s", path)
			}
		}
	}
}

// named is a case with the name of its files.
type named struct {
	name string
	golden.Case
}

func allCases(t *testing.T) []named {
	t.Helper()
	var list []named
	for _, s := range specs(t) {
		list = append(list, named{s.name, s.build(t)})
	}
	return append(list, errorCases(t)...)
}

// isOrdinary reports whether the packet keeps to the ordinary rule though its sender's
// session does not.
func (c named) isOrdinary() bool { return strings.HasPrefix(c.name, "in-ordinary-") }

// load reads the golden files.
func load(t *testing.T) []named {
	t.Helper()
	paths, err := filepath.Glob(dir + "/*.pcap")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden files in %s: %v", dir, err)
	}
	var list []named
	for _, path := range paths {
		pcap, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSuffix(path, ".pcap")
		txt, err := os.ReadFile(base + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		c, err := golden.Parse(pcap, txt)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		list = append(list, named{filepath.Base(base), c})
	}
	return list
}

// TestModel runs every golden file through the model.
func TestModel(t *testing.T) {
	for _, c := range load(t) {
		t.Run(c.name, func(t *testing.T) {
			out, err := c.Translate()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out, c.Out()) {
				t.Errorf("translated to\n%x, want\n%x", out, c.Out())
			}
		})
	}
}

// TestChecksumsHold verifies the golden packets from first principles, without
// the incremental arithmetic of the model.
func TestChecksumsHold(t *testing.T) {
	for _, c := range load(t) {
		t.Run(c.name, func(t *testing.T) {
			checkSum(t, "session", c.Session, xlate.Entry{})
			e := c.Entry
			if c.isOrdinary() {
				e.Rule = xlate.RuleIPv6
			}
			checkSum(t, "wire", c.Wire, e)
		})
	}
}

func checkSum(t *testing.T, side string, b []byte, e xlate.Entry) {
	t.Helper()
	chain, err := ip6.Walk(b)
	if err != nil {
		t.Fatal(err)
	}
	off, _, ok := ip6.ChecksumOffset(chain.Upper)
	if !ok || !chain.Whole() || chain.Upper == ip6.UDPLite {
		return
	}
	msg := b[chain.UpperOffset:chain.End]
	if field := binary.BigEndian.Uint16(msg[off:]); chain.Upper == ip6.UDP && field == 0 {
		return
	}
	src, dst := ends(chain)
	if ruleOf(e, chain.Upper) == xlate.RuleRFC6741 {
		src.L64, dst.L64 = 0, 0
	}
	if sum := ip6.Checksum(src.Addr(), dst.Addr(), chain.Upper, msg); sum != 0 {
		t.Errorf("%s side: checksum is off by %#04x", side, sum)
	}
}

// ruleOf returns the rule of a protocol.
func ruleOf(e xlate.Entry, proto uint8) xlate.Rule {
	if proto == ip6.ICMPv6 {
		return e.ICMPRule
	}
	return e.Rule
}

// TestSpecialCases holds what single cases are there for.
func TestSpecialCases(t *testing.T) {
	files := make(map[string]named)
	for _, c := range load(t) {
		files[c.name] = c
	}
	udpCheck := func(b []byte) uint16 {
		chain, err := ip6.Walk(b)
		if err != nil {
			t.Fatal(err)
		}
		return binary.BigEndian.Uint16(b[chain.UpperOffset+6:])
	}
	if got := udpCheck(files["udp-zero"].Wire); got != 0 {
		t.Errorf("udp-zero: checksum %#04x on the wire", got)
	}
	if got := udpCheck(files["udp-ffff"].Wire); got != 0xffff {
		t.Errorf("udp-ffff: checksum %#04x on the wire", got)
	}
	first := files["fragment-first"].Wire
	chain, err := ip6.Walk(first)
	if err != nil {
		t.Fatal(err)
	}
	if len(chain.Exts) != 2 || chain.Exts[0].Proto != ip6.DestOpts || chain.Exts[1].Proto != ip6.Fragment {
		t.Errorf("fragment-first: headers %+v, want nonce ahead of fragment", chain.Exts)
	}
	hop := files["hop-by-hop"].Wire
	if chain, err = ip6.Walk(hop); err != nil {
		t.Fatal(err)
	}
	if len(chain.Exts) != 2 || chain.Exts[0].Proto != ip6.HopByHop || chain.Exts[1].Proto != ip6.DestOpts {
		t.Errorf("hop-by-hop: headers %+v, want nonce behind hop-by-hop", chain.Exts)
	}
}

// TestControlPackets holds that a Locator Update that is built whole equals one
// that was translated.
func TestControlPackets(t *testing.T) {
	for _, c := range load(t) {
		if !strings.HasPrefix(c.name, "lu") {
			continue
		}
		p, err := ilnp.ParsePacket(c.Wire)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		lu, err := ilnp.ParseLocatorUpdate(p.Payload)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		built, err := ilnp.BuildUpdate(p.Src, p.Dst, p.Nonce, lu)
		if err == nil && c.Entry.ICMPRule == xlate.RuleRFC6741 {
			err = ilnp.FinishOverNIDs(built)
		}
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		// The builder leaves the flow label alone.
		built[1] |= c.Wire[1] & 0x0f
		copy(built[2:4], c.Wire[2:4])
		if !bytes.Equal(built, c.Wire) {
			t.Errorf("%s: built\n%x, golden\n%x", c.name, built, c.Wire)
		}
	}
}
