package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Key describes one key of the file.
type Key struct {
	Name    string // "section.key"
	Default string // as TOML
	Allowed string // what may stand there, for people
	Meaning string
	Restart bool // a change waits for the next start of the daemon
	show    func(Config) string
	// take sets the key's value in to to that of from; nil where Restart holds.
	take func(to *Config, from Config)
}

// The words of the keys that choose among words, in the order of their values.
var (
	modeWords     = []string{Soft: "soft", Hard: "hard", Duality: "duality"}
	livenessWords = []string{LivenessNormal: "normal", LivenessFast: "fast", LivenessRelaxed: "relaxed"}
	acceptWords   = []string{AcceptKnown: "known", AcceptAny: "any"}
	luWords       = []string{LURFC6743: "rfc6743", LUDraft: "draft"}
	logWords      = []string{LogText: "text", LogJSON: "json"}
	checksumWords = []string{ChecksumIPv6: "ipv6", ChecksumRFC6741: "rfc6741"}
)

const (
	allowedBool     = "true or false"
	allowedDir      = "an absolute path"
	allowedNames    = "a list of link names, no globs"
	allowedGlobs    = `a list of link names or globs, such as ["wlan*", "eth0"]`
	allowedDuration = `a duration from %s to %s, such as "10m"`
)

// The bounds of the number of sessions.
const minSessions, maxSessions = 256, 1 << 20

// The bounds of the durations.
const (
	minFallback, maxFallback = time.Second, 24 * time.Hour
	minIdle, maxIdle         = 10 * time.Second, 7 * 24 * time.Hour
)

var keys = []Key{
	{Name: "host.nid", Default: `"auto"`, Restart: true,
		Allowed: `"auto", "from-address" or four groups of hexadecimal digits, such as "0011:22ff:0:1", whose first byte has its two low bits zero`,
		Meaning: "Node Identifier of this host",
		show:    func(c Config) string { return quote(c.Host.NID.String()) }},
	{Name: "host.mode", Default: `"soft"`, Allowed: words(modeWords),
		Meaning: "how the host uses several links",
		show:    func(c Config) string { return quote(modeWords[c.Host.Mode]) },
		take:    func(to *Config, from Config) { to.Host.Mode = from.Host.Mode }},
	{Name: "host.liveness", Default: `"normal"`, Allowed: words(livenessWords), Restart: true,
		Meaning: "how soon data leave a path that falls silent: after about 0.3 s, 0.15 s or 3 s",
		show:    func(c Config) string { return quote(livenessWords[c.Host.Liveness]) }},
	{Name: "host.accept", Default: `"known"`, Allowed: words(acceptWords), Restart: true,
		Meaning: "which nodes may open a session towards this host",
		show:    func(c Config) string { return quote(acceptWords[c.Host.Accept]) }},
	{Name: "host.session_prefix", Default: `"fd69:6c6e:7000:2627::/64"`, Restart: true,
		Allowed: "a checksum-neutral /64 inside fc00::/7",
		Meaning: "prefix of session addresses, which no network of the host has",
		show:    func(c Config) string { return quote(c.SessionNet().String()) }},
	{Name: "host.device", Default: `"roam0"`, Restart: true,
		Allowed: "an interface name of 1 to 13 characters without blanks and any of / : * ? [",
		Meaning: "name of the interface through which sessions leave",
		show:    func(c Config) string { return quote(c.Host.Device) }},
	{Name: "host.run_dir", Default: `"/run/roam"`, Restart: true,
		Allowed: allowedDir + " of at most 90 characters", Meaning: "directory of the control socket, the pinned maps and the journal",
		show: func(c Config) string { return quote(c.Host.RunDir) }},
	{Name: "host.state_dir", Default: `"/var/lib/roam"`, Restart: true,
		Allowed: allowedDir, Meaning: "directory of files that survive a reboot: Node Identifier, added peers, sessions",
		show: func(c Config) string { return quote(c.Host.StateDir) }},
	{Name: "host.hosts", Default: `"/etc/roam/hosts"`,
		Allowed: allowedDir, Meaning: "path of the hosts file",
		show: func(c Config) string { return quote(c.Host.Hosts) },
		take: func(to *Config, from Config) { to.Host.Hosts = from.Host.Hosts }},
	{Name: "uplinks.include", Default: `[]`, Allowed: allowedGlobs, Restart: true,
		Meaning: "links that may carry sessions; empty: every link with a global prefix and a default route",
		show:    func(c Config) string { return quoteAll(c.Uplinks.Include) }},
	{Name: "uplinks.exclude", Default: `["docker*", "br-*", "virbr*", "wg*", "tailscale*", "zt*"]`, Allowed: allowedGlobs, Restart: true,
		Meaning: "links that never carry sessions, whatever include says",
		show:    func(c Config) string { return quoteAll(c.Uplinks.Exclude) }},
	{Name: "uplinks.prefer", Default: `[]`, Allowed: allowedGlobs, Restart: true,
		Meaning: "links that the host prefers while they work, the best first; all others come last, the newest of them first",
		show:    func(c Config) string { return quoteAll(c.Uplinks.Prefer) }},
	{Name: "uplinks.fast", Default: `[]`, Allowed: allowedGlobs, Restart: true,
		Meaning: "links on which host.liveness is \"fast\"",
		show:    func(c Config) string { return quoteAll(c.Uplinks.Fast) }},
	{Name: "uplinks.relaxed", Default: `[]`, Allowed: allowedGlobs, Restart: true,
		Meaning: "links on which host.liveness is \"relaxed\", unless uplinks.fast names them",
		show:    func(c Config) string { return quoteAll(c.Uplinks.Relaxed) }},
	{Name: "uplinks.disabled", Default: `[]`, Allowed: allowedNames,
		Meaning: "links that the host does not use until `roam locator enable LINK`",
		show:    func(c Config) string { return quoteAll(c.Uplinks.Disabled) },
		take:    func(to *Config, from Config) { to.Uplinks.Disabled = from.Uplinks.Disabled }},
	{Name: "uplinks.preference", Default: `{}`,
		Allowed: "a table of link names, no globs, with numbers from 0 to 65000, such as { eth0 = 10, wwan0 = 80 }",
		Meaning: "preference of the locators on these links, lower is preferred; that of all others is 10",
		show:    func(c Config) string { return preferenceText(c.Uplinks.Preference) },
		take:    func(to *Config, from Config) { to.Uplinks.Preference = from.Uplinks.Preference }},
	{Name: "uplinks.outside", Default: `{}`, Restart: true,
		Allowed: `a table of prefixes of 64 bits with lists of such prefixes, as in { "fd00:0:1::" = ["2001:db8:a::"] }`,
		Meaning: "the providers' prefixes that a site border makes of an internal one, which updates list in its place",
		show:    func(c Config) string { return outsideText(c.Uplinks.Outside) }},
	{Name: "uplinks.border", Default: `[]`, Allowed: "a list of names of the hosts file, such as [\"border.example\"]",
		Meaning: "site borders whose keys the hosts file has; the locators that they report replace uplinks.outside",
		show:    func(c Config) string { return quoteAll(c.Uplinks.Border) },
		take:    func(to *Config, from Config) { to.Uplinks.Border = from.Uplinks.Border }},
	{Name: "uplinks.ignore_policy", Default: `false`, Allowed: allowedBool, Restart: true,
		Meaning: "use links although an IPsec policy or policy routing would send the packets elsewhere",
		show:    func(c Config) string { return strconv.FormatBool(c.Uplinks.IgnorePolicy) }},
	{Name: "dns.enabled", Default: `true`, Allowed: allowedBool, Restart: true,
		Meaning: "answer names on loopback",
		show:    func(c Config) string { return strconv.FormatBool(c.DNS.Enabled) }},
	{Name: "dns.listen", Default: `"127.0.0.156:53"`, Restart: true,
		Allowed: `a loopback address and port, such as "127.0.0.156:53" or "[::1]:53"`,
		Meaning: "where the daemon answers names",
		show:    func(c Config) string { return quote(c.DNS.Listen.String()) }},
	{Name: "dns.upstream", Default: `[]`,
		Allowed: `a list of server addresses, with a port or without, such as ["2001:db8::53", "192.0.2.1:53"]`,
		Meaning: "servers for all other names; empty: those of the host's own resolv.conf",
		show:    func(c Config) string { return quoteAll(serverTexts(c.DNS.Upstream)) },
		take:    func(to *Config, from Config) { to.DNS.Upstream = from.DNS.Upstream }},
	{Name: "dns.manage_resolv_conf", Default: `true`, Allowed: allowedBool, Restart: true,
		Meaning: "point resolv.conf to this resolver while the daemon runs",
		show:    func(c Config) string { return strconv.FormatBool(c.DNS.ManageResolvConf) }},
	{Name: "dns.resolv_conf", Default: `"/etc/resolv.conf"`, Allowed: allowedDir, Restart: true,
		Meaning: "path of resolv.conf",
		show:    func(c Config) string { return quote(c.DNS.ResolvConf) }},
	{Name: "literals.enabled", Default: `true`, Allowed: allowedBool, Restart: true,
		Meaning: "make sessions of connections to real addresses of known peers",
		show:    func(c Config) string { return strconv.FormatBool(c.Literals.Enabled) }},
	{Name: "literals.cgroup", Default: `""`, Allowed: `an absolute path, or "" for the root of cgroup2`, Restart: true,
		Meaning: "cgroup of the processes whose connections become sessions",
		show:    func(c Config) string { return quote(c.Literals.Cgroup) }},
	{Name: "ilnp.nonce_length", Default: `4`, Allowed: "4 or 12", Restart: true,
		Meaning: "bytes of this host's nonces (RFC 6744 §2)",
		show:    func(c Config) string { return strconv.Itoa(c.ILNP.NonceLength) }},
	{Name: "ilnp.lu_format", Default: `"rfc6743"`, Allowed: words(luWords), Restart: true,
		Meaning: "form of Locator Updates to peers that have sent none yet",
		show:    func(c Config) string { return quote(luWords[c.ILNP.LUFormat]) }},
	{Name: "ilnp.checksum", Default: `"ipv6"`, Allowed: words(checksumWords), Restart: true,
		Meaning: "rule of the TCP and UDP checksums on the wire",
		show:    func(c Config) string { return quote(checksumWords[c.ILNP.Checksum]) }},
	{Name: "ilnp.fallback_lifetime", Default: `"10m"`, Allowed: fmt.Sprintf(allowedDuration, "1s", "24h"), Restart: true,
		Meaning: "how long Roam remembers that a peer has no ILNP",
		show:    func(c Config) string { return quote(duration(c.ILNP.FallbackLifetime)) }},
	{Name: "ilnp.idle_timeout", Default: `"10m"`, Allowed: fmt.Sprintf(allowedDuration, "10s", "168h"), Restart: true,
		Meaning: "how long Roam keeps a session without packets",
		show:    func(c Config) string { return quote(duration(c.ILNP.IdleTimeout)) }},
	{Name: "ilnp.max_sessions", Default: `16384`, Allowed: fmt.Sprintf("%d to %d", minSessions, maxSessions), Restart: true,
		Meaning: "number of sessions that the kernel's maps can hold",
		show:    func(c Config) string { return strconv.Itoa(c.ILNP.MaxSessions) }},
	{Name: "ilnp.udp_port", Default: `6740`, Allowed: "a port from 1 to 65535, or 0 for never", Restart: true,
		Meaning: "UDP port of control messages on paths that drop destination options or ICMPv6; the same at both ends",
		show:    func(c Config) string { return strconv.Itoa(int(c.ILNP.UDPPort)) }},
	{Name: "ilnp.flow_label", Default: `false`, Allowed: allowedBool, Restart: true,
		Meaning: "set the highest bit of the flow label in packets of sessions, for site borders",
		show:    func(c Config) string { return strconv.FormatBool(c.ILNP.FlowLabel) }},
	{Name: "ilnp.show_connections", Default: `true`, Allowed: allowedBool, Restart: true,
		Meaning: "resync conntrack of firewalls on the new path for TCP connections that stall after a move",
		show:    func(c Config) string { return strconv.FormatBool(c.ILNP.ShowConnections) }},
	{Name: "metrics.listen", Default: `""`, Restart: true,
		Allowed: `an address and port, such as "127.0.0.1:9643" or "[::1]:9643", or "" for none`,
		Meaning: "where the daemon serves metrics for Prometheus, under /metrics",
		show:    func(c Config) string { return quote(addrText(c.Metrics.Listen)) }},
	{Name: "log.format", Default: `"text"`, Allowed: words(logWords), Restart: true,
		Meaning: "form of the log: key=value, or a JSON object a line",
		show:    func(c Config) string { return quote(logWords[c.Log.Format]) }},
	{Name: "observer.links", Default: `[]`, Allowed: allowedGlobs, Restart: true,
		Meaning: "links whose packets the observer counts; empty: every link but lo and those of Roam itself",
		show:    func(c Config) string { return quoteAll(c.Observer.Links) }},
	{Name: "border.inside", Default: `[]`, Allowed: allowedGlobs, Restart: true,
		Meaning: "links to the inside of the site",
		show:    func(c Config) string { return quoteAll(c.Border.Inside) }},
	{Name: "border.links", Default: `[]`,
		Allowed: `a list of locators, each with the name of its link, no glob, such as ["2001:db8:a:: wan0"]`,
		Meaning: "links to the providers, with the locators that these assigned",
		show:    func(c Config) string { return quoteAll(c.Border.linkTexts()) },
		take:    func(to *Config, from Config) { to.Border.Links = from.Border.Links }},
	{Name: "border.drained", Default: `[]`, Allowed: allowedNames,
		Meaning: "links to providers that the border stops using; it still receives from them",
		show:    func(c Config) string { return quoteAll(c.Border.Drained) },
		take:    func(to *Config, from Config) { to.Border.Drained = from.Border.Drained }},
	{Name: "border.xdp", Default: `[]`, Allowed: allowedNames,
		Meaning: "links whose drivers forward plain packets of known flows (XDP)",
		show:    func(c Config) string { return quoteAll(c.Border.XDP) },
		take:    func(to *Config, from Config) { to.Border.XDP = from.Border.XDP }},
	{Name: "border.policy", Default: `""`, Allowed: `lines of Locator Prec Scope Advice Label [Rewrite [Flags]]`,
		Meaning: "how locators are rewritten, and packets divided among them",
		show:    func(c Config) string { return quote(c.Border.Policy) },
		take:    func(to *Config, from Config) { to.Border.Policy = from.Border.Policy }},
	{Name: "border.fallback", Default: `"translate"`, Allowed: words(fallbackWords),
		Meaning: "treatment of packets that belong to no ILNP flow",
		show:    func(c Config) string { return quote(fallbackWords[c.Border.Fallback]) },
		take:    func(to *Config, from Config) { to.Border.Fallback = from.Border.Fallback }},
	{Name: "border.tcp", Default: `"connection"`, Allowed: words(divisionWords),
		Meaning: "how TCP is divided among the providers",
		show:    func(c Config) string { return quote(divisionWords[c.Border.TCP]) },
		take:    func(to *Config, from Config) { to.Border.TCP = from.Border.TCP }},
	{Name: "border.flow_label", Default: `false`, Allowed: allowedBool,
		Meaning: "the highest bit of the flow label marks packets of sessions, whatever border.fallback says of others",
		show:    func(c Config) string { return strconv.FormatBool(c.Border.FlowLabel) },
		take:    func(to *Config, from Config) { to.Border.FlowLabel = from.Border.FlowLabel }},
	{Name: "border.announce", Default: `"20ms"`, Restart: true,
		Allowed: fmt.Sprintf(allowedDuration, "1ms", "5s"),
		Meaning: "how long the border collects changes of links before it announces them",
		show:    func(c Config) string { return quote(duration(c.Border.Announce)) }},
	{Name: "border.idle_timeout", Default: `"10m"`, Restart: true,
		Allowed: fmt.Sprintf(allowedDuration, "10s", "168h"),
		Meaning: "how long the border keeps a flow without packets",
		show:    func(c Config) string { return quote(duration(c.Border.IdleTimeout)) }},
	{Name: "border.liveness", Default: `true`, Allowed: allowedBool, Restart: true,
		Meaning: "probe by each provider whether nodes outside answer, and leave one that passes nothing",
		show:    func(c Config) string { return strconv.FormatBool(c.Border.Liveness) }},
	{Name: "border.max_flows", Default: `65536`, Allowed: fmt.Sprintf("%d to %d", minFlows, maxFlows), Restart: true,
		Meaning: "how many flows the border has space for at a time",
		show:    func(c Config) string { return strconv.Itoa(c.Border.MaxFlows) }},
	{Name: "border.udp_port", Default: `6740`, Allowed: "a port from 1 to 65535, or 0 for none", Restart: true,
		Meaning: "ilnp.udp_port of the hosts whose sessions cross the border",
		show:    func(c Config) string { return strconv.Itoa(int(c.Border.UDPPort)) }},
	{Name: KeyRoles, Default: `["host"]`, Allowed: `a list of roles, such as ["host"]`, Restart: true,
		Meaning: "roles of this daemon",
		show:    func(c Config) string { return quoteAll(c.Roles) }},
}

func addrText(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// Keys lists every key of the file in the order of the manual.
func Keys() []Key { return append([]Key(nil), keys...) }

// Value returns the key's value in c, as TOML.
func (k Key) Value(c Config) string { return k.show(c) }

// Change is one difference between two configurations.
type Change struct {
	Key      string
	Old, New string // as TOML
	Restart  bool   // it waits for the next start of the daemon
	Role     string // that the key belongs to; "": any daemon has it
}

// String returns "section.key: old -> new".
func (c Change) String() string { return fmt.Sprintf("%s: %s -> %s", c.Key, c.Old, c.New) }

// Diff lists what differs, in the order of Keys. The settings of a role that new
// does not list are no difference: the list of roles is one.
func Diff(old, new Config) []Change {
	var out []Change
	for _, k := range keys {
		if a, b := k.show(old), k.show(new); a != b && k.effective(new) {
			out = append(out, Change{Key: k.Name, Old: a, New: b, Restart: k.Restart || !k.effective(old), Role: k.Role()})
		}
	}
	if a, b := ruleTexts(old.Rules), ruleTexts(new.Rules); !slices.Equal(a, b) && new.Has(RoleHost) {
		out = append(out, Change{
			Key: sectionRule, Old: quoteAll(a), New: quoteAll(b), Restart: !old.Has(RoleHost), Role: RoleHost,
		})
	}
	return out
}

// Format returns c as a file that Parse reads back to the same value, every
// key with its meaning above it. Keys of roles that c does not list are left out.
func Format(c Config) string {
	var b strings.Builder
	section := ""
	for _, k := range keys {
		if !k.effective(c) {
			continue
		}
		s, name, _ := strings.Cut(k.Name, ".")
		if s != section {
			if section != "" {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "[%s]\n", s)
			section = s
		}
		fmt.Fprintf(&b, "# %s: %s\n%s = %s\n", k.Meaning, k.Allowed, name, k.show(c))
	}
	if c.Has(RoleHost) {
		formatRules(&b, c.Rules)
	}
	return b.String()
}

func allowed(name string) string {
	for _, k := range keys {
		if k.Name == name {
			return k.Allowed
		}
	}
	for _, k := range ruleTable {
		if sectionRule+"."+k.name == name {
			return k.allowed
		}
	}
	return ""
}

func words(w []string) string {
	q := make([]string, len(w))
	for i, s := range w {
		q[i] = quote(s)
	}
	return "one of " + strings.Join(q, ", ")
}

// quote writes a TOML basic string; what Go escapes and TOML does not know
// (\a, \v, \x) is refused by the checks of every key.
func quote(s string) string { return strconv.Quote(s) }

func quoteAll(list []string) string {
	q := make([]string, len(list))
	for i, s := range list {
		q[i] = quote(s)
	}
	return "[" + strings.Join(q, ", ") + "]"
}

func serverTexts(list []netip.AddrPort) []string {
	out := make([]string, len(list))
	for i, a := range list {
		out[i] = a.String()
	}
	return out
}

// duration drops the zero units of time.Duration's own form: 10m, not 10m0s.
func duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
