package interop

import (
	"os"
	"slices"
	"testing"
	"time"
)

const (
	ownL64, theirL64, otherL64 = 0x2001_0db8_000c_0001, 0x2001_0db8_000a_0001, 0x2001_0db8_000a_0002
	ownNID, theirNID           = 0x1000_0000_0000_00c1, 0x1000_0000_0000_00a1
)

// desk is a peer whose packets go to the test instead of to a link.
type desk struct {
	*testing.T
	peer *Peer
	file *os.File
}

func newDesk(t *testing.T, s Stack) *desk {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	p := &Peer{stack: s, nid: ownNID, link: &link{file: w, mac: make([]byte, 6), router: make([]byte, 6)},
		locators: []uint64{ownL64}, datagram: map[uint16]int{}}
	p.forget()
	return &desk{t, p, r}
}

// ask gives the peer a packet from a locator.
func (d *desk) ask(l64 uint64, nonce string, nidsOnly bool, proto byte, body []byte) {
	d.Helper()
	p := packet{src: address{l64, theirNID}, dst: address{ownL64, ownNID}, proto: proto, body: slices.Clone(body), nonce: nonce}
	q, err := parsePacket(p.bytes(nidsOnly, otherHops))
	if err != nil {
		d.Fatal(err)
	}
	d.peer.handle(q)
}

// answer returns the next packet that the peer sent; nil if there is none.
func (d *desk) answer() *packet {
	d.Helper()
	if err := d.file.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		d.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := d.file.Read(b)
	if err != nil {
		return nil
	}
	p, err := parsePacket(b[ethLen:n])
	if err != nil {
		d.Fatal(err)
	}
	return &p
}

var (
	echoRequest = []byte{icmpEchoRequest, 0, 0, 0, 0, 1, 0, 1}
	twoLocators = []entry{{theirL64, 10, 600}, {otherL64, 20, 600}}
)

const nonce = "abcd"

func synTo(port uint16) []byte {
	return []byte{0, 99, byte(port >> 8), byte(port), 0, 0, 0, 1, 0, 0, 0, 0, 5 << 4, flagSYN, 1, 0, 0, 0, 0, 0}
}

// Each habit decides which packets are answered, with a nonce or not, and under
// which checksum rule.
func TestHabits(t *testing.T) {
	type answer int
	const (
		none, ordinary, overNIDs, plain, plainOverNIDs answer = 0, 1, 2, 3, 4
	)
	update, little := newUpdate(formRFC, twoLocators).bytes(), newUpdate(formLE, twoLocators).bytes()
	udp := datagram(99, EchoPort, []byte("hello"))
	for name, c := range map[string]struct {
		stack    Stack
		nonce    string
		nidsOnly bool
		proto    byte
		body     []byte
		want     answer
	}{
		"echo":                                  {Stack{}, nonce, false, protoICMP, echoRequest, ordinary},
		"echo over NIDs to an ordinary stack":   {Stack{}, nonce, true, protoICMP, echoRequest, none},
		"control over NIDs":                     {Stack{ControlOverNIDs: true}, nonce, true, protoICMP, echoRequest, overNIDs},
		"ordinary echo to control over NIDs":    {Stack{ControlOverNIDs: true}, nonce, false, protoICMP, echoRequest, none},
		"ordinary control too":                  {Stack{ControlOverNIDs: true, OrdinaryControlToo: true}, nonce, false, protoICMP, echoRequest, ordinary},
		"ordinary control too, over NIDs":       {Stack{ControlOverNIDs: true, OrdinaryControlToo: true}, nonce, true, protoICMP, echoRequest, overNIDs},
		"no echo answer":                        {Stack{NoEchoAnswer: true}, nonce, false, protoICMP, echoRequest, none},
		"update":                                {Stack{}, nonce, false, protoICMP, update, ordinary},
		"ordinary update to control over NIDs":  {Stack{ControlOverNIDs: true}, nonce, false, protoICMP, update, none},
		"ordinary update, control too":          {Stack{ControlOverNIDs: true, OrdinaryControlToo: true}, nonce, false, protoICMP, update, overNIDs},
		"little-endian update to another stack": {Stack{}, nonce, false, protoICMP, little, none},
		"little-endian update":                  {Stack{Code0Entries16LE: true}, nonce, false, protoICMP, little, ordinary},
		"never acknowledges":                    {Stack{NeverAcks: true}, nonce, false, protoICMP, update, none},
		"datagram":                              {Stack{}, nonce, false, protoUDP, udp, ordinary},
		"datagram over NIDs":                    {Stack{NIDChecksums: true}, nonce, true, protoUDP, udp, overNIDs},
		"datagram under the other rule":         {Stack{NIDChecksums: true}, nonce, false, protoUDP, udp, none},
		"plain replies":                         {Stack{NIDChecksums: true, PlainUDPReplies: true}, nonce, true, protoUDP, udp, plain},
		"plain datagram":                        {Stack{}, "", false, protoUDP, udp, none},
		"plain datagram served":                 {Stack{ServesPlain: true, NIDChecksums: true}, "", false, protoUDP, udp, plain},
		"plain datagram over NIDs":              {Stack{ServesPlain: true, NIDChecksums: true}, "", true, protoUDP, udp, none},
		"plain echo served":                     {Stack{ServesPlain: true, ControlOverNIDs: true}, "", false, protoICMP, echoRequest, plain},
		"plain SYN":                             {Stack{ServesPlain: true, NIDChecksums: true}, "", false, protoTCP, synTo(EchoPort), plain},
		"plain SYN-ACK over NIDs":               {Stack{PlainSYNACKOverNIDs: true}, "", false, protoTCP, synTo(EchoPort), plainOverNIDs},
		"closed port":                           {Stack{PortUnreachable: true, ControlOverNIDs: true}, nonce, false, protoUDP, datagram(99, 98, nil), overNIDs},
		"closed port, silent":                   {Stack{}, nonce, false, protoUDP, datagram(99, 98, nil), none},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, c.stack)
			d.ask(theirL64, c.nonce, c.nidsOnly, c.proto, c.body)
			got, a := none, d.answer()
			switch {
			case a == nil:
			case a.nonce != "" && a.sound(false):
				got = ordinary
			case a.nonce != "" && a.sound(true):
				got = overNIDs
			case a.nonce == "" && a.sound(false):
				got = plain
			case a.nonce == "" && a.sound(true):
				got = plainOverNIDs
			}
			if got != c.want {
				t.Errorf("answer %d, want %d: %+v; counts %+v", got, c.want, a, d.peer.counts)
			}
		})
	}
}

// A packet from a locator that the stack does not know is dropped by one that
// does so, though the nonce is right.
func TestUnknownSourceDropped(t *testing.T) {
	for _, drops := range []bool{false, true} {
		d := newDesk(t, Stack{UnknownSourceDropped: drops})
		d.ask(theirL64, nonce, false, protoICMP, echoRequest)
		d.answer()
		d.ask(otherL64, nonce, false, protoICMP, echoRequest)
		if got := d.answer() == nil; got != drops {
			t.Errorf("drops %v: dropped %v", drops, got)
		}
	}
}

// After a silence, and after a reboot, the host has a new nonce and takes a new
// one; before, it refuses one.
func TestNonceIsRenewed(t *testing.T) {
	d := newDesk(t, Stack{RenewAfter: 50 * time.Millisecond})
	own := func(theirs string) string {
		d.ask(theirL64, theirs, false, protoICMP, echoRequest)
		if a := d.answer(); a != nil {
			return a.nonce
		}
		return ""
	}
	first := own("abcd")
	if first == "" || own("efgh") != "" {
		t.Fatal("another nonce was taken, or the first was not")
	}
	d.peer.sessions[theirNID].last = time.Now().Add(-time.Second)
	second := own("efgh")
	d.peer.Reboot()
	third := own("ijkl")
	if second == "" || third == "" || first == second || second == third {
		t.Errorf("nonces %x, %x, %x", first, second, third)
	}
}

// A Locator Update is repeated until the acknowledgement comes, in the stack's
// form.
func TestUpdateIsRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		stack Stack
		form  form
	}{
		"RFC":           {Stack{}, formRFC},
		"draft":         {Stack{DraftUpdates: true}, formDraft},
		"little-endian": {Stack{Code0Entries16LE: true}, formLE},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, c.stack)
			d.peer.Open(theirNID, theirL64)
			d.peer.Move(otherL64, ownL64)
			var a *packet
			for range 2 {
				d.peer.repeatUpdate(d.peer.sessions[theirNID])
				if a = d.answer(); a == nil || a.src.l64 != ownL64 {
					t.Fatalf("no update from the old locator: %+v", a)
				}
			}
			u, err := parseUpdate(a.body, c.form == formLE)
			if err != nil || u.form != c.form || u.entries[0].l64 != otherL64 {
				t.Fatalf("update %+v, %v", u, err)
			}
			u.operation = opAcknowledgement
			d.ask(theirL64, nonce, false, protoICMP, u.bytes())
			if d.peer.counts.Acks != 1 || d.peer.sessions[theirNID].update != nil {
				t.Errorf("the acknowledgement did not count: %+v", d.peer.counts)
			}
		})
	}
}

// Options beside the nonce make headers that are a multiple of 8 bytes and
// that the nonce is found in.
func TestOptionsBesideTheNonce(t *testing.T) {
	for name, o := range map[string]Options{
		"none":           {},
		"long":           {LongNonce: true},
		"Pad1 before":    {Before: Pad1},
		"PadN before":    {Before: PadN(2)},
		"PadN behind":    {Behind: PadN(7)},
		"unknown before": {Before: Unknown},
		"unknown behind": {Behind: Unknown},
		"both":           {Before: Pad1 + Unknown, Behind: Unknown + PadN(4), LongNonce: true},
		"header before":  {First: Unknown},
		"header behind":  {Last: PadN(6)},
		"three headers":  {First: Unknown, Before: Pad1 + Pad1, Last: Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			n := "abcd"
			if o.LongNonce {
				n = "abcdefghijkl"
			}
			p := packet{proto: protoUDP, body: datagram(1, 2, []byte("hello")), nonce: n, beside: o}
			b := p.bytes(false, otherHops)
			if (len(b)-ipLen-len(p.body))%8 != 0 {
				t.Errorf("headers of %d bytes", len(b)-ipLen-len(p.body))
			}
			q, err := parsePacket(b)
			if err != nil || q.nonce != n || q.proto != protoUDP || !q.sound(false) {
				t.Errorf("read back %+v, %v", q, err)
			}
		})
	}
}

// The little-endian form is that of a frame of the public kernel.
func TestLittleEndianFrame(t *testing.T) {
	frame := []byte{0x9c, 0, 0x88, 0x3a, 1, opAcknowledgement, 0, 0,
		0x20, 1, 0x0d, 0xb8, 0, 0xa2, 0, 0, 0x0a, 0, 0, 0, 0x1e, 0, 0, 0}
	u, err := parseUpdate(frame, true)
	if err != nil || u.operation != opAcknowledgement || u.entries[0] != (entry{0x2001_0db8_00a2_0000, 10, 30}) {
		t.Errorf("got %+v, %v", u, err)
	}
	if _, err := parseUpdate(frame, false); err == nil {
		t.Error("a stack without that form took it")
	}
}

// TestOutOfOrder: a connection delivers what came before its turn, once, and
// acknowledges all of it when the gap is closed.
func TestOutOfOrder(t *testing.T) {
	d := newDesk(t, Stack{})
	p := d.peer
	p.Open(theirNID, theirL64)
	key := connKey{theirNID, false, DiscardPort, 7003}
	c := &Conn{peer: p, session: p.begin(theirNID), key: key, synced: true, wanted: 100}
	for _, seg := range []struct {
		seq    uint32
		data   string
		wanted uint32
	}{
		{103, "def", 100}, {109, "jkl", 100}, {103, "def", 100}, {106, "ghi", 100},
		{100, "abc", 112}, {109, "jkl", 112}, {110, "klmn", 114},
	} {
		c.take(seg.seq, 0, flagACK, []byte(seg.data))
		if c.wanted != seg.wanted || c.received != int(seg.wanted)-100 {
			t.Fatalf("behind %d: wanted %d, received %d; %d wanted", seg.seq, c.wanted, c.received, seg.wanted)
		}
	}
	if len(c.ahead) != 0 {
		t.Errorf("%d segments are held", len(c.ahead))
	}
}
