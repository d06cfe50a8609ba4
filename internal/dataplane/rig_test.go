package dataplane

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/hostnet"
	"roam/internal/testutil"
)

// etherType is one for experiments (IEEE 802): nobody else sends such frames.
const etherType = 0x88b5

// rig is a network namespace with two ends of a link, a bpffs, and a trace of the
// programs that a frame went through.
type rig struct {
	t         *testing.T
	dir       string
	near, far *net.Interface
	trace     *ebpf.Map
	raw       int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	testutil.NeedRoot(t)
	testutil.Need(t, "ip")
	r := &rig{t: t, dir: t.TempDir()}
	// Never unlocked: the thread and its namespaces end with the test.
	runtime.LockOSThread()
	r.must(unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_FS))
	r.must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	r.must(unix.Mount("bpf", r.dir, "bpf", 0, ""))
	t.Cleanup(func() { unix.Unmount(r.dir, unix.MNT_DETACH) })
	a, b := fmt.Sprint("a", os.Getpid()), fmt.Sprint("b", os.Getpid())
	r.ip("link add " + a + " type veth peer name " + b)
	r.ip("link set " + b + " up")
	r.ip("link set " + a + " up")
	testutil.Eventually(t, 5*time.Second, func() bool {
		var err error
		r.near, err = net.InterfaceByName(a)
		r.must(err)
		r.far, err = net.InterfaceByName(b)
		r.must(err)
		return r.near.Flags&r.far.Flags&net.FlagRunning != 0
	}, "both ends have carrier")
	var err error
	r.raw, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	r.must(err)
	r.trace, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	r.must(err)
	t.Cleanup(func() { unix.Close(r.raw); r.trace.Close() })
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) ip(line string) {
	r.t.Helper()
	if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
		r.t.Fatalf("ip %s: %v\n%s", line, err, out)
	}
}

// link is the link that the programs are on.
func (r *rig) link() roam.LinkID { return roam.LinkID(r.near.Index) }

// object is what a set of the test has: the number of its layout, a table that is
// pinned, and a program that appends its digit to the trace.
type object struct {
	Table *ebpf.Map     `ebpf:"table"`
	Mark  *ebpf.Program `ebpf:"test_mark"`
}

func (o *object) close() {
	o.Table.Close()
	o.Mark.Close()
}

// spec returns an object whose program appends a digit, and whose table has values of
// that size.
func (r *rig) spec(digit int32, size uint32) *ebpf.CollectionSpec {
	array := func(name string, size uint32) *ebpf.MapSpec {
		return &ebpf.MapSpec{Name: name, Type: ebpf.Array, KeySize: 4, ValueSize: size, MaxEntries: 1, Pinning: ebpf.PinByName}
	}
	const protocolAt = 16 // of struct __sk_buff
	return &ebpf.CollectionSpec{
		Maps: map[string]*ebpf.MapSpec{abiMap: array(abiMap, 4), "table": array("table", size)},
		Programs: map[string]*ebpf.ProgramSpec{"test_mark": {
			Name: "test_mark", Type: ebpf.SchedCLS, License: "GPL",
			Instructions: asm.Instructions{
				asm.LoadMem(asm.R2, asm.R1, protocolAt, asm.Word),
				asm.JNE.Imm(asm.R2, int32(etherType>>8|etherType&0xff<<8), "pass"),
				asm.StoreImm(asm.RFP, -4, 0, asm.Word),
				asm.Mov.Reg(asm.R2, asm.RFP),
				asm.Add.Imm(asm.R2, -4),
				asm.LoadMapPtr(asm.R1, r.trace.FD()),
				asm.FnMapLookupElem.Call(),
				asm.JEq.Imm(asm.R0, 0, "pass"),
				asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
				asm.LSh.Imm(asm.R1, 4),
				asm.Add.Imm(asm.R1, digit),
				asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
				asm.Mov.Imm(asm.R0, -1).WithSymbol("pass"),
				asm.Return(),
			},
		}},
	}
}

// open opens a set and loads its object, as a process does that starts.
func (r *rig) open(opts Options, abi uint32, spec *ebpf.CollectionSpec) (*Set, *object) {
	r.t.Helper()
	opts.Dir, opts.Classic = r.dir+"/pins", hostnet.Classic{}
	if opts.Places == nil {
		opts.Places = map[string]int{"one": 1, "two": 2, flatSet: 0}
	}
	s, err := Open(opts)
	r.must(err)
	o := &object{}
	r.must(s.Load(spec, abi, o))
	return s, o
}

// attach puts a set's program on both directions of the link.
func (r *rig) attach(s *Set, o *object) {
	r.t.Helper()
	r.must(s.AttachLink(r.link(), true, o.Mark))
	r.must(s.AttachLink(r.link(), false, o.Mark))
}

// passed sends a frame through the link and returns the digits that it collects there,
// of so many programs; another one as long as there are more, since the kernel lets go of
// a link a little after its last pin.
func (r *rig) passed(ingress bool, programs int) (digits string) {
	r.t.Helper()
	send := func() {
		r.must(r.trace.Put(uint32(0), uint64(0)))
		from, to := r.near, r.far
		if ingress {
			from, to = r.far, r.near
		}
		frame := make([]byte, 60)
		copy(frame, to.HardwareAddr)
		copy(frame[6:], from.HardwareAddr)
		frame[12], frame[13] = etherType>>8, etherType&0xff
		r.must(unix.Sendto(r.raw, frame, 0, &unix.SockaddrLinklayer{Ifindex: from.Index}))
	}
	send()
	testutil.Eventually(r.t, 5*time.Second, func() bool {
		var trace uint64
		r.must(r.trace.Lookup(uint32(0), &trace))
		digits = fmt.Sprintf("%x", trace)
		if len(digits) > programs {
			send()
		}
		return len(digits) == programs && trace != 0
	}, "the frame has passed all programs")
	return digits
}
