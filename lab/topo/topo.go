// Package topo builds the topologies of experiments: network namespaces that act as hosts
// and routers, the links between them, and the processes inside.
//
// It implements named namespaces with a child cgroup each, veth pairs and emulated links
// (lab/linkem), addresses and routes, kernel routers with radvd, applications with a
// resolver of their own, captures, and a complete clean-up, which includes the remains of
// killed runs. It omits measuring. It is driven by experiments and by tests; all of it
// needs root.
//
// It creates interfaces in their final namespaces, never in the caller's, so their names
// need to be unique per host only.
package topo

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"

	"roam/lab/linkem"
)

// Lab is one topology. Its methods may be called from any goroutine.
type Lab struct {
	name   string
	cgRoot string // where cgroup2 is mounted

	mu     sync.Mutex
	hosts  []*Host
	links  []*linkem.Link
	closed bool
}

// nameRE bounds the names of labs and hosts: they become parts of file names,
// and a dash separates them.
var nameRE = regexp.MustCompile(`^[a-z0-9]{1,16}$`)

// New starts an empty topology. The name (1 to 16 lower-case letters and digits)
// distinguishes topologies of one process. New records the process in StateDir, so that
// Sweep knows the objects of live processes.
func New(name string) (*Lab, error) {
	if !nameRE.MatchString(name) {
		return nil, fmt.Errorf("name of lab %q: want 1 to 16 of a-z and 0-9", name)
	}
	root, err := cgroupRoot()
	if err != nil {
		return nil, err
	}
	l := &Lab{name: fmt.Sprintf("%s%d-%s", prefix, os.Getpid(), name), cgRoot: root}
	if err := register(l); err != nil {
		return nil, err
	}
	return l, nil
}

// Name returns the common prefix of the names of all namespaces and cgroups of this
// topology.
func (l *Lab) Name() string { return l.name }

// Host adds a host: a network namespace with loopback up, a cgroup, and a directory for its
// files. Names follow the rules for labs and are unique in the lab.
func (l *Lab) Host(name string) (*Host, error) { return l.host(name, makeNetns) }

// Here adds the caller's own host with its existing links, for a machine that serves the
// lab alone. Close removes only the lab's own objects.
func (l *Lab) Here(name string) (*Host, error) {
	return l.host(name, func(string) (*os.File, error) { return os.Open(threadNetns()) })
}

// host adds a host in the network namespace that netns opens.
func (l *Lab) host(name string, netns func(id string) (*os.File, error)) (*Host, error) {
	if !nameRE.MatchString(name) {
		return nil, fmt.Errorf("name of host %q: want 1 to 16 of a-z and 0-9", name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fmt.Errorf("add host %s: %w", name, errClosed)
	}
	for _, h := range l.hosts {
		if h.name == name {
			return nil, fmt.Errorf("add host %s: it exists", name)
		}
	}
	h, err := newHost(l, name, netns)
	if err != nil {
		return nil, fmt.Errorf("add host %s: %w", name, err)
	}
	l.hosts = append(l.hosts, h)
	return h, nil
}

// Close stops every process of the lab, closes its links and removes its namespaces,
// cgroups and files. It returns all errors, after everything is removed. A second call does
// nothing.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	var errs []error
	// Kill all processes first: a daemon that sees links vanish one by one would spend the
	// time on handoffs.
	for _, h := range l.hosts {
		errs = append(errs, h.kill())
	}
	for _, k := range l.links {
		errs = append(errs, k.Close())
	}
	for _, h := range l.hosts {
		errs = append(errs, h.remove())
	}
	if err := os.RemoveAll(filepath.Join(StateDir, l.name)); err != nil {
		errs = append(errs, fmt.Errorf("remove files of lab: %w", err))
	}
	errs = append(errs, unregister(l))
	return errors.Join(errs...)
}

// CloseOnSignal closes all labs of this process on SIGINT or SIGTERM and exits with status 128
// plus the signal's number. From the signal on New fails. After stop, signals end the process
// as usual.
func CloseOnSignal() (stop func()) {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGINT, syscall.SIGTERM)
	quit := make(chan struct{})
	go func() {
		select {
		case s := <-ch:
			if err := closeAll(); err != nil {
				fmt.Fprintln(os.Stderr, "close lab:", err)
			}
			code := 128
			if n, ok := s.(syscall.Signal); ok {
				code += int(n)
			}
			os.Exit(code)
		case <-quit:
		}
	}()
	var once sync.Once
	return func() { once.Do(func() { signal.Stop(ch); close(quit) }) }
}
