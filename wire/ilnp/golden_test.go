package ilnp_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

var update = flag.Bool("update", false, "write the golden packets anew")

// keyedFile has the packets of proofs, vouches and MACs; internal/dataplane/ilnphost has the
// programs read the same ones.
const keyedFile = "../testdata/keyed.hex"

// keyedPacket is one golden packet, and what it says.
type keyedPacket struct {
	name  string
	bytes []byte
	proof *ilnp.Proof
	seal  *ilnp.Seal
	vouch *ilnp.Vouch
	encap bool
	right bool // the MAC of an update,
	form  bool // and its message
}

// goldenKey is that of the MACs.
var goldenKey = [ilnp.MACKeyLen]byte([]byte("\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f"))

// goldenUpdates are the messages with a MAC. The programs follow the first of them only. With a code locators are
// longer, so that one is in no form.
var goldenUpdates = []struct {
	name    string
	op      ilnp.Operation
	counter uint64
	beside  roam.L64 // it lists the locator that it comes from, moved on by so much
	code    uint8
	forged  struct{ at, bits byte } // of its MAC
}{
	{name: "update", op: ilnp.Advertisement, counter: 101},
	{name: "acknowledgement", op: ilnp.Acknowledgement, counter: 101},
	{name: "update with the counter of the last one", op: ilnp.Advertisement, counter: 100},
	{name: "update from a locator that it does not list", op: ilnp.Advertisement, counter: 101, beside: 1},
	{name: "update with a code", op: ilnp.Advertisement, counter: 101, code: ilnp.CodeReplaceSoft},
	{
		name: "update, first half of its MAC forged", op: ilnp.Advertisement, counter: 101,
		forged: struct{ at, bits byte }{7, 1},
	},
	{
		name: "update, second half of its MAC forged", op: ilnp.Advertisement, counter: 101,
		forged: struct{ at, bits byte }{8, 1},
	},
}

// keyedPackets makes all of them, in both forms.
func keyedPackets(t *testing.T) (list []keyedPacket) {
	t.Helper()
	from := roam.ILV{L64: 0x2001_0db8_00b2_0002, NID: 0xa05e_91cc_04f2_b867}
	to := roam.ILV{L64: 0x2001_0db8_0001_000a, NID: 0x1c4f_52a9_7be1_0d33}
	n := ilnp.Nonce{Len: 4, Bytes: [12]byte{0x71, 0x08, 0xde, 0x2b}}
	lu := func(op ilnp.Operation) ilnp.LocatorUpdate {
		list := []ilnp.LocatorEntry{{L64: from.L64, Preference: 10, Lifetime: 600}}
		return ilnp.LocatorUpdate{Operation: op, Locators: list}
	}
	put := func(name string, k keyedPacket, b []byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		encap, err := ilnp.Encapsulate(b, 6740)
		if err != nil {
			t.Fatal(err)
		}
		k.name, k.bytes = name, b
		list = append(list, k)
		k.name, k.bytes, k.encap = name+" in UDP", encap, true
		list = append(list, k)
	}
	series := func(b []byte, first byte) {
		for i := range b {
			b[i] = first + byte(i)
		}
	}
	for i, name := range []string{"offer", "answer", "confirmation", "challenge", "notice"} {
		p := ilnp.Proof{Step: ilnp.ProofOffer + ilnp.ProofStep(i), Counter: 0x0102030405060708}
		p.Locators = [8]roam.L64{from.L64, 7: 5}
		series(p.Ephemeral[:], 0x40)
		series(p.Token[:], 0x80)
		series(p.MAC[:], 0xc0)
		op := ilnp.Advertisement
		if p.Step == ilnp.ProofAnswer || p.Step == ilnp.ProofChallenge {
			op = ilnp.Acknowledgement
		}
		b, err := ilnp.BuildProof(from, to, n, lu(op), p)
		put(name, keyedPacket{proof: &p}, b, err)
	}
	v := ilnp.Vouch{Until: time.Unix(0x0102030405, 0).UTC(), NID: 0x0011_22ff_0000_0001}
	series(v.Public[:], 0x40)
	series(v.Modifier[:], 0x80)
	series(v.ByOld[:], 0xc0)
	series(v.ByNew[:], 0xd0)
	b, err := ilnp.BuildVouch(from, to, n, lu(ilnp.Advertisement), v)
	put("vouch", keyedPacket{vouch: &v}, b, err)
	for _, c := range goldenUpdates {
		u := lu(c.op)
		u.Locators[0].L64 += c.beside
		message, err := u.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		message[1] = c.code
		s := ilnp.Seal{Counter: c.counter, Answers: 77}
		s.MAC = ilnp.UpdateMAC(goldenKey, message, s.Counter, s.Answers)
		s.MAC[c.forged.at] ^= c.forged.bits
		b, err := ilnp.BuildSealed(from, to, n, u, s)
		if err == nil {
			copy(b[len(b)-len(message):], message)
			err = ip6.FinishL4(b)
		}
		put(c.name, keyedPacket{seal: &s, right: c.forged.bits == 0, form: c.code == ilnp.CodeNone}, b, err)
	}
	slices.SortFunc(list, func(a, b keyedPacket) int { return strings.Compare(a.name, b.name) })
	return list
}

// TestKeyedGolden fixes the bytes of whole packets, and reads them.
func TestKeyedGolden(t *testing.T) {
	list := keyedPackets(t)
	if *update {
		var text bytes.Buffer
		for _, k := range list {
			fmt.Fprintf(&text, "%s: %x\n", k.name, k.bytes)
		}
		if err := os.WriteFile(keyedFile, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(keyedFile)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) != len(list) {
		t.Fatalf("%d golden packets, want %d", len(lines), len(list))
	}
	for i, k := range list {
		name, text, _ := strings.Cut(lines[i], ": ")
		packet, err := hex.DecodeString(text)
		if err != nil || name != k.name || !bytes.Equal(packet, k.bytes) {
			t.Errorf("%s: %v, %x, want %s of\n%x", name, err, packet, k.name, k.bytes)
			continue
		}
		p, err := ilnp.ParseControl(packet, 6740)
		if err != nil {
			t.Errorf("%s: %v", k.name, err)
			continue
		}
		same := (p.Proof == nil) == (k.proof == nil) && (p.Seal == nil) == (k.seal == nil) &&
			(p.Vouch == nil) == (k.vouch == nil)
		if !same || p.Proof != nil && *p.Proof != *k.proof || p.Seal != nil && *p.Seal != *k.seal ||
			p.Vouch != nil && *p.Vouch != *k.vouch || p.Encapsulated != k.encap {
			t.Errorf("%s reads as %+v", k.name, p)
		}
		if k.seal == nil {
			continue
		}
		right := ilnp.UpdateMAC(goldenKey, p.Payload, p.Seal.Counter, p.Seal.Answers) == p.Seal.MAC
		if _, err := ilnp.ParseLocatorUpdate(p.Payload); right != k.right || (err == nil) != k.form {
			t.Errorf("%s: the MAC is right: %t; %v", k.name, right, err)
		}
	}
}

// reportsFile has probes that ask for a report with a MAC, and their answers.
const reportsFile = "../testdata/reports.hex"

// reportPackets makes them: a node at from asks, by the key 10 11 ... 1f, about the probe's own path and about another.
func reportPackets(t *testing.T) (names []string, packets [][]byte) {
	t.Helper()
	from := roam.ILV{L64: 0x2001_0db8_00b2_0002, NID: 0xa05e_91cc_04f2_b867}
	to := roam.ILV{L64: 0x2001_0db8_0001_000a, NID: 0x1c4f_52a9_7be1_0d33}
	asks := ilnp.Nonce{Len: 4, Bytes: [12]byte{0x71, 0x08, 0xde, 0x2b}}
	answers := ilnp.Nonce{Len: 4, Bytes: [12]byte{0x5a, 0xc3, 0x0f, 0x96}}
	var key [ilnp.MACKeyLen]byte
	for i := range key {
		key[i] = 0x10 + byte(i)
	}
	for _, other := range []bool{false, true} {
		near, far, about := to.L64, from.L64, ""
		if other {
			near, far, about = to.L64+1, from.L64+1, " about another path"
		}
		r := ilnp.Report{Counted: true, Other: other, Near: near, Far: far, Sealed: true}
		request := r.AppendRequest(nil, reportToken)
		r.Epoch, r.Clock = 0x01020304, 0xa0b0c0d0
		r.Received, r.Sent = ilnp.Counts{Packets: 1000, Bytes: 1 << 40}, ilnp.Counts{Packets: 2000, Bytes: 3}
		answer := r.AppendReply(nil, reportToken)
		mac := ilnp.ReportMAC(key, answer, near, far)
		copy(answer[ilnp.ReportLen:], mac[:])
		for _, encap := range []string{"", " in UDP"} {
			for _, e := range []ilnp.Echo{{Request: true, ID: 9, Seq: 7, Data: request}, {ID: 9, Seq: 7, Data: answer}} {
				name, src, dst, n := "request", from, to, asks
				if !e.Request {
					name, src, dst, n = "answer", to, from, answers
				}
				b, err := ilnp.BuildEcho(src, dst, n, e.Request, e.ID, e.Seq, e.Data)
				if encap != "" {
					b, err = ilnp.BuildEncapsulatedEcho(src, dst, n, e, ilnp.EncapsulatedEcho{Port: 6740})
				}
				if err != nil {
					t.Fatal(err)
				}
				names, packets = append(names, name+about+encap), append(packets, b)
			}
		}
	}
	return names, packets
}

// TestReportGolden fixes the bytes of whole packets. internal/dataplane/ilnphost has the programs answer them.
func TestReportGolden(t *testing.T) {
	names, packets := reportPackets(t)
	var text bytes.Buffer
	for i := range names {
		fmt.Fprintf(&text, "%s: %x\n", names[i], packets[i])
	}
	if *update {
		if err := os.WriteFile(reportsFile, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(reportsFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text.Bytes(), want) {
		t.Errorf("the packets are\n%s, want\n%s", text.Bytes(), want)
	}
}
