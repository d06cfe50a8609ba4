package cc

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"roam/structops"
)

// ErrUnknown is wrapped by errors about a congestion control that neither the
// kernel nor this package has.
var ErrUnknown = errors.New("no such congestion control")

// programs holds the loaders of the congestion controls that this package can register.
var programs = map[string]func() (*ebpf.CollectionSpec, error){
	"hybla": loadHybla,
	"veno":  loadVeno,
}

// Control is a congestion control that sockets of the whole machine can name
// until Close.
type Control struct {
	Name      string // as in the publication, such as "hybla"
	Algorithm string // the name for TCP_CONGESTION

	ours *structops.Control // nil for the kernel's own
}

// Open finds a congestion control by its published name: the kernel's, as module or built
// in, or else our own under a name with this process's number, so that names cannot clash.
func Open(name string) (*Control, error) {
	has, err := kernelHas(name)
	if err != nil {
		return nil, err
	}
	if has {
		return &Control{Name: name, Algorithm: name}, nil
	}
	return register(name, false)
}

// kernelHas asks the kernel, which loads a module if available.
func kernelHas(name string) (bool, error) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("ask for congestion control: %w", err)
	}
	defer unix.Close(fd)
	err = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return false, fmt.Errorf("ask for congestion control %s: %w", name, err)
	}
	return err == nil, nil
}

// register registers our own program. With traced, it records every call.
func register(name string, traced bool) (*Control, error) {
	if err := Sweep(); err != nil {
		return nil, err
	}
	load, ok := programs[name]
	if !ok {
		return nil, fmt.Errorf("open %q: %w", name, ErrUnknown)
	}
	spec, err := load()
	if err != nil {
		return nil, err
	}
	if traced {
		if err := spec.Variables["traced"].Set(uint32(1)); err != nil {
			return nil, fmt.Errorf("turn on the record: %w", err)
		}
	}
	c := &Control{Name: name, Algorithm: fmt.Sprintf("%s_%d", name, os.Getpid())}
	c.ours, err = structops.Register(spec, name, c.Algorithm, nil)
	return c, err
}

// Ours reports whether this package has registered it: it is not the kernel's own.
func (c *Control) Ours() bool { return c.ours != nil }

// Close unregisters our own congestion control. Connections that use it keep it until they
// end.
func (c *Control) Close() error {
	if c.ours == nil {
		return nil
	}
	if err := c.ours.Close(); err != nil {
		return fmt.Errorf("remove congestion control %s: %w", c.Algorithm, err)
	}
	return nil
}

// oursRE matches our registrations; the number is the process id.
var oursRE = regexp.MustCompile(`^(?:hybla|veno)_(\d+)$`)

// Sweep removes the registrations of processes that have ended. Only kernels without links
// of struct_ops (before 6.4) keep such.
func Sweep() error {
	for id := ebpf.MapID(0); ; {
		next, err := ebpf.MapGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for congestion controls left behind: %w", err)
		}
		id = next
		if err := sweepMap(id); err != nil {
			return fmt.Errorf("remove a congestion control left behind: %w", err)
		}
	}
}

func sweepMap(id ebpf.MapID) error {
	m, err := ebpf.NewMapFromID(id)
	if err != nil {
		return nil //nolint:nilerr // it was removed after the listing
	}
	defer m.Close()
	info, err := m.Info()
	if err != nil || info.Type != ebpf.StructOpsMap {
		return err
	}
	found := oursRE.FindStringSubmatch(info.Name)
	if found == nil || alive(found[1]) || m.Flags()&structops.Linked != 0 {
		return nil
	}
	if err := m.Delete(uint32(0)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	return nil
}

func alive(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err == nil && !errors.Is(unix.Kill(n, 0), unix.ESRCH)
}

// Available lists the congestion controls that the kernel has at this moment.
func Available() ([]string, error) {
	b, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		return nil, fmt.Errorf("list congestion controls: %w", err)
	}
	return strings.Fields(string(b)), nil
}
