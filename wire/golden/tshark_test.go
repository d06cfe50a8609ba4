package golden_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"roam/internal/testutil"
	"roam/wire/golden"
	"roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// fields are the fields requested from tshark, in the order of decoded's members.
var fields = []string{
	"ipv6.opt.ilnp_nonce", "tcp.checksum.status", "udp.checksum.status", "icmpv6.checksum.status",
	"icmpv6.ilnp.nb_locs", "icmpv6.ilnp.nb_locator", "icmpv6.ilnp.nb_preference", "icmpv6.ilnp.nb_lifetime",
	"_ws.malformed",
}

// decoded is one packet as tshark sees it; a member is empty where the packet
// has no such field.
type decoded struct {
	nonce, tcp, udp, icmp                  string
	count, locators, preference, lifetimes string
	malformed                              string
}

// good is tshark's word for a checksum that holds.
const good = "1"

// TestTshark holds that an independent decoder sees in the wire packets what
// was put there.
func TestTshark(t *testing.T) {
	testutil.Need(t, "tshark")
	files := load(t)
	seen := runTshark(t, files)
	for i, c := range files {
		t.Run(c.name, func(t *testing.T) {
			d := seen[i]
			if d.malformed != "" {
				t.Error("tshark finds the packet malformed")
			}
			wantNonce(t, c, d)
			wantChecksum(t, c, d)
			wantUpdate(t, c, d)
		})
	}
}

// runTshark decodes the wire packets of all files at once: starting tshark
// takes far longer than decoding does.
func runTshark(t *testing.T, files []named) []decoded {
	t.Helper()
	var all []byte
	for i, c := range files {
		one := golden.Case{Session: c.Wire}.AppendPcap(nil)
		one = one[:len(one)-recordHeader] // without the empty second packet
		if i > 0 {
			one = one[fileHeader:]
		}
		all = append(all, one...)
	}
	path := filepath.Join(t.TempDir(), "wire.pcap")
	if err := os.WriteFile(path, all, 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"-n", "-r", path, "-T", "fields", "-E", "separator=;", "-E", "occurrence=a",
		"-o", "tcp.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-o", "ipv6.defragment:FALSE"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	cmd := exec.CommandContext(t.Context(), "tshark", args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir()) // without a user's preferences
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("run tshark: %v", err)
	}
	lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	if len(lines) != len(files) {
		t.Fatalf("tshark decoded %d packets, want %d", len(lines), len(files))
	}
	var list []decoded
	for _, line := range lines {
		v := strings.Split(line, ";")
		if len(v) != len(fields) {
			t.Fatalf("tshark gave %d fields in %q, want %d", len(v), line, len(fields))
		}
		list = append(list, decoded{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8]})
	}
	return list
}

// Lengths of the headers of a pcap file, in bytes.
const (
	fileHeader   = 24
	recordHeader = 16
)

func wantNonce(t *testing.T, c named, d decoded) {
	t.Helper()
	if isError(c) {
		return // tshark lists the nonce of the quoted packet with the outer one's
	}
	p, err := ilnp.ParseQuoted(c.Wire)
	if err != nil {
		t.Fatal(err)
	}
	want := c.Entry.Nonce
	if p.Nonce.Present() != (d.nonce != "") {
		t.Errorf("tshark sees nonce %q, the parser %v", d.nonce, p.Nonce)
	}
	if d.nonce != "" && d.nonce != hex.EncodeToString(want.Value()) {
		t.Errorf("tshark sees nonce %s, want %x", d.nonce, want.Value())
	}
}

func wantChecksum(t *testing.T, c named, d decoded) {
	t.Helper()
	chain, err := ip6.Walk(c.Wire)
	if err != nil {
		t.Fatal(err)
	}
	if !chain.Whole() || isError(c) && chain.Upper != ip6.ICMPv6 {
		return
	}
	if chain.Upper == ip6.ICMPv6 {
		// The quoted packet adds statuses of its own behind a comma.
		d.icmp, _, _ = strings.Cut(d.icmp, ",")
	}
	have := map[uint8]string{ip6.TCP: d.tcp, ip6.UDP: d.udp, ip6.ICMPv6: d.icmp}[chain.Upper]
	switch {
	case ruleOf(c.Entry, chain.Upper) == xlate.RuleRFC6741 && !c.isOrdinary():
		if have == good {
			t.Error("tshark finds a checksum good that leaves the locators out")
		}
		return
	case chain.Upper == ip6.ICMPv6:
	case chain.Upper != ip6.TCP && chain.Upper != ip6.UDP, strings.HasSuffix(c.name, "udp-zero"):
		return
	}
	if have != good {
		t.Errorf("tshark gives checksum status %q", have)
	}
}

func wantUpdate(t *testing.T, c named, d decoded) {
	t.Helper()
	p, err := ilnp.ParseQuoted(c.Wire)
	if err != nil || p.Type != ilnp.TypeLocatorUpdate || p.Proto != ip6.ICMPv6 {
		return
	}
	lu, err := ilnp.ParseLocatorUpdate(p.Payload)
	if err != nil {
		t.Fatal(err)
	}
	if lu.Form != ilnp.FormRFC {
		return // tshark knows 12-byte entries only
	}
	var locators, preference, lifetimes []string
	for _, l := range lu.Locators {
		locators = append(locators, fmt.Sprintf("0x%016x", uint64(l.L64)))
		preference = append(preference, fmt.Sprint(l.Preference))
		lifetimes = append(lifetimes, fmt.Sprint(l.Lifetime))
	}
	want := decoded{count: fmt.Sprint(len(lu.Locators)), locators: strings.Join(locators, ","),
		preference: strings.Join(preference, ","), lifetimes: strings.Join(lifetimes, ",")}
	d = decoded{count: d.count, locators: d.locators, preference: d.preference, lifetimes: d.lifetimes}
	if d != want {
		t.Errorf("tshark sees %+v, want %+v", d, want)
	}
}

func isError(c named) bool { return strings.HasPrefix(c.name, "error") }
