package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"roam"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestDefault(t *testing.T) {
	c := Default()
	if c.Host.SessionPrefix != roam.DefaultSessionPrefix {
		t.Errorf("session prefix %v, want the vocabulary's %v", c.Host.SessionPrefix, roam.DefaultSessionPrefix)
	}
	if got, want := c.Socket(), "/run/roam/control.sock"; got != want {
		t.Errorf("Socket() = %q, want %q", got, want)
	}
	if c.Host.Mode != Soft || c.Host.Accept != AcceptKnown || c.Host.NID.Source != NIDAuto {
		t.Errorf("defaults of host: %+v", c.Host)
	}
	if c.DNS.Listen != netip.MustParseAddrPort("127.0.0.156:53") || !c.DNS.Enabled {
		t.Errorf("defaults of dns: %+v", c.DNS)
	}
	if c.ILNP.FallbackLifetime != 10*time.Minute || c.ILNP.NonceLength != 4 {
		t.Errorf("defaults of ilnp: %+v", c.ILNP)
	}
}

const full = `
[host]
nid = "0011:22ff:0:1"
mode = "duality"
accept = "any"
session_prefix = "fd00:0:0:2ff::/64"
device = "roam7"
run_dir = "/run/roam7/"
state_dir = "/var/lib/roam7"
hosts = "/etc/roam/hosts7"

[uplinks]
include = ["wlan*", "eth[01]"]
exclude = []
disabled = ["eth1"]

[dns]
enabled = false
listen = "[::1]:5353"
upstream = ["2001:db8::53", "192.0.2.1:5300", "[fe80::1%eth0]:53"]
manage_resolv_conf = false
resolv_conf = "/tmp/resolv.conf"

[literals]
enabled = false
cgroup = "/sys/fs/cgroup/h1"

[ilnp]
nonce_length = 12
lu_format = "draft"
checksum = "rfc6741"
fallback_lifetime = "90s"
idle_timeout = "1h30m"
max_sessions = 5000
show_connections = false
udp_port = 7000

[metrics]
listen = "[::1]:9643"
`

func TestParseFull(t *testing.T) {
	c, err := Parse("roam.conf", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Host: Host{
			NID: NIDChoice{Source: NIDFixed, Value: 0x0011_22ff_0000_0001}, Mode: Duality, Accept: AcceptAny,
			SessionPrefix: 0xfd00_0000_0000_02ff, Device: "roam7", RunDir: "/run/roam7",
			StateDir: "/var/lib/roam7", Hosts: "/etc/roam/hosts7",
		},
		Uplinks: Uplinks{Include: []string{"wlan*", "eth[01]"}, Disabled: []string{"eth1"}},
		DNS: DNS{
			Listen: netip.MustParseAddrPort("[::1]:5353"), ResolvConf: "/tmp/resolv.conf",
			Upstream: []netip.AddrPort{
				netip.MustParseAddrPort("[2001:db8::53]:53"), netip.MustParseAddrPort("192.0.2.1:5300"),
				netip.MustParseAddrPort("[fe80::1%eth0]:53"),
			},
		},
		Literals: Literals{Cgroup: "/sys/fs/cgroup/h1"},
		ILNP: ILNP{
			NonceLength: 12, LUFormat: LUDraft, Checksum: ChecksumRFC6741,
			FallbackLifetime: 90 * time.Second, IdleTimeout: 90 * time.Minute, MaxSessions: 5000, UDPPort: 7000, ShowConnections: false,
		},
		Metrics: Metrics{Listen: netip.MustParseAddrPort("[::1]:9643")},
		Border: Border{Announce: 20 * time.Millisecond, IdleTimeout: 10 * time.Minute, Liveness: true, MaxFlows: 65536,
			UDPPort: 6740},
		Roles: []string{RoleHost},
	}
	opts := cmp.Options{
		cmpopts.EquateEmpty(),
		cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	}
	if d := cmp.Diff(want, c, opts); d != "" {
		t.Errorf("Parse (-want +got):\n%s", d)
	}
	again, err := Parse("formatted", []byte(Format(c)))
	if err != nil {
		t.Fatalf("Format wrote what Parse refuses: %v", err)
	}
	if d := cmp.Diff(c, again, opts); d != "" {
		t.Errorf("Format and Parse (-want +got):\n%s", d)
	}
}

func TestFaults(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"unknown key", "[host]\nnidd = \"auto\"", "t:2:1: host.nidd: unknown key; section [host] has nid, mode,"},
		{"unknown section", "[hots]\nnid = 1", "t:1:2: hots: unknown section; there are host, uplinks, dns, literals, ilnp, metrics"},
		{"syntax", "[host]\nmode = \n", "t:2:"},
		{"twice", "[host]\nmode = \"soft\"\nmode = \"hard\"", "t:3:"},
		{"type", "[host]\n\nmode = 3", `t:3:8: host.mode: wrong type of value; allowed: one of "soft", "hard", "duality"`},
		{"word", "host.mode = \"sofft\"", `t:1:1: host.mode: "sofft" is not allowed; allowed: one of "soft", "hard", "duality"`},
		{"inline table", "host = { mode = \"x\" }", "t:1:10: host.mode: "},
		{"nid form", "[host]\nnid = \"1:2:3\"", `t:2:1: host.nid: "1:2:3" is not allowed`},
		{"nid universal", "[host]\nnid = \"0200::1\"", "t:2:1: host.nid: "},
		{"nid group bit", "[host]\nnid = \"0300:0:0:1\"", "with both zero it is 0000:0000:0000:0001"},
		{"nid zero", "[host]\nnid = \"0:0:0:0\"", "anycast"},
		{"prefix length", "[host]\nsession_prefix = \"fd00::/48\"", "checksum-neutral /64"},
		{"prefix host bits", "[host]\nsession_prefix = \"fd69:6c6e:7000:2627::1/64\"", "t:2:1: host.session_prefix"},
		{"prefix neutral", "[host]\nsession_prefix = \"fd69:6c6e:7000:1::/64\"", "the nearest one that is: fd69:6c6e:7000:2627::/64"},
		{"prefix outside", "[host]\nsession_prefix = \"2001:db8:0:d246::/64\"", "outside fc00::/7"},
		{"device", "[host]\ndevice = \"a/b\"", "host.device"},
		{"device long", "[host]\ndevice = \"a23456789012345\"", "host.device"},
		{"relative", "[host]\nrun_dir = \"run\"", "host.run_dir"},
		{"long run dir", "[host]\nrun_dir = \"/" + strings.Repeat("x", 90) + "\"", "at most 90 characters"},
		{"glob", "[uplinks]\nexclude = [\"a[\"]", "t:2:1: uplinks.exclude: \"a[\""},
		{"border twice", "[uplinks]\nborder = [\"edge\", \"Edge.\"]", `t:2:1: uplinks.border: "Edge." is listed twice`},
		{"disabled", "[uplinks]\ndisabled = [\"\"]", "uplinks.disabled"},
		{"disabled glob", "[uplinks]\ndisabled = [\"wwan*\"]", `"wwan*" is not allowed; allowed: a list of link names, no`},
		{"disabled class", "[uplinks]\ndisabled = [\"wwan[01]\"]", "a list of link names, no globs"},
		{"device glob", "[host]\ndevice = \"roam?\"", `host.device: "roam?"`},
		{"listen", "[dns]\nlisten = \"0.0.0.0:53\"", "a loopback address and port"},
		{"listen port", "[dns]\nlisten = \"127.0.0.1\"", "a loopback address and port"},
		{"upstream", "[dns]\nupstream = [\"dns.example\"]", "dns.upstream"},
		{"upstream loop", "[dns]\nupstream = [\"127.0.0.156\"]", "forward queries to itself"},
		{"cgroup", "[literals]\ncgroup = \"x\"", "literals.cgroup"},
		{"nonce", "[ilnp]\nnonce_length = 8", "8 is not allowed; allowed: 4 or 12"},
		{"sessions", "[ilnp]\nmax_sessions = 255", "256 to 1048576"},
		{"flows", "[border]\nmax_flows = 1000", "1024 to 1048576"},
		{"duration", "[ilnp]\nidle_timeout = \"1s\"", "from 10s to 168h"},
		{"port", "[ilnp]\nudp_port = 65536", "a port from 1 to 65535, or 0 for never"},
		{"duration unit", "[ilnp]\nfallback_lifetime = \"10\"", "ilnp.fallback_lifetime"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Parse("t", []byte(tc.text))
			if err == nil {
				t.Fatal("accepted")
			}
			var es Errors
			if !errors.As(err, &es) {
				t.Fatalf("%T is not Errors", err)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q\nlacks %q", err, tc.want)
			}
			if es[0].Line == 0 {
				t.Errorf("error %q has no line", err)
			}
		})
	}
}

func TestAllFaultsAtOnceInOrder(t *testing.T) {
	_, err := Parse("t", []byte("[ilnp]\nchecksum = \"x\"\n[host]\nmode = \"y\"\n"))
	var es Errors
	if !errors.As(err, &es) || len(es) != 2 || es[0].Key != "ilnp.checksum" || es[1].Key != "host.mode" {
		t.Fatalf("got %v, want two faults in the order of the file", err)
	}
}

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "roam.conf")
	if _, err := Load(file); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("absent file: %v", err)
	}
	if err := os.WriteFile(file, []byte("[host]\nmode = \"hard\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file)
	if err != nil || c.Host.Mode != Hard {
		t.Fatalf("Load = %+v, %v", c.Host, err)
	}
}

func TestDiff(t *testing.T) {
	a := Default()
	b, err := Parse("t", []byte("[host]\nmode = \"hard\"\ndevice = \"r1\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Change{
		{Key: "host.mode", Old: `"soft"`, New: `"hard"`, Role: RoleHost},
		{Key: "host.device", Old: `"roam0"`, New: `"r1"`, Restart: true, Role: RoleHost},
	}
	if d := cmp.Diff(want, Diff(a, b)); d != "" {
		t.Errorf("Diff (-want +got):\n%s", d)
	}
	if got := Diff(a, a); got != nil {
		t.Errorf("Diff of equals = %v", got)
	}
}

func TestKeysMatchTheFile(t *testing.T) {
	// Every key must be readable, and its default must be what it shows.
	c := Default()
	for _, k := range Keys() {
		if got := k.Value(c); got != k.Default {
			t.Errorf("%s: default %s, shown as %s", k.Name, k.Default, got)
		}
		if k.Allowed == "" || k.Meaning == "" {
			t.Errorf("%s lacks a description", k.Name)
		}
	}
}

func TestAllows(t *testing.T) {
	for _, tc := range []struct {
		u    Uplinks
		link string
		want bool
	}{
		{Uplinks{}, "eth0", true},
		{Uplinks{Exclude: []string{"wg*"}}, "wg0", false},
		{Uplinks{Include: []string{"eth*"}}, "wlan0", false},
		{Uplinks{Include: []string{"eth*"}}, "eth3", true},
		{Uplinks{Include: []string{"eth*"}, Exclude: []string{"eth3"}}, "eth3", false},
	} {
		if got := tc.u.Allows(tc.link); got != tc.want {
			t.Errorf("%+v.Allows(%q) = %v", tc.u, tc.link, got)
		}
	}
}

func TestNeutral(t *testing.T) {
	for _, l := range []roam.L64{0xfd00_0000_0000_0001, 0xfdff_ffff_ffff_ffff, 0xfc00_1234_5678_9abc, roam.DefaultSessionPrefix} {
		n := neutral(l)
		if l>>16 != n>>16 {
			t.Errorf("neutral(%v) = %v changes more than the last word", l, n)
		}
		sum := uint64(n>>48) + uint64(n>>32&0xffff) + uint64(n>>16&0xffff) + uint64(n&0xffff)
		if sum%0xffff != 0 {
			t.Errorf("neutral(%v) = %v is not neutral", l, n)
		}
		if neutral(n) != n {
			t.Errorf("neutral(%v) = %v, not itself", n, neutral(n))
		}
	}
}

func TestDurationForm(t *testing.T) {
	got := []string{duration(10 * time.Minute), duration(time.Hour), duration(90 * time.Second), duration(time.Second)}
	if want := []string{"10m", "1h", "1m30s", "1s"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(full)
	f.Add(ruled)
	f.Add("host.mode = 'x'\n[[dns]]\n")
	f.Add("host = { mode = \"hard\", x = [1, {y=2}] }")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("t", []byte(text))
		if err != nil {
			return
		}
		again, err := Parse("t", []byte(Format(c)))
		if err != nil {
			t.Fatalf("Format wrote what Parse refuses: %v\n%s", err, Format(c))
		}
		if d := Diff(c, again); d != nil {
			t.Fatalf("changed by Format and Parse: %v", d)
		}
	})
}

func TestPlace(t *testing.T) {
	u := Uplinks{Prefer: []string{"eth*", "wlan0"}}
	for link, want := range map[string]int{"eth7": 0, "wlan0": 1, "wwan0": 2} {
		if got := u.Place(link); got != want {
			t.Errorf("place of %s: %d, want %d", link, got, want)
		}
	}
	if (Uplinks{}).Place("eth0") != 0 {
		t.Error("without a preference links differ")
	}
}

// A file with faults of every kind has all of them named at once, also where a value of a
// wrong type has several lines.
func TestAllFaultsAreNamed(t *testing.T) {
	const text = `[ilnp]
mode = 5
nonsense = 1
idle_timeout = "yes"

[dns]
enabled = [
  "a",
  "b",
]
listen = "nowhere"

[nothing]
x = 1
`
	_, err := Parse("f", []byte(text))
	var all Errors
	if !errors.As(err, &all) {
		t.Fatalf("error %v", err)
	}
	var got []string
	for _, e := range all {
		got = append(got, fmt.Sprintf("%d %s", e.Line, e.Key))
	}
	slices.Sort(got)
	want := []string{"11 dns.listen", "13 nothing", "2 ilnp.mode", "3 ilnp.nonsense", "4 ilnp.idle_timeout", "7 dns.enabled"}
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("faults %q\nwant   %q", got, want)
	}
}

// A fault of syntax does not hide the others, and brings no more with it.
func TestFaultsOfSyntaxHideNothing(t *testing.T) {
	for text, want := range map[string]string{
		"[ilnp]\nmode = 5\n[dns\nenabled = 3\n[host]\nmode = \"x\"":      "2 ilnp.mode; 3 ; 4 dns.enabled; 6 host.mode",
		"[uplinks]\nprefer = [\"eth*\", wlan*]\ninclude = 3\n":           "2 ; 3 uplinks.include",
		"[uplinks]\nprefer = [\n  \"eth*\",\n  wlan*,\n]\ninclude = 3\n": "4 ; 6 uplinks.include",
		"[host]\nmode = \nmode soft\nnid = \"x\"\n":                      "2 ; 3 ; 4 host.nid",
		"[host]\nmode = \"soft\nnid = \"x\"\n":                           "2 ; 3 host.nid",
		"[uplinks]\nprefer = [ # the best\n[dns]\nenabled = 5\n":         "2 ; 4 dns.enabled",
		"[uplinks]\nprefer = [\"]\",\n \"b\"\ninclude = 3\n":             "2 ; 4 uplinks.include",
		"[uplinks]\nprefer = [\n":                                        "2 ",
		"[host\n[nothing\n]]\nx = 1":                                     "1 ; 2 ; 4 host.x",
	} {
		_, err := Parse("f", []byte(text))
		var all Errors
		if !errors.As(err, &all) {
			t.Fatalf("%q: %v", text, err)
		}
		var got []string
		for _, e := range all {
			got = append(got, fmt.Sprintf("%d %s", e.Line, e.Key))
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%q\n%v\nhas %q, want %q", text, err, strings.Join(got, "; "), want)
		}
	}
}
