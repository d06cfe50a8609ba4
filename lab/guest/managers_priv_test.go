//go:build guest

package guest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// manager is what brings the machine's links up, and what people do with it.
type manager struct {
	name  string
	links []string // links that it manages
	redo  []string // commands after which every link is as before
}

// networkd lets systemd-networkd manage two links.
func networkd(w *world) {
	w.installed()
	w.write("/etc/systemd/network/10-guest.network",
		"[Match]\nName=eth0 eth1\n[Network]\nDHCP=no\nIPv6AcceptRA=yes\nLinkLocalAddressing=ipv6\n")
	w.must("ip link set eth2 down")
	w.must("systemctl start systemd-networkd")
	w.managed(manager{name: "systemd-networkd", links: []string{"eth0", "eth1"}, redo: []string{
		"networkctl reload", "networkctl reconfigure eth0", "networkctl renew eth0", "systemctl restart systemd-networkd",
	}})
	w.must("systemctl stop systemd-networkd.socket systemd-networkd")
}

// networkManager lets NetworkManager manage them.
func networkManager(w *world) {
	w.installed()
	// As on a machine without resolvconf: it writes /etc/resolv.conf itself.
	w.write("/etc/NetworkManager/conf.d/guest.conf", "[main]\nno-auto-default=*\ndns=default\nrc-manager=symlink\n")
	w.must("ip link set eth2 down")
	w.must("systemctl start NetworkManager")
	for n := range 2 {
		w.must("nmcli connection add type ethernet con-name c%d ifname eth%d ipv4.method disabled ipv6.method auto", n, n)
		w.must("nmcli connection up c%d", n)
	}
	w.managed(manager{name: "NetworkManager", links: []string{"eth0", "eth1"}, redo: []string{
		"nmcli general reload", "nmcli device reapply eth0", "nmcli connection up c0", "systemctl restart NetworkManager",
	}})
	w.must("nmcli connection modify c1 ipv6.dns 2001:db8::53")
	w.must("nmcli connection up c1")
	w.until("names are asked of Roam, and others of NetworkManager's server", func() bool {
		return strings.Contains(w.sh("cat /etc/resolv.conf"), "nameserver 127.0.0.156") &&
			strings.Contains(w.sh("roam --json"), "[2001:db8::53]:53")
	})
	w.must("systemctl stop NetworkManager")
}

// managed goes through what a manager does to links that carry sessions: those
// live on, and each side keeps the addresses that are its own.
func (w *world) managed(m manager) {
	w.t.Helper()
	w.has(m.links...)
	w.until(m.name+" has addresses of its own", func() bool { return w.owns(m) })
	w.lossless(m.name+": nothing done", func() { w.until("some seconds", after(3*time.Second)) })
	for _, command := range m.redo {
		// Packets for a removed link are not delivered; the session must be back at once,
		// and both links must be usable again.
		lost := w.during(m.name+": "+command, func() {
			w.must("%s", command)
			w.until("some seconds", after(3*time.Second))
			w.has(m.links...)
		})
		if lost > rate {
			w.t.Errorf("%s: %d datagrams lost", command, lost)
		}
		w.until("all addresses after "+command, func() bool { return w.owns(m) })
	}
	lost := w.during(m.name+": both carriers lost and back, one after the other", func() {
		for n, link := range m.links {
			w.cable(fmt.Sprintf("m%d", n), false)
			w.until("locator of "+link+" gone", func() bool { return !slices.Contains(w.links("active", "valid"), link) })
			w.cable(fmt.Sprintf("m%d", n), true)
			w.has(m.links...)
		}
	})
	if lost > 2*rate {
		w.t.Errorf("carriers: %d datagrams lost", lost)
	}
	w.until("all addresses after the carriers were lost", func() bool { return w.owns(m) })
	w.renewed(m)
}

// renewed advertises longer lifetimes, as a router that was set anew does.
func (w *world) renewed(m manager) {
	w.t.Helper()
	w.lossless(m.name+": advertisements renewed with other lifetimes", func() {
		longer := slices.Clone(w.adverts)
		for i := range longer {
			longer[i].Preferred, longer[i].Valid = 4000*time.Second, 7999*time.Second
		}
		if err := w.radvd.Set(longer...); err != nil {
			w.t.Fatal(err)
		}
		w.until("the longer lifetime on Roam's address", func() bool {
			return strings.Contains(w.sh("ip -6 -o addr show dev eth0 to "+w.own(0)), "valid_lft 79")
		})
	})
	if err := w.radvd.Set(w.adverts...); err != nil {
		w.t.Fatal(err)
	}
	w.has(m.links...)
}

// own is prefix:NID on the machine's n-th link.
func (w *world) own(n int) string {
	a := prefix(n).Addr().As16()
	s := w.status().SessionAddress.As16()
	copy(a[8:], s[8:])
	return netip.AddrFrom16(a).String()
}

// owns reports whether each link has Roam's address and another one.
func (w *world) owns(m manager) bool {
	for n, link := range m.links {
		list := w.sh("ip -6 -o addr show scope global dev " + link)
		if !strings.Contains(list, w.own(n)+"/128") || strings.Count(list, fmt.Sprintf("2001:db8:a%d:", n)) < 2 {
			return false
		}
	}
	return true
}

// after is a condition that holds once a while has passed.
func after(d time.Duration) func() bool {
	end := time.Now().Add(d)
	return func() bool { return time.Now().After(end) }
}
