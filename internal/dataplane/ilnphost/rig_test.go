package ilnphost

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"roam"
	"roam/ilnp"
	"roam/internal/hostnet"
	"roam/internal/testutil"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// Verdicts of the programs, as session.h has them.
const (
	passOn   = -1
	consumed = 0
	shot     = 2
	redirect = 7
)

// loopback is the only link of a new namespace, and what packets of a test run
// came in on unless the test says otherwise.
const loopback = roam.LinkID(1)

const ethLen = 14

// The two ends of most tests, and places where they may be.
const (
	ours   = roam.NID(0x1c4f_52a9_7be1_0d33)
	theirs = roam.NID(0xa05e_91cc_04f2_b867)
	here   = roam.L64(0x2001_0db8_0001_000a)
	there  = roam.L64(0x2001_0db8_00b2_0002)
	else1  = roam.L64(0x2001_0db8_00b3_0003)
	else2  = roam.L64(0x2001_0db8_00b4_0004)
)

var (
	ourNonce   = ilnp.Nonce{Len: 4, Bytes: [12]byte{0x5a, 0xc3, 0x0f, 0x96}}
	theirNonce = ilnp.Nonce{Len: 4, Bytes: [12]byte{0x71, 0x08, 0xde, 0x2b}}
	longNonce  = ilnp.Nonce{Len: 12, Bytes: [12]byte{9, 8, 7, 6, 5, 4, 3, 2, 1, 0xa, 0xb, 0xc}}
	ourMAC     = make([]byte, 6) // the loopback device's, which the kernel has frames arrive on
	theirMAC   = []byte{2, 0, 0, 0, 0, 2}
)

// rig is a plane in a network namespace of its own. Its rings are read by the
// test itself, so that a test can say "no event" without waiting.
type rig struct {
	*Plane
	t    testing.TB
	size int // Options.Sessions
	dir  string
	tid  int
	urg  *ringbuf.Reader
	req  *ringbuf.Reader
	str  *ringbuf.Reader
	host HostSettings
}

// enclose puts the test's thread into a network namespace and a mount
// namespace of its own and returns a directory on a bpffs. The thread, and all
// of that with it, ends with the test.
func enclose(t testing.TB) string {
	t.Helper()
	testutil.NeedRoot(t)
	dir := t.TempDir()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		t.Fatalf("make namespaces: %v", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatalf("make mounts private: %v", err)
	}
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		t.Fatalf("mount bpffs: %v", err)
	}
	// The directory is removed in the test's own mount namespace.
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func newRig(t testing.TB) *rig { return newRigOf(t, 0) }

// newRigOf makes room for so many sessions.
func newRigOf(t testing.TB, sessions int) *rig {
	t.Helper()
	r := &rig{t: t, size: sessions, dir: enclose(t), tid: unix.Gettid()}
	r.begin()
	r.setHost(HostSettings{
		SessionPrefix: roam.DefaultSessionPrefix, NIDs: []roam.NID{ours}, ProbeID: 0x726d, NonceLength: 4, Device: loopback,
	})
	return r
}

// encapPort is that of control messages in UDP.
const encapPort = 6740

// open opens the plane, as a daemon does that starts.
func (r *rig) open() {
	r.t.Helper()
	p, err := Open(r.options())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, ring := range p.rings {
		r.must(ring.Close())
	}
	p.rings = nil
	r.use(p)
}

func (r *rig) options() Options {
	return Options{PinDir: r.dir + "/pins", Classic: hostnet.Classic{}, Sessions: r.size, EncapPort: encapPort}
}

// use makes a plane the rig's, whose rings nobody reads.
func (r *rig) use(p *Plane) {
	r.t.Helper()
	r.Plane = p
	r.urg, r.req, r.str = r.reader(p.objs.Urgent), r.reader(p.objs.Requests), r.reader(p.objs.Unvalidated)
}

func (r *rig) reader(m *ebpf.Map) *ringbuf.Reader {
	r.t.Helper()
	reader, err := ringbuf.NewReader(m)
	if err != nil {
		r.t.Fatal(err)
	}
	reader.SetDeadline(time.Unix(1, 0)) // in the past: never blocks
	return reader
}

func (r *rig) close() {
	r.urg.Close()
	r.str.Close()
	r.req.Close()
	r.Plane.Close()
}

// enter brings the thread of a subtest into the rig's network namespace.
func (r *rig) enter(t testing.TB) *rig {
	t.Helper()
	runtime.LockOSThread()
	f, err := os.Open("/proc/self/task/" + strconv.Itoa(r.tid) + "/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		t.Fatalf("enter namespace: %v", err)
	}
	sub := *r
	sub.t = t
	return &sub
}

func (r *rig) setHost(s HostSettings) {
	r.t.Helper()
	r.host = s
	r.must(r.SetHost(s))
}

// change sets something else of the host.
func (r *rig) change(what func(*HostSettings)) {
	r.t.Helper()
	s := r.host
	what(&s)
	r.setHost(s)
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// uplink makes locators of this host usable, all on the loopback link.
func (r *rig) uplink(ls ...roam.L64) {
	r.t.Helper()
	var es []UplinkEntry
	for _, l := range ls {
		es = append(es, UplinkEntry{Local: roam.LinkLocator{Link: loopback, L64: l}, Usable: true, MTU: 1500})
	}
	r.must(r.SetUplinks(es))
}

// entryFor is an established session between here and the given places.
func entryFor(remotes ...roam.L64) ilnp.Entry {
	p := ilnp.Entry{
		Key:      ilnp.SessionKey{Local: ours, Remote: theirs},
		State:    ilnp.Established,
		LocalNID: ours, RemoteNID: theirs,
		LocalNonce: ourNonce, RemoteNonce: theirNonce,
		Seq: 1,
	}
	for _, l := range remotes {
		p.Paths = append(p.Paths, ilnp.Path{Local: roam.LinkLocator{Link: loopback, L64: here}, Remote: l})
	}
	return p
}

func (r *rig) upsert(p ilnp.Entry) {
	r.t.Helper()
	r.must(r.Upsert(p, Turn{}))
}

// session is the session address of an alias.
func session(n roam.NID) roam.ILV { return roam.ILV{L64: roam.DefaultSessionPrefix, NID: n} }

func at(l roam.L64, n roam.NID) roam.ILV { return roam.ILV{L64: l, NID: n} }

// skbContext is struct __sk_buff, of which a test run may set a few fields.
type skbContext struct {
	_          [2]uint32
	Mark       uint32
	_          [6]uint32
	Arrived    uint32 // ingress_ifindex
	Ifindex    uint32
	_          [25]uint32
	_          [2]uint64 // flow_keys, tstamp
	_, GSOSegs uint32    // wire_len
	_          uint64    // sk
	GSOSize    uint32
	_          uint32
	_          uint64 // hwtstamp
}

// checksumComplete is BPF_F_TEST_SKB_CHECKSUM_COMPLETE: the packet has
// CHECKSUM_COMPLETE, and the run fails if it is not true any more afterwards.
const checksumComplete = 1 << 2

// run runs a program once on a packet that starts with its link-layer header.
func (r *rig) run(prog *ebpf.Program, frame []byte, set ...func(*ebpf.RunOptions)) (int, []byte) {
	r.t.Helper()
	verdict, out, err := tryRun(prog, frame, set...)
	if err != nil {
		r.t.Fatalf("run program: %v", err)
	}
	return verdict, out
}

func tryRun(prog *ebpf.Program, frame []byte, set ...func(*ebpf.RunOptions)) (int, []byte, error) {
	opts := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256)}
	for _, f := range set {
		f(&opts)
	}
	ret, err := prog.Run(&opts)
	return int(int32(ret)), opts.DataOut, err
}

// on makes the packet come in on another link.
func on(link roam.LinkID) func(*ebpf.RunOptions) {
	return func(o *ebpf.RunOptions) { o.Context = skbContext{Ifindex: uint32(link)} }
}

// egress sends an IPv6 packet through roam0.
func (r *rig) egress(p []byte, set ...func(*ebpf.RunOptions)) (int, []byte) {
	r.t.Helper()
	v, out := r.run(r.objs.IlnpSessionEgress, frame(p), set...)
	return v, out[ethLen:]
}

// ingress receives an IPv6 packet from an uplink.
func (r *rig) ingress(p []byte, set ...func(*ebpf.RunOptions)) (int, []byte) {
	r.t.Helper()
	v, out := r.run(r.objs.IlnpUplinkIngress, frame(p), set...)
	return v, out[ethLen:]
}

// frame puts an Ethernet header ahead of an IPv6 packet.
func frame(p []byte) []byte {
	f := append(append(append([]byte(nil), ourMAC...), theirMAC...), 0x86, 0xdd)
	return append(f, p...)
}

// events returns what the programs reported since the last call, urgent ones
// first.
func (r *rig) events() (all []Event) {
	r.t.Helper()
	for _, reader := range []*ringbuf.Reader{r.urg, r.req, r.str} {
		for {
			rec, err := reader.Read()
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				r.t.Fatalf("read ring: %v", err)
			}
			ev, ok := decodeEvent(rec.RawSample)
			if !ok {
				r.t.Fatalf("event of %d bytes cannot be read", len(rec.RawSample))
			}
			all = append(all, ev)
		}
	}
	return all
}

// kinds is which kinds of events came since the last call.
func (r *rig) kinds() (ks []EventKind) {
	r.t.Helper()
	for _, e := range r.events() {
		ks = append(ks, e.Kind)
	}
	return ks
}

type counts map[string]uint64

// counted returns by how much each counter grew while f ran.
func (r *rig) counted(f func()) counts {
	r.t.Helper()
	read := func() counts {
		cs, err := r.Counters()
		r.must(err)
		m := counts{}
		for _, c := range cs {
			m[c.Name] = c.Value
		}
		return m
	}
	before := read()
	f()
	diff := counts{}
	for name, v := range read() {
		if v != before[name] {
			diff[name] = v - before[name]
		}
	}
	return diff
}

// wantCounts fails the test unless exactly these counters grew by as much.
func (r *rig) wantCounts(what string, got, want counts) {
	r.t.Helper()
	if !maps.Equal(got, want) {
		r.t.Errorf("%s: counted %v, want %v", what, got, want)
	}
}

func (r *rig) wantKinds(what string, want ...EventKind) {
	r.t.Helper()
	if got := r.kinds(); !slices.Equal(got, want) {
		r.t.Errorf("%s: events %v, want %v", what, got, want)
	}
}

// packet makes an IPv6 packet; next is the type of the first header in body.
func packet(src, dst roam.ILV, next uint8, body []byte) []byte {
	h := ip6.Header{PayloadLen: uint16(len(body)), NextHeader: next, HopLimit: 61, Src: src.Addr(), Dst: dst.Addr()}
	b, err := h.AppendTo(nil)
	if err != nil {
		panic(err) // an address of ours that is none: a mistake in the test
	}
	b = append(b, body...)
	_ = ip6.FinishL4(b) // a fragment, or malformed on purpose: left as it is
	return b
}

// with puts a Destination Options header with a nonce ahead of body; the
// result goes with next = ip6.DestOpts.
func with(n ilnp.Nonce, next uint8, body []byte) []byte {
	b, err := n.AppendHeader(nil, next)
	if err != nil {
		panic(err)
	}
	return append(b, body...)
}

// tcp is a TCP header and n bytes of data.
func tcp(flags uint8, n int) []byte {
	b := make([]byte, 20+n)
	binary.BigEndian.PutUint16(b, 40000)
	binary.BigEndian.PutUint16(b[2:], 443)
	binary.BigEndian.PutUint32(b[4:], 0x1000)
	binary.BigEndian.PutUint32(b[8:], 0x2000)
	b[12], b[13] = 5<<4, flags
	fill(b[20:])
	return b
}

// udp is a UDP header and n bytes of data.
func udp(n int) []byte {
	b := make([]byte, 8+n)
	binary.BigEndian.PutUint16(b, 5000)
	binary.BigEndian.PutUint16(b[2:], 5001)
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
	fill(b[8:])
	return b
}

func fill(b []byte) {
	for i := range b {
		b[i] = byte(i*7 + 3)
	}
}

const (
	flagFIN = 0x01
	flagSYN = 0x02
	flagACK = 0x10
)

// fromPeer is a packet of the correspondent to us, with a nonce if there is
// one.
func fromPeer(place roam.L64, n ilnp.Nonce, proto uint8, body []byte) []byte {
	if !n.Present() {
		return packet(at(place, theirs), at(here, ours), proto, body)
	}
	return packet(at(place, theirs), at(here, ours), ip6.DestOpts, with(n, proto, body))
}

// toPeer is a packet of a local application.
func toPeer(proto uint8, body []byte) []byte {
	return packet(session(ours), session(theirs), proto, body)
}

func mustPacket(t testing.TB) func(b []byte, err error) []byte {
	return func(b []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// update is a Locator Update of the correspondent.
func update(t testing.TB, place roam.L64, n ilnp.Nonce) []byte {
	t.Helper()
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement,
		Locators: []ilnpwire.LocatorEntry{{L64: place, Preference: 10, Lifetime: 600}}}
	return mustPacket(t)(ilnpwire.BuildUpdate(at(place, theirs), at(here, ours), n, lu))
}

// echo is an echo message of the correspondent.
func echo(t testing.TB, place roam.L64, n ilnp.Nonce, request bool, id uint16) []byte {
	t.Helper()
	return mustPacket(t)(ilnpwire.BuildEcho(at(place, theirs), at(here, ours), n, request, id, 7, []byte("sixteen bytes...")))
}

// difference tells people where two packets begin to differ.
func difference(got, want []byte) string {
	if bytes.Equal(got, want) {
		return "packet as wanted"
	}
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	return fmt.Sprintf("%d bytes, want %d; from offset %d on\n%x, want\n%x", len(got), len(want), i,
		got[i:min(i+32, len(got))], want[i:min(i+32, len(want))])
}

// ip runs ip(8) in the namespaces of the test's thread.
func ip(t testing.TB, line string) string {
	t.Helper()
	out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v\n%s", line, err, out)
	}
	return string(out)
}

// wantLocal waits until the addresses can be reached: the kernel makes their
// routes a little after it has taken the address.
func wantLocal(t testing.TB, as ...netip.Addr) {
	t.Helper()
	testutil.Eventually(t, 5*time.Second, func() bool {
		routes := ip(t, "-6 route show table local")
		for _, a := range as {
			if !strings.Contains(routes, "local "+a.String()+" ") {
				return false
			}
		}
		return true
	}, "the kernel has routes to its addresses")
}
