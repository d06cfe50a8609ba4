package topo

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// killWithin bounds the wait for killed processes and for their cgroup. The kernel usually
// needs milliseconds; a loaded machine may need seconds.
const killWithin = 10 * time.Second

// Host is one network namespace with its processes and files.
type Host struct {
	lab    *Lab
	name   string
	netns  *os.File
	nl     *netlink.Handle
	cgroup string
	cgFile *os.File // open for as long as processes are put into it
	dir    string

	mu     sync.Mutex
	closed bool
	net    *worker // starts commands
	app    *worker // starts commands with the host's own resolver files
}

// newHost creates a host, or nothing if it fails.
func newHost(l *Lab, name string, netns func(id string) (*os.File, error)) (h *Host, err error) {
	h = &Host{lab: l, name: name}
	h.cgroup = filepath.Join(l.cgRoot, h.ID())
	h.dir = filepath.Join(StateDir, l.name, name)
	defer func() {
		if err != nil {
			err = errors.Join(err, h.remove())
		}
	}()
	if h.netns, err = netns(h.ID()); err != nil {
		return nil, err
	}
	if err = os.Mkdir(h.cgroup, 0o755); err != nil {
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	if h.cgFile, err = os.Open(h.cgroup); err != nil {
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	if err = h.makeFiles(); err != nil {
		return nil, err
	}
	err = h.Do(func() (err error) {
		h.nl, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return h, h.SetUp("lo")
}

// makeFiles makes the host's directory with the files that applications see
// as /etc/resolv.conf and /etc/hosts.
func (h *Host) makeFiles() error {
	if err := os.MkdirAll(h.dir, 0o755); err != nil {
		return fmt.Errorf("make directory of host: %w", err)
	}
	for path, text := range map[string]string{
		h.ResolvConf(): "",
		h.HostsFile():  "127.0.0.1 localhost\n::1 localhost\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return fmt.Errorf("write file of host: %w", err)
		}
	}
	return nil
}

// Name returns the name given to Lab.Host.
func (h *Host) Name() string { return h.name }

// ID returns the name of the namespace and of the cgroup, unique on the
// machine.
func (h *Host) ID() string { return h.lab.name + "-" + h.name }

// Cgroup returns the path of the host's cgroup2 directory.
func (h *Host) Cgroup() string { return h.cgroup }

// Dir returns a directory for the host's files. Close unmounts everything below it and
// removes it.
func (h *Host) Dir() string { return h.dir }

// ResolvConf returns the path of the file that is /etc/resolv.conf for AppCommand. A daemon
// on this host may rewrite or replace it; applications started later see the new file.
func (h *Host) ResolvConf() string { return filepath.Join(h.dir, "resolv.conf") }

// HostsFile returns the path of the file that is /etc/hosts for AppCommand.
func (h *Host) HostsFile() string { return filepath.Join(h.dir, "hosts") }

// SetResolver makes addr the only name server of the host's applications.
func (h *Host) SetResolver(addr netip.Addr) error {
	text := fmt.Sprintf("nameserver %s\n", addr)
	if err := os.WriteFile(h.ResolvConf(), []byte(text), 0o644); err != nil {
		return fmt.Errorf("set resolver of %s: %w", h.name, err)
	}
	return nil
}

// AddName appends a name to the host's /etc/hosts.
func (h *Host) AddName(addr netip.Addr, names ...string) error {
	f, err := os.OpenFile(h.HostsFile(), os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("add name on %s: %w", h.name, err)
	}
	_, err = fmt.Fprintf(f, "%s %s\n", addr, strings.Join(names, " "))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("add name on %s: %w", h.name, err)
	}
	return nil
}

// Sysctl sets a kernel parameter inside the namespace. The key has dots, or
// slashes where the name of an interface has a dot in it.
func (h *Host) Sysctl(key, value string) error {
	path := sysctlPath(key)
	err := h.Do(func() error { return os.WriteFile(path, []byte(value), 0) })
	if err != nil {
		return fmt.Errorf("set %s on %s: %w", key, h.name, err)
	}
	return nil
}

// GetSysctl reads a kernel parameter inside the namespace.
func (h *Host) GetSysctl(key string) (string, error) {
	var b []byte
	err := h.Do(func() (err error) {
		b, err = os.ReadFile(sysctlPath(key))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("get %s on %s: %w", key, h.name, err)
	}
	return strings.TrimSpace(string(b)), nil
}

// sysctlPath turns a key in either form into the name of its file.
func sysctlPath(key string) string {
	if !strings.Contains(key, "/") {
		key = strings.ReplaceAll(key, ".", "/")
	}
	return filepath.Join("/proc/sys", key)
}

// Forward makes the host forward IPv6 and disables duplicate address detection, which would
// only delay the set-up by a second. Call it before adding interfaces.
func (h *Host) Forward() error {
	for _, kv := range [][2]string{
		{"net.ipv6.conf.all.forwarding", "1"},
		{"net.ipv6.conf.default.forwarding", "1"},
		{"net.ipv6.conf.all.accept_dad", "0"},
		{"net.ipv6.conf.default.accept_dad", "0"},
	} {
		if err := h.Sysctl(kv[0], kv[1]); err != nil {
			return err
		}
	}
	return nil
}

// kill kills all processes of the host: those in its cgroup, and others in its namespace.
func (h *Host) kill() error {
	h.stopWorkers() // or a process might start behind our back
	return errors.Join(killCgroup(h.cgroup, killWithin), killInNetns(h.ID()))
}

// remove undoes newHost, even a partial one.
func (h *Host) remove() error {
	if h.nl != nil {
		h.nl.Close()
	}
	if h.cgFile != nil {
		_ = h.cgFile.Close()
	}
	err := errors.Join(
		removeFiles(h.dir),
		removeNetns(h.ID()),
		removeCgroup(h.cgroup, killWithin))
	if h.netns != nil {
		_ = h.netns.Close()
	}
	return err
}
