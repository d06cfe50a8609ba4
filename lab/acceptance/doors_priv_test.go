package acceptance

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
)

// manyLinks are the links that appear under traffic, and what they may take.
const (
	manyLinks   = 1000
	fewLinks    = 50
	linksWithin = 60 * time.Second
)

// doors is a world in which cn has a container: a host behind a bridge, which cn
// forwards for.
type doors struct {
	w        *world
	mn, cn   *host
	box      *injector
	mnServer *said // datagrams to mn's session address
	cnServer *said
}

const doorPort = 7200

// TestSessionAddressesAreTheHostsOwn asks who else can speak or be reached by the
// session addresses of a host: containers, links that appear, routers that advertise
// the session prefix.
func TestSessionAddressesAreTheHostsOwn(t *testing.T) {
	w := newWorld(t, "doors", 2*time.Millisecond, place{"mn", 1, true}, place{"cn", 1, false}, place{"box", 0, false})
	d := &doors{w: w}
	d.contain(t)
	d.mn, d.cn = w.newHost("mn", settings{}).start(), w.newHost("cn", settings{}).start()
	d.mnServer, d.cnServer = d.sink("mn"), d.sink("cn")
	d.box = w.injector(t, "box")
	w.must("mn", "ping", "-6", "-c", "2", "-i", "0.2", "-W", "3", "cn")
	w.sub("a container is not its host's peer", func(t *testing.T) { d.notDelivered(t) })
	w.sub("a container is not its host", func(t *testing.T) { d.notForwarded(t) })
	w.sub("nor while no daemon runs, nor later", func(t *testing.T) {
		d.cn.signal(syscall.SIGKILL)
		d.notDelivered(t)
		d.notForwarded(t)
		d.cn.start()
		d.notDelivered(t)
		d.notForwarded(t)
		d.works(t, 7300)
	})
	w.sub("a tunnel between hosts carries what they forward", func(t *testing.T) { d.tunnelled(t) })
	w.sub("links that appear under traffic", func(t *testing.T) {
		symbols, err := os.ReadFile("/proc/kallsyms")
		testutil.NeedKernel(t, "programs on the hooks of netfilter", err == nil &&
			strings.Contains(string(symbols), " bpf_nf_link_attach\n"))
		n := manyLinks
		if testing.Short() {
			n = fewLinks
		}
		began := time.Now()
		if links, delivered := d.veths(t, n); links < 2*n || delivered > 0 {
			t.Errorf("%d of %d ends of links took packets, %d were delivered", links, 2*n, delivered)
		}
		if took := time.Since(began); took > linksWithin {
			t.Errorf("that took %v, more than %v", took, linksWithin)
		}
	})
	w.sub("a router that advertises the session prefix", func(t *testing.T) { d.advertised(t) })
	w.sub("a session route or device that is deleted comes back", func(t *testing.T) { d.deleted(t) })
	w.sub("down opens the doors", func(t *testing.T) {
		d.cn.down()
		w.must("cn", "ip", "-6", "addr", "add", w.session("cn").String()+"/128", "dev", "lo", "nodad")
		if !testutil.Wait(patience, func() bool { return d.delivers(t, "open") }) {
			t.Error("a guard is left behind")
		}
		// A link lives so shortly that a busy machine may deliver nothing in time.
		if !testutil.Wait(patience, func() bool { _, delivered := d.veths(t, 3); return delivered > 0 }) {
			t.Error("packets to new links would not be delivered without a guard")
		}
	})
}

// contain joins the box to a bridge of cn.
func (d *doors) contain(t *testing.T) {
	cn, box := d.w.hosts["cn"], d.w.hosts["box"]
	err := cn.Sysctl("net/ipv6/conf/net1/accept_ra", "2")
	if err == nil {
		err = cn.Forward()
	}
	if err == nil {
		err = d.w.lab.Veth(cn, "port", box, "eth0")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"link add br0 type bridge", "link set port master br0", "link set br0 up", "-6 addr add fd00:b::1/64 dev br0 nodad",
	} {
		d.w.must("cn", append([]string{"ip"}, strings.Fields(line)...)...)
	}
	for _, line := range []string{"-6 addr add fd00:b::2/64 dev eth0 nodad", "-6 route add default via fd00:b::1"} {
		d.w.must("box", append([]string{"ip"}, strings.Fields(line)...)...)
	}
	testutil.Eventually(t, patience, func() bool {
		_, err := d.w.run("box", "ping", "-6", "-c", "1", "-W", "1", "fd00:b::1")
		return err == nil
	}, "the container reaches its host")
}

// tunnelled joins the two hosts by a tunnel whose ends are session addresses: what
// it carries is the hosts' own, also where the container has sent it.
func (d *doors) tunnelled(t *testing.T) {
	for name, l := range map[string]struct{ peer, addr string }{"cn": {"mn", "fd00:c::1/64"},
		"mn": {"cn", "fd00:c::2/64"}} {
		for _, line := range []string{
			"link add vx0 type vxlan id 7 dstport 4789 local " + d.w.session(name).String() + " remote " +
				d.w.session(l.peer).String(),
			"link set vx0 mtu 1280 up", "-6 addr add " + l.addr + " dev vx0 nodad",
		} {
			d.w.must(name, append([]string{"ip"}, strings.Fields(line)...)...)
		}
	}
	d.w.must("mn", "ip", "-6", "route", "add", "fd00:b::/64", "via", "fd00:c::1")
	if out, err := d.w.run("box", "ping", "-6", "-c", "3", "-i", "0.2", "-W", "3", "fd00:c::2"); err != nil {
		t.Errorf("the container's packets do not pass the tunnel of its host: %v\n%s", err, out)
	}
	for _, name := range []string{"cn", "mn"} {
		d.w.must(name, "ip", "link", "del", "vx0")
	}
}

// sink has a host listen on its session address.
func (d *doors) sink(name string) *said {
	d.w.t.Helper()
	out := &said{}
	d.w.agent(d.w.top, name, out, "sink", netip.AddrPortFrom(d.w.session(name), doorPort).String())
	testutil.Eventually(d.w.t, patience, func() bool { return strings.HasPrefix(out.text(), "ready\n") }, "a server on "+
		name)
	return out
}

// send makes the container send a datagram between session addresses, and then waits until
// the host has received an ordinary one that followed it.
func (d *doors) send(t *testing.T, from, to, text string) {
	t.Helper()
	b, err := sessionDatagram(d.w.session(from), netip.AddrPortFrom(d.w.session(to), doorPort), text)
	if err != nil {
		t.Fatal(err)
	}
	d.box.send(b)
	d.w.must("box", "ping", "-6", "-c", "2", "-i", "0.2", "-W", "3", "fd00:b::1")
}

// delivers reports whether cn's server gets what the container sends as mn.
func (d *doors) delivers(t *testing.T, text string) bool {
	d.send(t, "mn", "cn", text)
	return testutil.Wait(200*time.Millisecond, func() bool { return strings.Contains(d.cnServer.text(), text) })
}

func (d *doors) notDelivered(t *testing.T) {
	t.Helper()
	if d.delivers(t, "as the peer") {
		t.Errorf("cn's server believes the container to be mn: %s", d.cnServer.text())
	}
}

// notForwarded has the container send as cn, which a path of 2 ms would take to mn.
func (d *doors) notForwarded(t *testing.T) {
	t.Helper()
	d.send(t, "cn", "mn", "as the host")
	if testutil.Wait(200*time.Millisecond, func() bool { return strings.Contains(d.mnServer.text(), "as the host") }) {
		t.Errorf("mn's server believes the container to be cn: %s", d.mnServer.text())
	}
}

// works asks for a datagram each way, by new sockets.
func (d *doors) works(t *testing.T, port int) {
	t.Helper()
	d.w.echo(t, "cn", port)
	c := d.w.talk(t, "mn", "udp6", "cn", port)
	testutil.Eventually(t, patience, func() bool {
		c.say(t, "still there")
		return c.heard("still there")
	}, "an echo between mn and cn")
}

// veths makes links on cn, and tells how many of their ends took packets and how many packets
// came through them to cn's session address.
func (d *doors) veths(t *testing.T, n int) (links, delivered int) {
	t.Helper()
	out := &said{}
	to := netip.AddrPortFrom(d.w.session("cn"), doorPort+1)
	d.w.agent(t, "cn", out, "veths", fmt.Sprint(n), to.String(), d.w.session("mn").String(), "2001:db8:dead::1")
	packets := 0
	testutil.Eventually(t, 2*linksWithin, func() bool {
		_, err := fmt.Sscanf(out.text(), "links %d packets %d delivered %d", &links, &packets, &delivered)
		return err == nil || strings.Contains(out.text(), "veths:")
	}, "links are made")
	t.Logf("%s", out.text())
	return links, delivered
}

// advertised makes mn's router advertise the session prefix, and adds routes and rules as
// wg-quick does, while sessions run.
func (d *doors) advertised(t *testing.T) {
	began := time.Now()
	u := d.w.udp(t, "mn", "cn", "cn", 7310, 200)
	flows(t, u, 50)
	ll := strings.Fields(d.w.must("mn", "ip", "-6", "route", "show", "default"))
	session := roam.DefaultSessionPrefix.Prefix().String()
	out := &said{}
	d.w.agent(t, "r0", out, "advertise", "mn1", session)
	testutil.Eventually(t, patience, func() bool {
		return strings.Contains(d.w.must("mn", "ip", "-6", "route", "show", "dev", "net1"), session)
	}, "mn takes the prefix from the router")
	d.w.must("mn", "ip", "-6", "route", "add", d.w.session("cn").String()+"/128", "via", ll[2],
		"dev", "net1", "metric", "1")
	d.w.must("mn", "ip", "-6", "route", "add", "default", "via", ll[2], "dev", "net1", "table", "51820")
	d.w.must("mn", "ip", "-6", "rule", "add", "not", "fwmark", "51820", "table", "51820")
	d.w.must("mn", "ip", "-6", "rule", "add", "table", "main", "suppress_prefixlength", "0")
	d.works(t, 7320)
	d.w.must("mn", "ping", "-6", "-c", "2", "-i", "0.2", "-W", "3", "cn")
	d.w.lossless(t, u, began)
	testutil.Eventually(t, patience, func() bool {
		diagnosis, _, _ := d.mn.command("doctor")
		return strings.Contains(diagnosis, session+" to net1") && strings.Contains(diagnosis, "in the session prefix")
	}, "doctor tells of the routes and the address")
	d.w.must("mn", "ip", "-6", "rule", "del", "not", "fwmark", "51820", "table", "51820")
	d.w.must("mn", "ip", "-6", "rule", "del", "table", "main", "suppress_prefixlength", "0")
}

// deleted removes what leads to session addresses.
func (d *doors) deleted(t *testing.T) {
	session := roam.DefaultSessionPrefix.Prefix().String()
	d.w.must("mn", "ip", "-6", "route", "del", session, "dev", "roam0", "table", "local")
	testutil.Eventually(t, patience, func() bool {
		return strings.Contains(d.w.must("mn", "ip", "-6", "route", "show", "dev", "roam0", "table", "local"), session)
	}, "the session route is back")
	d.works(t, 7330)
	d.w.echo(t, "cn", 7340)
	tcp := d.w.talk(t, "mn", "tcp6", "cn", 7340)
	for _, device := range []string{"roam0", "roam0d"} {
		d.w.must("mn", "ip", "link", "del", device)
		testutil.Eventually(t, patience, func() bool {
			_, err := d.w.run("mn", "ping", "-6", "-c", "1", "-W", "1", "cn")
			return err == nil
		}, "sessions go on without "+device)
		tcp.say(t, "after "+device)
		testutil.Eventually(t, patience, func() bool { return tcp.heard("after " + device) },
			"the connection goes on without "+device)
	}
}
