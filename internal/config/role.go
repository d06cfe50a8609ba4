package config

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// The names of the roles. A daemon has RoleHost by default.
const (
	RoleHost     = "host"
	RoleObserver = "observer"
	RoleBorder   = "border"
)

// Role is a role that a daemon can have, as far as the file is concerned.
type Role struct {
	Name     string
	Meaning  string
	Sections []string // of the file; they are refused where the role is not listed
	// Excludes says of each role that cannot be in the same daemon why.
	Excludes map[string]string
}

// roles are the known roles in the order in which a daemon starts them.
var roles = []Role{
	{
		Name: RoleHost, Meaning: "an ILNPv6 host",
		Sections: []string{"host", "uplinks", "dns", "literals", "ilnp", sectionRule},
	},
	{Name: RoleObserver, Meaning: "counts what links carry", Sections: []string{"observer"}},
	{Name: RoleBorder, Meaning: "a site border router that rewrites locators", Sections: []string{"border"}},
}

// sharedKeys are keys of any daemon in a section of one role.
var sharedKeys = []string{"host.run_dir", "host.state_dir"}

// Roles lists every known role in the order in which a daemon starts them.
func Roles() []Role { return slices.Clone(roles) }

func roleNames() []string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = r.Name
	}
	return names
}

// Role returns the name of the role that the key belongs to; "": any daemon has it.
func (k Key) Role() string {
	section, _, _ := strings.Cut(k.Name, ".")
	if slices.Contains(sharedKeys, k.Name) {
		return ""
	}
	for _, r := range roles {
		if slices.Contains(r.Sections, section) {
			return r.Name
		}
	}
	return ""
}

// Has reports whether the daemon has a role.
func (c Config) Has(role string) bool { return slices.Contains(c.Roles, role) }

// effective reports whether a key means anything in c: its role is listed.
func (k Key) effective(c Config) bool {
	role := k.Role()
	return role == "" || c.Has(role)
}

// KeyRoles is the key that lists the roles of a daemon.
const KeyRoles = "role.run"

// roleList returns the roles that the file lists, in the order of their start.
func (c *checker) roleList(list []string) []string {
	if len(list) == 0 {
		c.fault(KeyRoles, "a daemon needs a role; allowed: %s", allowed(KeyRoles))
	}
	for i, name := range list {
		switch {
		case !slices.Contains(roleNames(), name):
			c.fault(KeyRoles, "there is no role %q; the roles are %s", name, quotedWords(roleNames()))
		case slices.Contains(list[:i], name):
			c.fault(KeyRoles, "%q is listed twice; list each role once", name)
		}
	}
	var out []string
	for _, r := range roles {
		if !slices.Contains(list, r.Name) {
			continue
		}
		for _, other := range out {
			if why := excluded(r.Name, other); why != "" {
				c.fault(KeyRoles, "%q and %q exclude each other: %s; list one of them", other, r.Name, why)
			}
		}
		out = append(out, r.Name)
	}
	return out
}

// excluded says why two roles cannot be in one daemon; "": they can.
func excluded(a, b string) string {
	for _, r := range roles {
		if r.Name == a && r.Excludes[b] != "" {
			return r.Excludes[b]
		}
		if r.Name == b && r.Excludes[a] != "" {
			return r.Excludes[a]
		}
	}
	return ""
}

// sections refuses each section whose role is not listed, once, where it begins.
func (c *checker) sections(listed []string) {
	for _, r := range roles {
		if slices.Contains(listed, r.Name) {
			continue
		}
		for _, section := range r.Sections {
			key, at, ok := c.begin(section)
			if !ok {
				continue
			}
			c.errs = append(c.errs, &Error{
				File: c.file, Line: at.line, Column: at.column, Key: key, Message: c.without(section, r),
			})
		}
	}
}

// begin returns where the file begins to use a section, and the key there; of a
// section with shared keys, where the first of the other keys is.
func (c *checker) begin(section string) (key string, first place, found bool) {
	mixed := slices.ContainsFunc(sharedKeys, func(k string) bool { return strings.HasPrefix(k, section+".") })
	for name, at := range c.places {
		switch {
		case mixed && slices.Contains(sharedKeys, name), mixed && name == section:
			continue
		case name != section && !strings.HasPrefix(name, section+"."):
			continue
		}
		if !found || at.line < first.line || at.line == first.line && at.column < first.column {
			key, first, found = name, at, true
		}
	}
	return key, first, found
}

// without says that a section's role is missing, and what to do.
func (c *checker) without(section string, r Role) string {
	var kept []string
	for _, k := range sharedKeys {
		if s, name, _ := strings.Cut(k, "."); s == section {
			kept = append(kept, name)
		}
	}
	subject := fmt.Sprintf("section [%s]", section)
	if kept != nil {
		subject += " without " + strings.Join(kept, " and ")
	}
	where := "which is off unless " + KeyRoles + " lists it"
	if at, ok := c.places[KeyRoles]; ok {
		where = fmt.Sprintf("which %s in line %d does not list", KeyRoles, at.line)
	}
	return fmt.Sprintf("%s belongs to the role %q, %s; list the role there, or remove the section",
		subject, r.Name, where)
}

func quotedWords(list []string) string {
	q := make([]string, len(list))
	for i, s := range list {
		q[i] = strconv.Quote(s)
	}
	return strings.Join(q, ", ")
}

// Merge returns the configuration that a daemon has in force once it has read next:
// the keys that need no restart are those of next. The settings of a role that next
// does not list stay as they are, since the role runs on.
func Merge(inForce, next Config) Config {
	for _, k := range keys {
		if k.take != nil && k.effective(inForce) && k.effective(next) {
			k.take(&inForce, next)
		}
	}
	if inForce.Has(RoleHost) && next.Has(RoleHost) {
		inForce.Rules = next.Rules
	}
	return inForce
}

// Line returns the line of a key in a file, from 1; 0 where it has none or the file
// cannot be read.
func Line(file, key string) int { return placeIn(file, key).line }

// placeIn returns where a key stands in a file; zero where it does not, or the file cannot be
// read.
func placeIn(file, key string) place {
	text, err := os.ReadFile(file)
	if err != nil || toml.Unmarshal(text, &map[string]any{}) != nil {
		return place{}
	}
	return places(text)[key]
}

// Place returns "FILE:LINE" of a key, or the file where Line knows none.
func Place(file, key string) string {
	if line := Line(file, key); line > 0 {
		return fmt.Sprintf("%s:%d", file, line)
	}
	return file
}
