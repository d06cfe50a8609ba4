package ilnphost

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/dataplane"
)

// Literals turns sockets that were given a real address of a correspondent to
// its session address. It covers the sockets of one cgroup, in the network
// namespace of the thread that called OpenLiterals.
type Literals struct {
	objs literalObjects
	set  map[roam.ILV]roam.NID
}

// literalHook is one of the hooks, with its program if that is loaded.
type literalHook struct {
	name string
	at   ebpf.AttachType
	prog *ebpf.Program
}

// literalHooks returns the hooks in the order in which they are attached.
func literalHooks(o *literalObjects) []literalHook {
	return []literalHook{
		{"connect6", ebpf.AttachCGroupInet6Connect, o.LiteralConnect6},
		{"sendmsg6", ebpf.AttachCGroupUDP6Sendmsg, o.LiteralSendmsg6},
		{"recvmsg6", ebpf.AttachCGroupUDP6Recvmsg, o.LiteralRecvmsg6},
		{"getpeername6", ebpf.AttachCgroupInet6GetPeername, o.LiteralGetpeername6},
		{"getsockname6", ebpf.AttachCgroupInet6GetSockname, o.LiteralGetsockname6},
	}
}

// literalPin returns where the attachment of a hook is pinned.
func literalPin(pinDir, hook string) string { return filepath.Join(pinDir, setName, "link_"+hook) }

// OpenLiterals loads the hooks and attaches them to the cgroup, in place of
// those that an earlier process pinned.
func OpenLiterals(pinDir, cgroup string, prefix roam.L64) (*Literals, error) {
	setDir := filepath.Join(pinDir, setName)
	if err := os.MkdirAll(setDir, 0o700); err != nil {
		return nil, fmt.Errorf("make pin directory: %w", err)
	}
	spec, err := loadLiteral()
	if err != nil {
		return nil, fmt.Errorf("read embedded eBPF object: %w", err)
	}
	p := half(uint64(prefix))
	if err := spec.Variables["session_prefix"].Set(binary.NativeEndian.Uint64(p.B[:])); err != nil {
		return nil, fmt.Errorf("set session prefix: %w", err)
	}
	if err := spec.Variables["netns_cookie"].Set(netnsCookie()); err != nil {
		return nil, fmt.Errorf("set network namespace: %w", err)
	}
	l := &Literals{set: make(map[roam.ILV]roam.NID)}
	if err := spec.LoadAndAssign(&l.objs, &ebpf.CollectionOptions{Maps: ebpf.MapOptions{PinPath: setDir}}); err != nil {
		return nil, fmt.Errorf("load hooks for literal addresses: %w", err)
	}
	for _, h := range literalHooks(&l.objs) {
		if err := dataplane.AttachCgroup(literalPin(pinDir, h.name), cgroup, h.at, h.prog); err != nil {
			l.objs.Close()
			return nil, fmt.Errorf("attach %s to %s: %w", h.name, cgroup, err)
		}
	}
	if err := l.adopt(); err != nil {
		l.objs.Close()
		return nil, err
	}
	return l, nil
}

// DetachLiterals detaches the hooks that an earlier process pinned; the kernel does it in the background.
// Sockets that they have given a session address keep that.
func DetachLiterals(pinDir string) error {
	var errs []error
	for _, h := range literalHooks(&literalObjects{}) {
		if err := os.Remove(literalPin(pinDir, h.name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("detach hook for literal addresses: %w", err))
		}
	}
	return errors.Join(errs...)
}

// adopt reads what an earlier process listed.
func (l *Literals) adopt() error {
	var key literalAddr
	var val literalHalf
	it := l.objs.Literals.Iterate()
	for it.Next(&key, &val) {
		at := roam.ILV{L64: roam.L64(binary.BigEndian.Uint64(key.L64.B[:])), NID: roam.NID(binary.BigEndian.Uint64(key.Nid.B[:]))}
		l.set[at] = roam.NID(binary.BigEndian.Uint64(val.B[:]))
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("read table of literal addresses: %w", err)
	}
	return nil
}

// Set makes the table equal to want: real addresses and the alias of each. When
// it is full the others are left out.
func (l *Literals) Set(want map[roam.ILV]roam.NID) error {
	var errs []error
	for at := range l.set {
		if _, keep := want[at]; !keep {
			key := literalKey(at)
			if err := l.objs.Literals.Delete(&key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				errs = append(errs, fmt.Errorf("forget literal address %s: %w", at.Addr(), err))
			}
			delete(l.set, at)
		}
	}
	full := false
	for at, alias := range want {
		if old, listed := l.set[at]; listed && old == alias || full && !listed {
			continue
		}
		key, val := literalKey(at), literalHalf{}
		binary.BigEndian.PutUint64(val.B[:], uint64(alias))
		err := l.objs.Literals.Put(&key, &val)
		if errors.Is(err, unix.E2BIG) {
			full = true
			errs = append(errs, fmt.Errorf("note literal addresses: space for %d of %d", len(l.set), len(want)))
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("note literal address %s: %w", at.Addr(), err))
			continue
		}
		l.set[at] = alias
	}
	return errors.Join(errs...)
}

// Listed reports whether the table has a real address.
func (l *Literals) Listed(at roam.ILV) bool {
	_, listed := l.set[at]
	return listed
}

func literalKey(at roam.ILV) (k literalAddr) {
	binary.BigEndian.PutUint64(k.L64.B[:], uint64(at.L64))
	binary.BigEndian.PutUint64(k.Nid.B[:], uint64(at.NID))
	return k
}

// Close lets go of the hooks; they stay attached.
func (l *Literals) Close() error { return l.objs.Close() }

// netnsCookie identifies the network namespace, 0 where the kernel (before
// 5.14) does not tell.
func netnsCookie() uint64 {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	v, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0
	}
	return v
}
