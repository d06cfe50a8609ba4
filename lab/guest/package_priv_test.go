//go:build guest

package guest

import (
	"fmt"
	"slices"
	"strings"
)

// marks are commands that print the state of the machine that an installation might change
// and a removal must restore, without its volatile parts.
var marks = map[string]string{
	"links":      `ip -d link | sed 's/ numtxqueues.*//'`,
	"addresses":  `ip -6 addr | sed '/valid_lft/d'`,
	"routes":     `ip -6 route show table all | sed 's/ expires [0-9]*sec//'`,
	"rules":      `ip -6 rule`,
	"sysctls":    `sysctl -a 2>/dev/null | grep '^net\.' | grep -v -e '\.stable_secret' -e dirty -e tcp_mem -e udp_mem`,
	"resolver":   `ls -l /etc/resolv.conf | sed 's/.* [0-9:]* \//\//'; cat /etc/resolv.conf`,
	"filters":    `nft list ruleset`,
	"mounts":     `findmnt -rn -o TARGET,FSTYPE | sort`,
	"pins":       `find /sys/fs/bpf /run/roam 2>/dev/null | sort`,
	"processes":  `pgrep -a -x roamd | grep -v /root/`,
	"units":      `systemctl list-unit-files --no-legend | grep roam`,
	"cgroup":     `ls -d /sys/fs/cgroup/system.slice/roamd.service 2>/dev/null`,
	"kept files": `find /etc /usr /var/lib -not -path '/var/lib/dpkg/*' -not -path '/var/lib/systemd/*' -not -path '/etc/*-' | sort`,
	"accounts":   `cat /etc/group /etc/passwd`,
}

// machine is what all marks show now.
func (w *world) machine() map[string]string {
	now := map[string]string{}
	for name, line := range marks {
		now[name] = w.sh(line)
	}
	return now
}

// same compares the machine with an earlier state, except for some marks.
func (w *world) same(was map[string]string, but ...string) {
	w.t.Helper()
	for name, now := range w.machine() {
		if slices.Contains(but, name) || now == was[name] {
			continue
		}
		w.t.Errorf("%s are not as they were:\n%s", name, difference(was[name], now))
	}
}

// difference lists the lines that only one of two texts has.
func difference(was, is string) string {
	var b strings.Builder
	a, c := strings.Split(was, "\n"), strings.Split(is, "\n")
	for _, l := range a {
		if !slices.Contains(c, l) {
			fmt.Fprintf(&b, "- %s\n", l)
		}
	}
	for _, l := range c {
		if !slices.Contains(a, l) {
			fmt.Fprintf(&b, "+ %s\n", l)
		}
	}
	return b.String()
}

// before is the machine that Roam was never installed on.
var before map[string]string

// filter adds rules of the machine's own.
func (w *world) filter() {
	w.t.Helper()
	w.must("nft add table inet mine; nft add chain inet mine in '{ type filter hook input priority 0; }'")
}

// packageLife installs the package and replaces the daemon in every way that a
// machine in use does, under traffic.
func packageLife(w *world) {
	w.filter()
	before = w.machine()
	w.must("dpkg -i %s", oldDeb)
	if out := w.must("systemctl is-active roamd; systemctl is-enabled roamd"); out != "active\nenabled\n" {
		w.t.Errorf("after installation the unit is %q", out)
	}
	w.has("eth0", "eth1", "eth2")
	w.meet()
	first := w.status()
	if first.Version != oldVers {
		w.t.Errorf("version %q runs", first.Version)
	}
	w.lossless("upgrade of the package", func() { w.must("dpkg -i %s", newDeb) })
	s := w.status()
	if s.Version != newVers || !s.Plane.Adopted || s.NID != first.NID || s.PID == first.PID {
		w.t.Errorf("after the upgrade: %+v, before: %+v", s, first)
	}
	w.lossless("restart of the unit", func() { w.must("systemctl restart roamd") })
	w.lossless("reload of the unit", func() { w.must("systemctl reload roamd") })
	w.lossless("kill -9 of the daemon", func() {
		pid := w.status().PID
		w.must("systemctl kill -s KILL roamd")
		w.until("another daemon", func() bool { s := w.status(); return s.PID != 0 && s.PID != pid && s.Plane.Adopted })
	})
	w.lossless("installation of the same version", func() { w.must("dpkg -i %s", newDeb) })
	w.lossless("downgrade", func() { w.must("dpkg -i --force-downgrade %s", oldDeb) })
}

// removal removes the package in two steps and checks the remains.
func removal(w *world) {
	if before == nil {
		w.filter()
		before = w.machine()
	}
	w.installed()
	seen := w.machine()
	for _, name := range []string{"links", "addresses", "routes", "sysctls", "resolver", "mounts", "pins", "processes",
		"units", "kept files", "accounts"} {
		if seen[name] == before[name] {
			w.t.Errorf("%s do not show that Roam is there:\n%s", name, seen[name])
		}
	}
	if !strings.Contains(seen["filters"], "table inet mine") {
		w.t.Errorf("filters do not show a table that is there: %s", seen["filters"])
	}
	w.must("dpkg -r roam")
	w.same(before, "kept files", "accounts")
	for _, kept := range []string{"/etc/roam/roam.conf", "/etc/roam/hosts", "/var/lib/roam/nid"} {
		w.must("test -e %s", kept)
	}
	w.must("dpkg -P roam")
	w.same(before)
}
