package doctor

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"roam/internal/config"
	"roam/internal/control"
)

func lookDaemon(e *examination, f Facts) {
	if !f.Root {
		e.add(Note, "rights", "sudo roam doctor", "not root: firewall rules and some settings cannot be read")
	}
	if f.ConfigFault != "" {
		e.add(Fault, "daemon", "correct it; `roam config check` names every fault", "the configuration cannot be used: %s",
			f.ConfigFault)
	}
	lookPending(e, f.Pending)
	s := f.Daemon
	if s == nil {
		e.add(Fault, "daemon", "roam up", "the daemon does not answer: %s", f.DaemonError)
		return
	}
	for _, w := range s.Warnings {
		if len(s.Faults) > 0 && w == control.SkippedWarning(s.Faults) {
			continue // lookHosts names each, from the files as they are now
		}
		if isRoleWarning(s.Roles, w) {
			continue // lookRoles has it
		}
		e.add(Warning, "daemon", "", "a part of the daemon has failed: %s", w)
	}
	for _, n := range s.Notes {
		e.add(Note, "config", "", "%s", n)
	}
	if f.Incomplete != "" {
		e.add(Fault, "daemon", "run `roam doctor` again; if that does not help, look at the daemon's log",
			"the daemon answered only in part: %s; what depends on the rest is not checked", f.Incomplete)
	}
	if f.Version != s.Version {
		e.add(Warning, "daemon", "restart the daemon: `systemctl restart roamd`; sessions go on",
			"roam is %s and the running roamd is %s", f.Version, s.Version)
	}
	if e.clean("daemon") {
		e.ok("daemon", "roamd %s runs as %v", s.Version, s.NID)
	}
}

// lookPending names the keys of the file that the daemon has not taken.
func lookPending(e *examination, list []config.Change) {
	for _, wait := range []struct {
		restart  bool
		what, do string
	}{
		{true, "waits for a restart", "restart the daemon: `systemctl restart roamd`"},
		{false, "waits for a reload", "roam config reload"},
	} {
		var changes []string
		for _, c := range list {
			if c.Restart == wait.restart {
				changes = append(changes, c.String())
			}
		}
		if n := len(changes); n > mostLines {
			changes = append(changes[:mostLines], fmt.Sprintf("%d more keys", n-mostLines))
		}
		if len(changes) > 0 {
			e.add(Note, "config", wait.do, "a change of the configuration %s: %s", wait.what, strings.Join(changes, "; "))
		}
	}
}

// Least kernel releases.
var (
	leastKernel = [2]int{5, 15} // the data plane is built for
	tcxKernel   = [2]int{6, 6}
)

func lookKernel(e *examination, f Facts) {
	var v [2]int
	if _, err := fmt.Sscanf(f.Kernel, "%d.%d", &v[0], &v[1]); err != nil {
		e.add(Note, "kernel", "", "the kernel's release %q cannot be read", f.Kernel)
		return
	}
	if slices.Compare(v[:], leastKernel[:]) < 0 {
		e.add(Fault, "kernel", "use a newer one", "Linux %s lacks what the data plane needs: ring buffers and cgroup hooks "+
			"of Linux %d.%d", f.Kernel, leastKernel[0], leastKernel[1])
		return
	}
	if f.Daemon == nil {
		if slices.Compare(v[:], tcxKernel[:]) < 0 {
			e.add(Note, "kernel", "", "Linux %s has no tcx (6.6): programs will be attached through clsact", f.Kernel)
		} else {
			e.ok("kernel", "Linux %s is new enough", f.Kernel)
		}
		return
	}
	p := f.Daemon.Plane
	if p.Attach == "clsact" {
		e.add(Note, "kernel", "", "programs are attached through clsact, as this kernel has no tcx (Linux 6.6)")
	}
	if !slices.Contains(p.Features, "csum-replace-ipv6") {
		e.add(Note, "kernel", "", "the kernel cannot adjust a device's sum over IPv6 packets: cards that sum a whole "+
			"packet may cost some speed")
	}
	if !slices.Contains(p.Features, "ringbuf") {
		e.add(Fault, "kernel", "use a newer kernel", "the kernel has no BPF ring buffer")
	}
	if e.clean("kernel") {
		e.ok("kernel", "Linux %s has all that is used: %s", f.Kernel, strings.Join(p.Features, ", "))
	}
}

func lookNames(e *examination, f Facts) {
	if f.Daemon == nil {
		return
	}
	c, s := f.Config.DNS, f.Daemon.DNS
	switch {
	case !c.Enabled:
		e.add(Note, "names", "", "dns.enabled is false: correspondents are reached by address only")
		return
	case s.Listen == "":
		e.add(Warning, "names", "`roam config show` has dns.listen; see the daemon's warning", "names are not answered")
		return
	case !c.ManageResolvConf:
		e.add(Note, "names", "", "dns.manage_resolv_conf is false: another program must send queries to %s", s.Listen)
		return
	case !s.Managed:
		e.add(Warning, "names", "", "%s does not point to %s: applications do not find correspondents by name", c.ResolvConf,
			s.Listen)
		return
	}
	own, err := netip.ParseAddrPort(s.Listen)
	first := firstServer(f.ResolvConf)
	if err == nil && f.ResolvConf != "" && first != own.Addr().String() {
		e.add(Warning, "names", "let that program ask "+own.Addr().String()+", or stop it, then `systemctl restart roamd`",
			"another program has rewritten %s: its first server is %s, not %s", c.ResolvConf, orNone(first), own.Addr())
	}
	if len(s.Upstream) == 0 {
		e.add(Warning, "names", "set dns.upstream", "no server is known for all other names")
	}
	if slices.Contains(s.Upstream, "127.0.0.53:53") || slices.Contains(s.Upstream, "127.0.0.54:53") {
		e.add(Warning, "names", "empty dns.upstream: Roam then uses the servers of systemd-resolved",
			"Roam and systemd-resolved query each other: a name that does not exist takes seconds")
	}
	if e.clean("names") {
		e.ok("names", "%s answers names, and forwards others to %s", s.Listen, strings.Join(s.Upstream, ", "))
	}
}

// firstServer returns the first name server of a resolv.conf.
func firstServer(text string) string {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "nameserver" {
			return f[1]
		}
	}
	return ""
}

// clockJump is the least difference of the two clocks to report.
const clockJump = 5 * time.Second

// lookClock compares the daemon's age by the wall clock with its age by the monotonic
// clock, which does not advance during suspend.
func lookClock(e *examination, f Facts) {
	if f.Daemon == nil {
		return
	}
	jump := f.Now.Sub(f.Daemon.Started) - time.Duration(f.Daemon.UptimeS*float64(time.Second))
	switch {
	case jump > clockJump:
		e.add(Note, "clock", "", "the clock went %v ahead of the daemon's since it started: it was set, or the machine was "+
			"suspended; lifetimes count on by the daemon's", jump.Round(time.Second))
	case jump < -clockJump:
		e.add(Note, "clock", "", "the clock was set back by %v since the daemon started; times in logs and events jump there",
			(-jump).Round(time.Second))
	default:
		e.ok("clock", "the clock did not jump since the daemon started")
	}
}

// leastFree is the least free space on a file system that the daemon writes to: the size of
// the saved sessions of about ten thousand correspondents.
const leastFree = 16 << 20

// noFree is the free space below which a file system counts as full.
const noFree = 64 << 10

func lookDisk(e *examination, f Facts) {
	for _, d := range []Dir{f.RunDir, f.StateDir} {
		switch {
		case d.Path == "":
		case !d.Exists && f.Daemon != nil && d == f.RunDir:
			// The daemon creates the state directory when it first needs it.
			e.add(Warning, "disk", "restart the daemon: `systemctl restart roamd`", "%s is gone while the daemon runs", d.Path)
		case d.Exists && d.Free < noFree && d == f.RunDir:
			e.add(Fault, "disk", "free some space", "the file system of %s is full: networks that this host comes to are not "+
				"used, as changes to the host cannot be noted, and sessions do not survive a restart", d.Path)
		case d.Exists && d.Free < leastFree:
			e.add(Warning, "disk", "free some space", "only %d kB are left for %s: sessions cannot be saved for a restart",
				d.Free>>10, d.Path)
		}
	}
	if f.Daemon != nil && f.RunDir.Exists && !f.RunDir.BPF {
		e.add(Fault, "disk", "roam down && roam up", "no bpffs is mounted at %s: the data plane would not outlive the daemon",
			filepath.Join(f.RunDir.Path, "bpf"))
	}
	if e.clean("disk") && f.RunDir.Exists {
		e.ok("disk", "%s and %s are in order", f.RunDir.Path, f.StateDir.Path)
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
