package config

import (
	"fmt"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"roam"
	"roam/flowrule"
)

// DefaultPath is where the configuration is looked for.
const DefaultPath = "/etc/roam/roam.conf"

// Config is a valid configuration with every default filled in.
type Config struct {
	Host     Host
	Uplinks  Uplinks
	DNS      DNS
	Literals Literals
	ILNP     ILNP
	Metrics  Metrics
	Observer Observer
	Border   Border
	Log      Log
	Rules    flowrule.Set
	Roles    []string // what the daemon is, in the order in which it starts them
}

// Host is the section [host]: who this host is and where its files are.
type Host struct {
	NID           NIDChoice
	Mode          Mode
	Liveness      Liveness
	Accept        Accept
	SessionPrefix roam.L64 // checksum-neutral, in fc00::/7
	Device        string   // interface that sessions leave by
	RunDir        string
	StateDir      string
	Hosts         string // path of the hosts file
}

// Mode is what a host does with more than one usable link.
type Mode uint8

// The modes.
const (
	Soft Mode = iota
	Hard
	Duality
)

// Liveness is how soon a path that falls silent is suspected.
type Liveness uint8

// The levels of liveness.
const (
	LivenessNormal Liveness = iota
	LivenessFast
	LivenessRelaxed
)

// LivenessOf returns the level of a link of that name.
func (c Config) LivenessOf(link string) Liveness {
	switch {
	case matches(c.Uplinks.Fast, link):
		return LivenessFast
	case matches(c.Uplinks.Relaxed, link):
		return LivenessRelaxed
	}
	return c.Host.Liveness
}

// Levels returns every level that some link may have.
func (c Config) Levels() []Liveness {
	levels := []Liveness{c.Host.Liveness}
	if len(c.Uplinks.Fast) > 0 {
		levels = append(levels, LivenessFast)
	}
	if len(c.Uplinks.Relaxed) > 0 {
		levels = append(levels, LivenessRelaxed)
	}
	return levels
}

// Accept says who may open a session towards this host.
type Accept uint8

// The rules of acceptance.
const (
	AcceptKnown Accept = iota
	AcceptAny
)

// NIDSource says where the Node Identifier comes from.
type NIDSource uint8

// The sources of a Node Identifier.
const (
	NIDAuto        NIDSource = iota // the hash of the key that the first start makes; kept in the state directory
	NIDFromAddress                  // the low half of an address that the host has
	NIDFixed                        // NIDChoice.Value
)

// NIDChoice is the value of host.nid.
type NIDChoice struct {
	Source NIDSource
	Value  roam.NID // of NIDFixed
}

// String returns the choice as it stands in the file.
func (c NIDChoice) String() string {
	switch c.Source {
	case NIDFromAddress:
		return "from-address"
	case NIDFixed:
		return c.Value.String()
	}
	return "auto"
}

// Uplinks is the section [uplinks]: which links may carry sessions.
type Uplinks struct {
	Include  []string // globs; empty: every link
	Exclude  []string // globs; they win over Include
	Prefer   []string // globs of links to stay on, the best first
	Fast     []string // globs of links of that liveness, and
	Relaxed  []string // of that one; those of Fast win
	Disabled []string // names of links that wait for `roam locator enable`
	// Preference is that of the locators on links of these names; lower is preferred.
	Preference map[string]uint16
	// Outside names the locators that a site border makes of an internal one.
	Outside map[roam.L64][]roam.L64
	// Border are names of site borders, whose keys the hosts file has.
	Border []string
	// IgnorePolicy uses links although IPsec or policy routing would take packets elsewhere.
	IgnorePolicy bool
}

// Allows reports whether a link of that name may be an uplink.
func (u Uplinks) Allows(link string) bool {
	return !matches(u.Exclude, link) && (len(u.Include) == 0 || matches(u.Include, link))
}

// DefaultPreference is that of the locators on links which Uplinks.Preference does not name.
const DefaultPreference = 10

// PreferenceOf returns the preference of the locators on a link of that name.
func (u Uplinks) PreferenceOf(link string) uint16 {
	if p, ok := u.Preference[link]; ok {
		return p
	}
	return DefaultPreference
}

// Place returns where Prefer puts a link of that name: 0 for the best. Links that
// no glob matches share the last place.
func (u Uplinks) Place(link string) int {
	for i := range u.Prefer {
		if matches(u.Prefer[i:i+1], link) {
			return i
		}
	}
	return len(u.Prefer)
}

func matches(globs []string, link string) bool {
	for _, g := range globs {
		if ok, err := path.Match(g, link); ok && err == nil {
			return true
		}
	}
	return false
}

// DNS is the section [dns]: the resolver on loopback.
type DNS struct {
	Enabled          bool
	Listen           netip.AddrPort   // a loopback address
	Upstream         []netip.AddrPort // empty: from the saved resolv.conf
	ManageResolvConf bool
	ResolvConf       string
}

// Literals is the section [literals]: real addresses of known correspondents
// that applications connect to.
type Literals struct {
	Enabled bool
	Cgroup  string // directory of the cgroup that is covered; "": the root of cgroup2
}

// LUFormat is the form of Locator Updates that a peer is sent before it has
// shown which one it uses.
type LUFormat uint8

// The forms of a Locator Update.
const (
	LURFC6743 LUFormat = iota // 12-byte entries
	LUDraft                   // 16-byte entries, codes 0 to 7
)

// Checksum is the rule of the TCP and UDP checksums on the wire.
type Checksum uint8

// The rules of checksums.
const (
	ChecksumIPv6 Checksum = iota
	ChecksumRFC6741
)

// ILNP is the section [ilnp]: the protocol's parameters.
type ILNP struct {
	NonceLength      int // bytes: 4 or 12
	LUFormat         LUFormat
	Checksum         Checksum
	FallbackLifetime time.Duration // how long a peer without ILNP stays plain
	IdleTimeout      time.Duration // after which a session without packets ends
	MaxSessions      int           // that the kernel's tables have room for at a time
	UDPPort          uint16        // of control messages where a path drops the option or ICMPv6; 0: never
	FlowLabel        bool          // its highest bit marks packets of sessions
	ShowConnections  bool          // to firewalls that have lost track of them after a move
}

// Metrics is the section [metrics]: figures for Prometheus.
type Metrics struct {
	Listen netip.AddrPort // zero: not served
}

// Log is the section [log]: what the daemon writes to standard error.
type Log struct {
	Format LogFormat
}

// LogFormat is the form of a line of the log.
type LogFormat uint8

// The forms of the log.
const (
	LogText LogFormat = iota // key=value
	LogJSON                  // an object a line
)

// Observer is the section [observer]: the links whose packets are counted.
type Observer struct {
	Links []string // globs; empty: every link but lo and those of Roam itself
}

// Wants reports whether a link is to be observed; own: it is one of Roam itself.
func (o Observer) Wants(link string, own bool) bool {
	return matches(o.Links, link) || len(o.Links) == 0 && link != "lo" && !own
}

// Absent returns the globs that name none of these links.
func (o Observer) Absent(links []string) (globs []string) {
	for _, g := range o.Links {
		if !slices.ContainsFunc(links, func(l string) bool { return matches([]string{g}, l) }) {
			globs = append(globs, g)
		}
	}
	return globs
}

// Socket returns the path of the control socket.
func (c Config) Socket() string { return filepath.Join(c.Host.RunDir, "control.sock") }

// Pins returns the directory of the pinned maps and links.
func (c Config) Pins() string { return filepath.Join(c.Host.RunDir, "bpf") }

// Journal returns the path of the list of what was changed on the host.
func (c Config) Journal() string { return filepath.Join(c.Host.RunDir, "host.json") }

// Peers is the file that keeps what `roam add` was told, in the syntax of the hosts
// file.
func (c Config) Peers() string { return filepath.Join(c.Host.StateDir, "peers") }

// Record is the file that keeps the sessions, with their nonces, for the time after
// the next boot.
func (c Config) Record() string { return filepath.Join(c.Host.StateDir, "sessions") }

// InForce is the file in which a daemon keeps the configuration that it started with,
// so that it can be found and undone when that file has got faults since.
func (c Config) InForce() string { return filepath.Join(c.Host.RunDir, "roam.conf") }

// SessionNet returns the session prefix as an IPv6 prefix.
func (c Config) SessionNet() netip.Prefix { return c.Host.SessionPrefix.Prefix() }

// Default returns the configuration of an empty file.
func Default() Config {
	c, err := Parse("default", nil)
	if err != nil {
		panic(err) // the table of keys contradicts itself; a test reads it
	}
	return c
}

// Load reads and checks the file. An absent file is an error that wraps
// fs.ErrNotExist; the caller decides whether the defaults serve.
func Load(file string) (Config, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(file, b)
}
