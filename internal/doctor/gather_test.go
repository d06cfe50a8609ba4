package doctor

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"roam/internal/config"
)

// machine is a made-up system.
type machine struct {
	files, output map[string]string
	noIPv6        bool // the kernel has none
}

func (machine) Root() bool                { return true }
func (m machine) Read(path string) string { return m.files[path] }
func (m machine) Free(dir string) (uint64, bool) {
	return 1 << 30, !strings.HasPrefix(dir, "/var") && !(m.noIPv6 && strings.HasPrefix(dir, "/proc/sys/net/ipv6"))
}
func (machine) BPF(dir string) bool                         { return strings.HasSuffix(dir, "/run/roam/bpf") }
func (machine) Lookup(context.Context, string) []netip.Addr { return nil }
func (m machine) Output(_ context.Context, name string, args ...string) string {
	return m.output[strings.Join(append([]string{name}, args...), " ")]
}

func TestGather(t *testing.T) {
	m := machine{
		files: map[string]string{
			"/proc/sys/kernel/osrelease":                "6.1.0-18-amd64\n",
			"/proc/sys/net/ipv6/conf/all/disable_ipv6":  "1\n",
			"/proc/sys/net/ipv6/conf/eth0.7/forwarding": "1\n",
			"/proc/sys/net/ipv6/conf/eth0.7/accept_ra":  "2\n",
			"/etc/resolv.conf":                          "nameserver ::1\n",
		},
		output: map[string]string{
			"ip -j -6 address show": `[{"ifname":"lo","mtu":65536,"flags":["LOOPBACK","UP","LOWER_UP"]},
				{"ifname":"eth0.7","mtu":1280,"flags":["UP","LOWER_UP"],"addr_info":[
				{"family":"inet6","local":"2001:db8::5","prefixlen":64,"scope":"global"},
				{"family":"inet6","local":"2001:db8::6","prefixlen":64,"scope":"global","dadfailed":true},
				{"family":"inet6","local":"fe80::5","prefixlen":64,"scope":"link"}]},
				{"ifname":"eth1","mtu":1500,"flags":["UP"]},{"ifname":"eth2","mtu":1500,"flags":["UP"]}]`,
			"ip -j -6 route show default": `[{"dst":"default","nexthops":[{"dev":"eth0.7"}]},{"dst":"default","dev":"eth1"},
				{"dst":"default","from":"2001:db8::/64","gateway":"fe80::1","dev":"eth2"}]`,
			"ip -d -j link show": `[{"ifname":"lo"},{"ifname":"eth0.7","link":"eth0","linkinfo":{"info_kind":"vlan"}},
				{"ifname":"eth1","master":"br0","linkinfo":{"info_kind":"veth","info_slave_kind":"bridge"}},
				{"ifname":"eth2","master":"blue","linkinfo":{"info_slave_kind":"vrf"}}]`,
		},
	}
	f := Gather(t.Context(), m, Facts{Config: config.Default()})
	if f.Kernel != "6.1.0-18-amd64" || !f.NoIPv6 || !f.RunDir.BPF || !f.RunDir.Exists || f.StateDir.Exists ||
		firstServer(f.ResolvConf) != "::1" {
		t.Errorf("facts: %+v", f)
	}
	if len(f.Links) != 4 {
		t.Fatalf("links: %+v", f.Links)
	}
	l := f.Links[1]
	if l.Name != "eth0.7" || l.MTU != 1280 || !l.Up || !l.Routed || len(l.Global) != 1 ||
		l.Forwarding != 1 || l.AcceptRA != 2 || l.Kind != "vlan" || l.Port {
		t.Errorf("link: %+v", l)
	}
	if l := f.Links[2]; l.Up || !l.Routed || l.Forwarding != -1 || l.Kind != "veth" || !l.Port {
		t.Errorf("link without carrier: %+v", l)
	}
	if l := f.Links[3]; l.Routed || !l.BySource || l.Port {
		t.Errorf("link of a VRF with a default route for some sources: %+v", l)
	}
	cfg := config.Default()
	cfg.Host.RunDir = "/var/run/roam" // a symbolic link, as /var/run is on most systems
	if f = Gather(t.Context(), m, Facts{Config: cfg}); !f.RunDir.BPF {
		t.Error("a bpffs is not found by another name")
	}
	m.noIPv6, m.files = true, nil
	if f = Gather(t.Context(), m, Facts{Config: config.Default()}); !f.NoIPv6 {
		t.Error("a kernel without IPv6 has it")
	}
}

func TestPathMTU(t *testing.T) {
	for text, want := range map[string]int{
		`[{"dst":"fd69::9","dev":"roam0","metrics":[{"mtu":1400}]}]`: 1400,
		`[{"dst":"fd69::9","dev":"roam0","metrics":[]}]`:             0,
		"": 0, "[]": 0,
	} {
		if got := PathMTU(text); got != want {
			t.Errorf("PathMTU(%s) = %d, want %d", text, got, want)
		}
	}
}
