package acceptance

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/testutil"
	"roam/lab/node"
	"roam/lab/topo"
)

// between counts the packets of a capture from one node to another, neighbour
// discovery left out: those of sessions, whatever they carry.
func (tap *wiretap) between(from, to roam.NID) (n int) {
	tap.t.Helper()
	for _, f := range tap.frames() {
		if len(f) < 41 || f[6] == 58 && f[40] >= 133 && f[40] <= 137 {
			continue
		}
		if binary.BigEndian.Uint64(f[16:]) == uint64(from) && binary.BigEndian.Uint64(f[32:]) == uint64(to) {
			n++
		}
	}
	return n
}

// datagrams counts those to a port, with a nonce before them or without.
func (tap *wiretap) datagrams(port uint16) (n int) {
	tap.t.Helper()
	for _, f := range tap.frames() {
		at := 40
		if len(f) > 48 && f[6] == 60 {
			at = 48
		}
		if len(f) >= at+8 && (f[6] == 17 || f[6] == 60 && f[40] == 17) && binary.BigEndian.Uint16(f[at+2:]) == port {
			n++
		}
	}
	return n
}

// policied is a world of a host with two links, whose policies obstruct, and a
// correspondent.
type policied struct {
	w      *world
	mn, cn *host
	tap    *wiretap
}

// preferred is the configuration in which mn stays on net2.
const preferred = "[uplinks]\nprefer = [\"net2\"]\n"

func newPolicied(t *testing.T, name, more string) *policied {
	w := newWorld(t, name, time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	p := &policied{w: w, mn: w.newHost("mn", settings{more: more}), cn: w.newHost("cn", settings{})}
	p.tap = w.tap(t, w.r1, "core")
	return p
}

func (p *policied) start() {
	p.cn.start()
	p.mn.start()
	p.mn.becomes("net2")
}

// pings sends echo requests both ways, and datagrams, and reports what came back.
func (p *policied) pings() (out, in bool) {
	_, err := p.w.run("mn", "ping", "-6", "-c", "3", "-i", "0.1", "-W", "1", p.w.session("cn").String())
	_, back := p.w.run("cn", "ping", "-6", "-c", "3", "-i", "0.1", "-W", "1", p.w.session("mn").String())
	return err == nil, back == nil
}

// silent drives traffic in both directions and fails if a packet of mn's reaches
// the wire.
func (p *policied) silent(t *testing.T) {
	t.Helper()
	before := p.tap.between(p.w.nid("mn"), p.w.nid("cn"))
	for _, way := range [][2]string{{"mn", "cn"}, {"cn", "mn"}} {
		to := p.w.session(way[1])
		datagrams := fmt.Sprintf("for i in {1..50}; do echo $i > /dev/udp/%s/7777; done; timeout 1 bash -c 'echo > "+
			"/dev/tcp/%s/7777'", to, to)
		if out, err := p.w.run(way[0], "bash", "-c", datagrams); err == nil {
			t.Errorf("%s reaches %s: %s", way[0], way[1], out)
		}
	}
	out, in := p.pings()
	if out || in {
		t.Errorf("ping from mn succeeded: %v, from cn: %v", out, in)
	}
	if n := p.tap.between(p.w.nid("mn"), p.w.nid("cn")) - before; n > 0 {
		t.Errorf("%d packets of the session left past the policy", n)
	}
}

// works fails unless both ends reach each other.
func (p *policied) works(t *testing.T) {
	t.Helper()
	testutil.Eventually(t, patience, func() bool {
		_, err := p.w.run("mn", "ping", "-6", "-c", "1", "-W", "1", "cn")
		return err == nil
	}, "mn reaches cn")
	testutil.Eventually(t, patience, func() bool {
		_, err := p.w.run("cn", "ping", "-6", "-c", "1", "-W", "1", "mn")
		return err == nil
	}, "cn reaches mn")
	p.mn.reaches("cn", "established")
}

// named fails unless the messages name the policy that obstructs the session.
func (p *policied) named(t *testing.T, words ...string) {
	t.Helper()
	doctor, _, err := p.mn.command("doctor", "cn")
	if err == nil {
		t.Error("roam doctor cn finds nothing in the way")
	}
	all := map[string]string{
		"doctor": doctor, "session show": p.mn.roam("session", "show", "cn"), "explain": p.mn.roam("explain", "cn"),
	}
	_, all["up"], _ = p.mn.command("up")
	for command, text := range all {
		for _, word := range words {
			if !strings.Contains(text, word) {
				t.Errorf("roam %s does not name %q:\n%s", command, word, text)
			}
		}
	}
}

// xfrm adds or deletes a policy that wants ESP between two networks.
func (p *policied) xfrm(verb string, link int) {
	p.w.t.Helper()
	argv := []string{"ip", "xfrm", "policy", verb, "src", p.w.prefix("mn", link).String(), "dst",
		p.w.wire("cn", 1).String() + "/128", "dir", "out"}
	if verb == "add" {
		argv = append(argv, "tmpl", "proto", "esp", "mode", "transport", "level", "required")
	}
	p.w.must("mn", argv...)
}

// TestIPsecPolicy: a session does not go around a policy of IPsec that matches its
// addresses on the wire.
func TestIPsecPolicy(t *testing.T) {
	p := newPolicied(t, "ipsec", preferred)
	_, err := p.w.run("mn", "ip", "xfrm", "policy", "list")
	testutil.NeedKernel(t, "IPsec", err == nil)
	p.xfrm("add", 1)
	p.xfrm("add", 2)
	p.start()
	p.w.sub("there before the session", func(t *testing.T) {
		p.silent(t)
		p.named(t, "IPsec policy", p.w.prefix("mn", 2).String(), "net2")
	})
	p.w.sub("taken away on one link", func(t *testing.T) {
		p.xfrm("del", 1)
		p.works(t)
		p.mn.sendsFrom("cn", "net1")
	})
	p.w.sub("taken away on the other", func(t *testing.T) {
		p.xfrm("del", 2)
		p.works(t)
		p.mn.sendsFrom("cn", "net2")
	})
	p.w.sub("added to a live session on one link", func(t *testing.T) {
		u := p.w.udp(t, "mn", "cn", "cn", 7001, 200)
		p.xfrm("add", 2)
		p.mn.sendsFrom("cn", "net1")
		flows(t, u, 100)
		p.works(t)
	})
	p.w.sub("and on the other", func(t *testing.T) {
		p.xfrm("add", 1)
		p.mn.sendsFrom("cn")
		p.silent(t)
		p.named(t, "IPsec policy", p.w.prefix("mn", 1).String(), "net1")
	})
	p.w.sub("while the daemon is started anew", func(t *testing.T) {
		before := p.tap.between(p.w.nid("mn"), p.w.nid("cn"))
		p.mn.signal(unix.SIGKILL)
		p.mn.start()
		p.silent(t)
		if n := p.tap.between(p.w.nid("mn"), p.w.nid("cn")) - before; n > 0 {
			t.Errorf("%d packets of the session left past the policy", n)
		}
	})
	p.w.sub("removed", func(t *testing.T) {
		p.w.must("mn", "ip", "xfrm", "policy", "flush")
		p.works(t)
	})
	p.w.sub("between session addresses", func(t *testing.T) {
		before := p.tap.datagrams(7777)
		p.w.must("mn", "ip", "xfrm", "policy", "add", "src", p.w.session("mn").String(), "dst", p.w.session("cn").String(),
			"proto", "udp", "dir", "out", "tmpl", "proto", "esp", "mode", "transport", "level", "required")
		_, err := p.w.run("mn", "bash", "-c",
			fmt.Sprintf("for i in {1..50}; do echo $i > /dev/udp/%s/7777; done", p.w.session("cn")))
		p.works(t) // paths that the policy does not cover
		if n := p.tap.datagrams(7777) - before; n > 0 {
			t.Errorf("%d datagrams left without ESP; their sender saw %v", n, err)
		}
	})
}

// wgQuick gives mn the routes of wg-quick with AllowedIPs = ::/0; the device is the
// near end of a cable, as the kernel need not have WireGuard.
func (p *policied) wgQuick() {
	w := p.w
	w.must("mn", "ip", "link", "add", "wg0", "type", "veth", "peer", "name", "far")
	for _, l := range []string{"wg0", "far"} {
		w.must("mn", "ip", "link", "set", l, "up", "arp", "off")
	}
	w.must("mn", "ip", "-6", "address", "add", "fd00:77::2/128", "dev", "wg0")
	w.must("mn", "ip", "-6", "route", "add", "default", "dev", "wg0", "table", "51820")
	w.must("mn", "ip", "-6", "rule", "add", "not", "fwmark", "51820", "table", "51820")
	w.must("mn", "ip", "-6", "rule", "add", "table", "main", "suppress_prefixlength", "0")
}

// sentBy counts the packets that have left by a device of mn's.
func (p *policied) sentBy(ifname string) (n int) {
	p.w.t.Helper()
	var links []struct {
		Stats struct {
			Tx struct {
				Packets int `json:"packets"`
			} `json:"tx"`
		} `json:"stats64"`
	}
	if err := json.Unmarshal([]byte(p.w.must("mn", "ip", "-j", "-s", "link", "show", ifname)), &links); err != nil ||
		len(links) != 1 {
		p.w.t.Fatalf("counts of %s: %v", ifname, err)
	}
	return links[0].Stats.Tx.Packets
}

// wgDown takes them away.
func (p *policied) wgDown() {
	p.w.must("mn", "ip", "-6", "rule", "delete", "table", "51820")
	p.w.must("mn", "ip", "-6", "rule", "delete", "table", "main", "suppress_prefixlength", "0")
	p.w.must("mn", "ip", "link", "delete", "wg0")
}

// TestFullTunnel: while a VPN takes all traffic, sessions do not leave beside it,
// unless the user says so.
func TestFullTunnel(t *testing.T) {
	p := newPolicied(t, "fulltunnel", preferred)
	p.wgQuick()
	p.start()
	p.w.sub("there before the session", func(t *testing.T) {
		p.silent(t)
		p.named(t, "wg0", "51820", "net2")
	})
	p.w.sub("let past by a rule", func(t *testing.T) {
		p.w.must("mn", "ip", "-6", "rule", "add", "to", p.w.prefix("cn", 1).String(), "lookup", "main", "priority", "100")
		p.works(t)
		p.w.must("mn", "ip", "-6", "rule", "delete", "priority", "100")
		p.mn.sendsFrom("cn")
		p.silent(t)
	})
	p.w.sub("down", func(t *testing.T) {
		p.wgDown()
		p.works(t)
	})
	p.w.sub("up while a session lives", func(t *testing.T) {
		p.wgQuick()
		p.mn.sendsFrom("cn")
		p.silent(t)
		p.named(t, "wg0", "51820", "net2")
	})
	p.w.sub("a real address is reached through the tunnel", func(t *testing.T) {
		before := p.tap.between(p.w.nid("mn"), p.w.nid("cn"))
		testutil.Eventually(t, patience, func() bool {
			sent := p.sentBy("wg0")
			_, _ = p.w.run("mn", "bash", "-c",
				fmt.Sprintf("for i in {1..50}; do echo $i > /dev/udp/%s/7777; done", p.w.wire("cn", 1)))
			return p.sentBy("wg0") >= sent+50
		}, "datagrams to cn's real address enter the tunnel")
		if n := p.tap.between(p.w.nid("mn"), p.w.nid("cn")) - before; n > 0 {
			t.Errorf("%d packets left past the tunnel", n)
		}
	})
	p.w.sub("a correspondent that asks first gets no answer", func(t *testing.T) {
		p.mn.down()
		p.cn.down()
		p.start()
		before := p.tap.between(p.w.nid("mn"), p.w.nid("cn"))
		if _, err := p.w.run("cn", "ping", "-6", "-c", "3", "-i", "0.1", "-W", "1", "mn"); err == nil {
			t.Error("mn answers")
		}
		if n := p.tap.between(p.w.nid("mn"), p.w.nid("cn")) - before; n > 0 {
			t.Errorf("%d packets left past the tunnel", n)
		}
	})
	p.w.sub("which the user has ignored", func(t *testing.T) {
		p.mn.down()
		p.mn.write(settings{more: preferred + "ignore_policy = true\n"})
		p.start()
		p.works(t)
		if out, _, err := p.mn.command("doctor", "cn"); err != nil || !strings.Contains(out, "ignore_policy") {
			t.Errorf("roam doctor cn: %v\n%s", err, out)
		}
	})
}

// openTun makes a tunnel's near end, which drops its packets. It has carrier while the file
// is open.
func openTun(h *topo.Host, ifname string) (f *os.File, err error) {
	err = h.Do(func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		f = os.NewFile(uintptr(fd), ifname)
		ifr, err := unix.NewIfreq(ifname)
		if err != nil {
			return err
		}
		ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		return unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	})
	if err != nil {
		return nil, fmt.Errorf("make tunnel %s: %w", ifname, err)
	}
	return f, h.SetUp(ifname)
}

// TestTunnelWithPrivateAddress: a tunnel with addresses of its own network only is no
// uplink, though it has a default route, unless the user names it.
func TestTunnelWithPrivateAddress(t *testing.T) {
	p := newPolicied(t, "ulatunnel", "")
	p.w.cable("mn", "net1", false)
	p.start()
	p.works(t)
	began := time.Now()
	u := p.w.udp(t, "mn", "cn", "cn", 7000, 500)
	tun, err := openTun(p.w.hosts["mn"], "tun0")
	if err != nil {
		t.Fatal(err)
	}
	defer tun.Close()
	p.w.must("mn", "ip", "-6", "address", "add", "fd00:77::2/64", "dev", "tun0")
	p.w.must("mn", "ip", "-6", "route", "add", "default", "dev", "tun0", "metric", "50")
	flows(t, u, 1500) // three seconds, in which the link would have been taken
	if l := p.mn.active(); !slices.Equal(l, []string{"net2"}) {
		t.Errorf("active locators on %v, want net2", l)
	}
	p.mn.sendsFrom("cn", "net2")
	if out, _, _ := p.mn.command("doctor"); !strings.Contains(out, "tun0 is not used: it is a tunnel") {
		t.Errorf("roam doctor does not say why tun0 is no uplink:\n%s", out)
	}
	p.w.lossless(t, u, began)
	p.w.sub("named by the user", func(t *testing.T) {
		p.mn.down()
		p.mn.write(settings{more: "[uplinks]\ninclude = [\"net*\", \"tun0\"]\n"})
		p.mn.start()
		testutil.Eventually(t, patience, func() bool {
			return slices.ContainsFunc(p.mn.locators(), func(l node.Locator) bool { return l.Link == "tun0" })
		}, "tun0 is an uplink")
	})
}
