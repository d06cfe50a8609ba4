package config

import (
	"fmt"
	"net/netip"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"roam"
)

// checker gives the values of the file their types and collects what is wrong.
type checker struct {
	file   string
	places map[string]place
	errs   Errors
}

func (c *checker) config(r *raw) Config {
	cfg := Config{
		Host: Host{
			NID:           c.nid("host.nid", r.Host.NID),
			Mode:          Mode(c.word("host.mode", r.Host.Mode, modeWords)),
			Liveness:      Liveness(c.word("host.liveness", r.Host.Liveness, livenessWords)),
			Accept:        Accept(c.word("host.accept", r.Host.Accept, acceptWords)),
			SessionPrefix: c.sessionPrefix("host.session_prefix", r.Host.SessionPrefix),
			Device:        c.device("host.device", r.Host.Device),
			RunDir:        c.dir("host.run_dir", r.Host.RunDir, 90),
			StateDir:      c.dir("host.state_dir", r.Host.StateDir, 4000),
			Hosts:         c.dir("host.hosts", r.Host.Hosts, 4000),
		},
		Uplinks: Uplinks{
			Include:  c.globs("uplinks.include", r.Uplinks.Include),
			Exclude:  c.globs("uplinks.exclude", r.Uplinks.Exclude),
			Prefer:   c.globs("uplinks.prefer", r.Uplinks.Prefer),
			Fast:     c.globs("uplinks.fast", r.Uplinks.Fast),
			Relaxed:  c.globs("uplinks.relaxed", r.Uplinks.Relaxed),
			Disabled: c.links("uplinks.disabled", r.Uplinks.Disabled),

			IgnorePolicy: r.Uplinks.IgnorePolicy,
			Preference:   c.preferences("uplinks.preference", r.Uplinks.Preference),
			Outside:      c.outside("uplinks.outside", r.Uplinks.Outside),
			Border:       c.names("uplinks.border", r.Uplinks.Border),
		},
		DNS: DNS{
			Enabled:          r.DNS.Enabled,
			Listen:           c.listen("dns.listen", r.DNS.Listen),
			Upstream:         c.servers("dns.upstream", r.DNS.Upstream),
			ManageResolvConf: r.DNS.ManageResolvConf,
			ResolvConf:       c.dir("dns.resolv_conf", r.DNS.ResolvConf, 4000),
		},
		Literals: Literals{Enabled: r.Literals.Enabled},
		ILNP: ILNP{
			NonceLength:      c.nonceLength("ilnp.nonce_length", r.ILNP.NonceLength),
			LUFormat:         LUFormat(c.word("ilnp.lu_format", r.ILNP.LUFormat, luWords)),
			Checksum:         Checksum(c.word("ilnp.checksum", r.ILNP.Checksum, checksumWords)),
			FallbackLifetime: c.duration("ilnp.fallback_lifetime", r.ILNP.FallbackLifetime, minFallback, maxFallback),
			IdleTimeout:      c.duration("ilnp.idle_timeout", r.ILNP.IdleTimeout, minIdle, maxIdle),
			MaxSessions:      c.number("ilnp.max_sessions", r.ILNP.MaxSessions, minSessions, maxSessions),
			UDPPort:          c.port("ilnp.udp_port", r.ILNP.UDPPort),
			FlowLabel:        r.ILNP.FlowLabel,
			ShowConnections:  r.ILNP.ShowConnections,
		},
	}
	cfg.Log.Format = LogFormat(c.word("log.format", r.Log.Format, logWords))
	cfg.Observer.Links = c.globs("observer.links", r.Observer.Links)
	cfg.Border = c.border(r)
	if r.Metrics.Listen != "" {
		cfg.Metrics.Listen = c.listenAnywhere("metrics.listen", r.Metrics.Listen)
	}
	if r.Literals.Cgroup != "" {
		cfg.Literals.Cgroup = c.dir("literals.cgroup", r.Literals.Cgroup, 4000)
	}
	if slices.Contains(cfg.DNS.Upstream, cfg.DNS.Listen) {
		c.fault("dns.upstream", "%s is dns.listen: Roam's resolver would forward queries to itself", cfg.DNS.Listen)
	}
	cfg.Rules = c.rules(r.Rules, cfg.Uplinks, cfg.Host.Device)
	found := len(c.errs)
	if cfg.Roles = c.roleList(r.Role.Run); len(c.errs) == found {
		c.sections(cfg.Roles) // of a list with faults nobody knows what it means
	}
	return cfg
}

func (c *checker) fault(key, format string, args ...any) {
	at := c.placeOf(key)
	c.errs = append(c.errs, &Error{File: c.file, Line: at.line, Column: at.column, Key: key, Message: fmt.Sprintf(format, args...)})
}

// placeOf returns where a key stands, or what it is part of: values inside an array have
// no place of their own.
func (c *checker) placeOf(key string) place {
	for {
		if at, ok := c.places[key]; ok {
			return at
		}
		i := strings.LastIndexAny(key, ".[")
		if i < 0 {
			return place{}
		}
		key = key[:i]
	}
}

// refuse is the fault whose whole story is what was found and what is allowed.
func (c *checker) refuse(key, got string) {
	c.fault(key, "%s is not allowed; allowed: %s", got, allowed(key))
}

// port takes 0 for none.
func (c *checker) port(key string, n int) uint16 {
	if n < 0 || n > 0xffff {
		c.refuse(key, strconv.Itoa(n))
		return 0
	}
	return uint16(n)
}

func (c *checker) word(key, s string, words []string) int {
	i := slices.Index(words, s)
	if i < 0 {
		c.refuse(key, strconv.Quote(s))
		return 0
	}
	return i
}

func (c *checker) nid(key, s string) NIDChoice {
	switch s {
	case "auto":
		return NIDChoice{Source: NIDAuto}
	case "from-address":
		return NIDChoice{Source: NIDFromAddress}
	}
	n, err := roam.ParseNID(s)
	if err != nil {
		c.refuse(key, strconv.Quote(s))
		return NIDChoice{}
	}
	// A set universal bit claims a registered IEEE address, a set group bit a
	// multicast one (RFC 4291 appendix A); zero is the routers' anycast address.
	if n>>56&3 != 0 {
		c.fault(key, "%v has a set universal or group bit; with both zero it is %v", n, n&^(3<<56))
	} else if n == 0 {
		c.fault(key, "zero is the subnet-router anycast identifier (RFC 4291 §2.6.1); allowed: %s", allowed(key))
	}
	return NIDChoice{Source: NIDFixed, Value: n}
}

func (c *checker) sessionPrefix(key, s string) roam.L64 {
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Bits() != 64 || !p.Addr().Is6() || p.Masked() != p {
		c.refuse(key, strconv.Quote(s))
		return roam.DefaultSessionPrefix
	}
	l := roam.ILVFromAddr(p.Addr()).L64
	if l>>57 != 0xfc>>1 {
		c.fault(key, "%s is outside fc00::/7: such addresses are routed or have another use", p)
		return l
	}
	if n := neutral(l); n != l {
		c.fault(key, "%s is not checksum-neutral (its four words must sum to 0xffff in one's complement); the nearest one that is: %s", p, n.Prefix())
	}
	return l
}

// neutral returns the checksum-neutral prefix that differs from l in its last
// word only; l itself when it is neutral.
func neutral(l roam.L64) roam.L64 {
	sum := uint64(l>>48 + l>>32&0xffff + l>>16&0xffff)
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	want := 0xffff - sum
	// One's complement has two zeros: a last word of 0 or 0xffff is the same.
	if got := uint64(l & 0xffff); got == want || got+want == 0xffff && got%0xffff == 0 {
		return l
	}
	return l&^0xffff | roam.L64(want)
}

func (c *checker) device(key, s string) string {
	// The other end of the session has the same name and an "x"; the segmentation device's two
	// have "d" and "dx".
	if len(s) > 13 || !linkName(s) {
		c.refuse(key, strconv.Quote(s))
	}
	return s
}

// linkName reports whether s can be the name of a link. A glob, which matches nothing where names are compared,
// is none.
func linkName(s string) bool {
	bad := func(r rune) bool {
		return strings.ContainsRune("/:*?[", r) || unicode.IsSpace(r) || !unicode.IsPrint(r)
	}
	return s != "" && len(s) <= 15 && s != "." && s != ".." && !strings.ContainsFunc(s, bad)
}

func (c *checker) dir(key, s string, limit int) string {
	if !filepath.IsAbs(s) || len(s) > limit || strings.ContainsFunc(s, unicode.IsControl) {
		c.refuse(key, strconv.Quote(s))
		return s
	}
	return filepath.Clean(s)
}

func (c *checker) globs(key string, list []string) []string {
	for _, g := range list {
		if _, err := path.Match(g, ""); err != nil || g == "" || strings.ContainsFunc(g, unicode.IsControl) {
			c.refuse(key, strconv.Quote(g))
		}
	}
	return list
}

func (c *checker) links(key string, list []string) []string {
	for _, s := range list {
		if !linkName(s) {
			c.refuse(key, strconv.Quote(s))
		}
	}
	return list
}

func (c *checker) listen(key, s string) netip.AddrPort {
	a, err := netip.ParseAddrPort(s)
	if err != nil || !a.Addr().IsLoopback() || a.Port() == 0 || a.Addr().Is4In6() {
		c.refuse(key, strconv.Quote(s))
	}
	return a
}

// listenAnywhere admits addresses beyond loopback: who may ask for figures is
// for the administrator to say.
func (c *checker) listenAnywhere(key, s string) netip.AddrPort {
	a, err := netip.ParseAddrPort(s)
	if err != nil || a.Port() == 0 || a.Addr().Is4In6() {
		c.refuse(key, strconv.Quote(s))
	}
	return a
}

func (c *checker) servers(key string, list []string) []netip.AddrPort {
	var out []netip.AddrPort
	for _, s := range list {
		a, err := netip.ParseAddrPort(s)
		if ip, e := netip.ParseAddr(s); e == nil {
			a, err = netip.AddrPortFrom(ip, 53), nil
		}
		if err != nil || a.Port() == 0 || a.Addr().IsUnspecified() || a.Addr().IsMulticast() {
			c.refuse(key, strconv.Quote(s))
			continue
		}
		out = append(out, a)
	}
	return out
}

func (c *checker) nonceLength(key string, n int) int {
	if n != 4 && n != 12 {
		c.refuse(key, strconv.Itoa(n))
	}
	return n
}

func (c *checker) number(key string, n, lo, hi int) int {
	if n < lo || n > hi {
		c.refuse(key, strconv.Itoa(n))
	}
	return n
}

func (c *checker) duration(key, s string, lo, hi time.Duration) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil || d < lo || d > hi {
		c.refuse(key, strconv.Quote(s))
	}
	return d
}
