package topo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Advert is the content of a router's advertisements on one interface (RFC 4861 §6.2.1).
// Durations are whole seconds, unless stated otherwise; a zero value selects the default.
type Advert struct {
	Interface string
	// Prefix is the /64 for SLAAC.
	Prefix netip.Prefix
	// MinInterval and MaxInterval bound the time between two unsolicited advertisements.
	// Defaults: 1 s and 4 s. The least values are those for routers that mobile nodes
	// visit, 30 and 70 ms (RFC 6275 §7.5); MinInterval is at most 3/4 of MaxInterval.
	MinInterval, MaxInterval time.Duration
	// Preferred and Valid are the lifetimes of the prefix: 1800 s, 3600 s.
	Preferred, Valid time.Duration
	// RouterLifetime is how long hosts use this default router: 1800 s; a
	// negative value advertises 0, not a default router.
	RouterLifetime time.Duration
	// MinDelayBetweenRAs is the least time between two multicast advertisements, including
	// answers to solicitations. Default: 30 ms (RFC 6275 §7.5). With the 3 s of RFC 4861 a
	// returning host would wait up to 3 s.
	MinDelayBetweenRAs time.Duration
	// MTU is the link MTU to advertise; 0 advertises none.
	MTU int
}

// Router is a radvd on a host.
type Router struct {
	host *Host
	conf string
	pid  string

	mu    sync.Mutex
	cmd   *Cmd
	ended chan struct{} // closed when cmd has ended
	log   *watcher      // radvd's output
}

// startWithin bounds the wait for radvd, and for tcpdump, to be ready.
const startWithin = 10 * time.Second

// Router makes the host a router: it forwards, and runs its own radvd. The interfaces must
// exist and be up. A host has at most one Router.
func (h *Host) Router(adverts ...Advert) (*Router, error) {
	if err := h.Forward(); err != nil {
		return nil, err
	}
	r := &Router{
		host: h,
		conf: filepath.Join(h.dir, "radvd.conf"),
		pid:  filepath.Join(h.dir, "radvd.pid"),
	}
	if err := r.write(adverts); err != nil {
		return nil, err
	}
	return r, r.Start()
}

// write replaces radvd's configuration.
func (r *Router) write(adverts []Advert) error {
	var b strings.Builder
	for _, a := range adverts {
		a = a.withDefaults()
		if err := a.check(); err != nil {
			return fmt.Errorf("advertise on %s of %s: %w", a.Interface, r.host.name, err)
		}
		b.WriteString(a.conf())
	}
	if err := os.WriteFile(r.conf, []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("configure radvd of %s: %w", r.host.name, err)
	}
	return nil
}

// withDefaults replaces zero values by the defaults.
func (a Advert) withDefaults() Advert {
	fill := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	fill(&a.MinInterval, time.Second)
	fill(&a.MaxInterval, 4*time.Second)
	fill(&a.Preferred, 1800*time.Second)
	fill(&a.Valid, 3600*time.Second)
	fill(&a.RouterLifetime, 1800*time.Second)
	fill(&a.MinDelayBetweenRAs, 30*time.Millisecond)
	a.RouterLifetime = max(0, a.RouterLifetime)
	return a
}

// check refuses values that radvd would only log, and then ignore the interface.
func (a Advert) check() error {
	switch {
	case !a.Prefix.Addr().Is6() || a.Prefix.Bits() != 64 || a.Prefix != a.Prefix.Masked():
		return fmt.Errorf("prefix %v is not an IPv6 /64", a.Prefix)
	case a.MaxInterval < 70*time.Millisecond || a.MaxInterval > 1800*time.Second:
		return fmt.Errorf("maximum interval of %v", a.MaxInterval)
	case a.MinInterval < 30*time.Millisecond || a.MinInterval > a.MaxInterval*3/4:
		return fmt.Errorf("minimum interval of %v with a maximum of %v", a.MinInterval, a.MaxInterval)
	case a.MinDelayBetweenRAs < 30*time.Millisecond:
		return fmt.Errorf("%v between advertisements", a.MinDelayBetweenRAs)
	case a.Preferred > a.Valid:
		return fmt.Errorf("preferred for %v, valid for only %v", a.Preferred, a.Valid)
	case a.RouterLifetime > 0 && a.RouterLifetime < a.MaxInterval:
		return fmt.Errorf("router lifetime of %v is below the interval of %v", a.RouterLifetime, a.MaxInterval)
	}
	return nil
}

// conf is the section of radvd.conf(5) for one interface.
func (a Advert) conf() string {
	var b strings.Builder
	fmt.Fprintf(&b, "interface %s {\n\tAdvSendAdvert on;\n", a.Interface)
	// The Advertisement Interval option (RFC 6275 §7.3) makes radvd accept the intervals of
	// RFC 6275; without it none may be below 3 s.
	b.WriteString("\tAdvIntervalOpt on;\n")
	fmt.Fprintf(&b, "\tMinRtrAdvInterval %.3f;\n\tMaxRtrAdvInterval %.3f;\n\tMinDelayBetweenRAs %.3f;\n",
		a.MinInterval.Seconds(), a.MaxInterval.Seconds(), a.MinDelayBetweenRAs.Seconds())
	fmt.Fprintf(&b, "\tAdvDefaultLifetime %d;\n", a.RouterLifetime/time.Second)
	if a.MTU > 0 {
		fmt.Fprintf(&b, "\tAdvLinkMTU %d;\n", a.MTU)
	}
	fmt.Fprintf(&b, "\tprefix %s {\n\t\tAdvValidLifetime %d;\n\t\tAdvPreferredLifetime %d;\n\t};\n};\n",
		a.Prefix, a.Valid/time.Second, a.Preferred/time.Second)
	return b.String()
}

// Start starts radvd, unless it runs, and waits until it is ready.
func (r *Router) Start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd != nil {
		return nil
	}
	if err := os.Remove(r.pid); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("start radvd on %s: %w", r.host.name, err)
	}
	c := r.host.Command(context.Background(), sbin("radvd"), "-n", "-C", r.conf, "-p", r.pid, "-m", "stderr")
	r.log = &watcher{}
	c.Stderr = r.log
	if err := c.Start(); err != nil {
		return fmt.Errorf("start radvd on %s: %w", r.host.name, err)
	}
	r.cmd, r.ended = c, make(chan struct{})
	go func(ended chan struct{}) { _ = c.Wait(); close(ended) }(r.ended)
	err := wait(startWithin, func() bool {
		b, err := os.ReadFile(r.pid)
		return err == nil && len(bytes.TrimSpace(b)) > 0 || over(r.ended)
	})
	if err == nil && !over(r.ended) {
		return nil
	}
	_ = c.Process.Kill()
	<-r.ended
	r.cmd = nil
	return fmt.Errorf("start radvd on %s: it does not run: %s", r.host.name, tail([]byte(r.log.text()), 500))
}

// Stop ends radvd in good order: its last advertisement has a router lifetime of 0, so that
// hosts remove the router.
func (r *Router) Stop() error { return r.end(syscall.SIGTERM) }

// Kill ends radvd without a last advertisement, like a failing router.
func (r *Router) Kill() error { return r.end(syscall.SIGKILL) }

func (r *Router) end(sig syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil {
		return nil
	}
	if err := r.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop radvd on %s: %w", r.host.name, err)
	}
	if wait(killWithin, func() bool { return over(r.ended) }) != nil {
		return fmt.Errorf("stop radvd on %s: it goes on", r.host.name)
	}
	r.cmd = nil
	return nil
}

// Set changes the advertisements; radvd sends new ones at once. It does not withdraw
// omitted prefixes from the hosts; those expire.
func (r *Router) Set(adverts ...Advert) error {
	if err := r.write(adverts); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil {
		return nil
	}
	if err := r.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		return fmt.Errorf("reload radvd on %s: %w", r.host.name, err)
	}
	return nil
}

// over reports whether a channel has been closed.
func over(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// sbin finds a tool that the PATH of an ordinary account leaves out.
func sbin(tool string) string {
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if path := filepath.Join(dir, tool); executable(path) {
			return path
		}
	}
	return tool
}

// Program returns the path of a program, searching also directories outside the PATH of an
// ordinary account; the name itself if it finds none.
func Program(tool string) string { return sbin(tool) }

// Installed reports whether a program is installed.
func Installed(tool string) bool {
	_, err := exec.LookPath(sbin(tool))
	return err == nil
}

func executable(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
}
