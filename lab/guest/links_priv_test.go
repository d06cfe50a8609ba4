//go:build guest

package guest

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"roam/lab/node"
)

// sleeps freezes the daemon, sends the machine to sleep, and does to the daemon
// what a long sleep does: it stands still, and when it goes on hours have passed, or
// the clock was set back.
func sleeps(w *world) {
	w.installed()
	w.lossless("daemon frozen for 10 s", func() {
		w.must("systemctl freeze roamd")
		w.until("some seconds", after(10*time.Second))
		w.must("systemctl thaw roamd")
	})
	w.survives("suspend to memory", func() {
		// The correspondent sleeps as well, and who runs the guest wakes it.
		w.must("systemctl suspend")
		w.until("the machine has slept", func() bool { return strings.Contains(w.sh("dmesg"), "PM: suspend exit") })
	})
	for _, jump := range []string{"+3 hours", "-3 hours"} {
		w.survives("clock "+jump, func() { w.must("systemctl freeze roamd; date -s '%s'; systemctl thaw roamd", jump) })
	}
}

// survives does what makes the flow's own stamps jump: it is only asked to go on,
// with the same daemon.
func (w *world) survives(what string, do func()) {
	w.t.Helper()
	f := w.start()
	pid := w.status().PID
	do()
	f.goesOn()
	w.has("eth0", "eth1", "eth2")
	w.until("an answer of the correspondent", w.answers)
	if now := w.status().PID; now != pid {
		w.t.Errorf("%s: daemon %d has become %d", what, pid, now)
	}
	f.udp.Kill()
	f.tcp.Kill()
}

// kinds moves a session between a VLAN and a bond, and lets a port of the bond
// fail.
func kinds(w *world) {
	w.installed()
	w.router("ip link add link m0 name m0.100 type vlan id 100")
	w.router("ip link add br0 type bridge; ip link set m1 master br0; ip link set m2 master br0; ip link set br0 up")
	w.router("ip -6 addr flush dev m0 scope global; ip -6 addr flush dev m1 scope global; ip -6 addr flush dev m2 " +
		"scope global")
	w.router(
		"ip link set m0.100 up; ip -6 addr add 2001:db8:b1::1/64 dev m0.100; ip -6 addr add 2001:db8:b2::1/64 dev br0")
	w.must("sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1; ip link add link eth0 name eth0.100 type vlan id 100")
	w.must("ip link set eth1 down; ip link set eth2 down; ip link add bond0 type bond mode active-backup miimon 100")
	w.must("ip link set eth1 master bond0; ip link set eth2 master bond0")
	all := w.adverts
	w.adverts = nil
	w.advert("cn1", netip.MustParsePrefix("2001:db8:c0::/64"))
	w.advert("m0.100", netip.MustParsePrefix("2001:db8:b1::/64"))
	w.advert("br0", netip.MustParsePrefix("2001:db8:b2::/64"))
	if err := w.radvd.Set(w.adverts...); err != nil {
		w.t.Fatal(err)
	}
	w.must("ip link set eth0.100 up")
	w.has("eth0.100")
	w.lossless("session over a VLAN, move to a bond", func() {
		w.must("ip link set bond0 up")
		w.has("bond0", "eth0.100")
		w.must("roam locator disable eth0.100")
		w.sends("bond0")
	})
	lost := w.during("a port of the bond fails and comes back", func() {
		w.cable("m1", false)
		w.until("the other port", func() bool {
			return strings.Contains(w.sh("cat /sys/class/net/bond0/bonding/active_slave"), "eth2")
		})
		w.cable("m1", true)
	})
	if lost > 2*rate {
		w.t.Errorf("port of a bond: %d datagrams lost", lost)
	}
	w.lossless("move back to the VLAN", func() {
		w.must("roam locator enable eth0.100; roam locator disable bond0")
		w.sends("eth0.100")
	})
	w.must("roam locator enable bond0; sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0; ip link del eth0.100; ip link del " +
		"bond0; ip link set eth1 up; ip link set eth2 up")
	w.router("ip link del m0.100; ip link del br0")
	for n := range 3 {
		w.router(fmt.Sprintf("ip link set m%d up; ip -6 addr add 2001:db8:a%d::1/64 dev m%d", n, n, n))
	}
	w.adverts = all
	if err := w.radvd.Set(all...); err != nil {
		w.t.Fatal(err)
	}
	w.has("eth0", "eth1", "eth2")
}

// router runs a line of shell on the router.
func (w *world) router(line string) {
	w.t.Helper()
	if out, err := w.r.Command(w.t.Context(), "/bin/bash", "-e", "-c", line).CombinedOutput(); err != nil {
		w.t.Fatalf("router: %s: %v\n%s", line, err, out)
	}
}

// sends waits until what goes to the correspondent leaves by one link only.
func (w *world) sends(link string) {
	w.t.Helper()
	w.until("packets leave by "+link+" only", func() bool {
		var list []node.Session
		w.ask(&list, "session", "show")
		if len(list) != 1 || len(list[0].Paths) == 0 {
			return false
		}
		for _, p := range list[0].Paths {
			if p.Link != link {
				return false
			}
		}
		return true
	})
}
