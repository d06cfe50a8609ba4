package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Error is one fault of the file.
type Error struct {
	File         string
	Line, Column int    // from 1; 0 when the fault has no place
	Key          string // "section.key", where there is one
	Message      string
}

// Error returns "file:line:column: key: message".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	b.WriteString(": ")
	if e.Key != "" {
		b.WriteString(e.Key + ": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

// Errors is every fault that was found, in the order of the file.
type Errors []*Error

// Error returns the faults, one a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, x := range e {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults, for errors.As.
func (e Errors) Unwrap() []error {
	out := make([]error, len(e))
	for i, x := range e {
		out[i] = x
	}
	return out
}

// raw is the file as TOML sees it. Words, addresses and durations are strings
// here; check gives them their types, so that every fault can name its key.
type raw struct {
	Host struct {
		NID           string `toml:"nid"`
		Mode          string `toml:"mode"`
		Liveness      string `toml:"liveness"`
		Accept        string `toml:"accept"`
		SessionPrefix string `toml:"session_prefix"`
		Device        string `toml:"device"`
		RunDir        string `toml:"run_dir"`
		StateDir      string `toml:"state_dir"`
		Hosts         string `toml:"hosts"`
	} `toml:"host"`
	Uplinks struct {
		Include  []string `toml:"include"`
		Exclude  []string `toml:"exclude"`
		Prefer   []string `toml:"prefer"`
		Fast     []string `toml:"fast"`
		Relaxed  []string `toml:"relaxed"`
		Disabled []string `toml:"disabled"`

		Preference map[string]int      `toml:"preference"`
		Outside    map[string][]string `toml:"outside"`
		Border     []string            `toml:"border"`

		IgnorePolicy bool `toml:"ignore_policy"`
	} `toml:"uplinks"`
	DNS struct {
		Enabled          bool     `toml:"enabled"`
		Listen           string   `toml:"listen"`
		Upstream         []string `toml:"upstream"`
		ManageResolvConf bool     `toml:"manage_resolv_conf"`
		ResolvConf       string   `toml:"resolv_conf"`
	} `toml:"dns"`
	Literals struct {
		Enabled bool   `toml:"enabled"`
		Cgroup  string `toml:"cgroup"`
	} `toml:"literals"`
	ILNP struct {
		NonceLength      int    `toml:"nonce_length"`
		LUFormat         string `toml:"lu_format"`
		Checksum         string `toml:"checksum"`
		FallbackLifetime string `toml:"fallback_lifetime"`
		IdleTimeout      string `toml:"idle_timeout"`
		MaxSessions      int    `toml:"max_sessions"`
		UDPPort          int    `toml:"udp_port"`
		FlowLabel        bool   `toml:"flow_label"`
		ShowConnections  bool   `toml:"show_connections"`
	} `toml:"ilnp"`
	Metrics struct {
		Listen string `toml:"listen"`
	} `toml:"metrics"`
	Log struct {
		Format string `toml:"format"`
	} `toml:"log"`
	Observer struct {
		Links []string `toml:"links"`
	} `toml:"observer"`
	Border struct {
		Inside      []string `toml:"inside"`
		Links       []string `toml:"links"`
		Drained     []string `toml:"drained"`
		XDP         []string `toml:"xdp"`
		Policy      string   `toml:"policy"`
		Fallback    string   `toml:"fallback"`
		TCP         string   `toml:"tcp"`
		FlowLabel   bool     `toml:"flow_label"`
		Announce    string   `toml:"announce"`
		IdleTimeout string   `toml:"idle_timeout"`
		Liveness    bool     `toml:"liveness"`
		MaxFlows    int      `toml:"max_flows"`
		UDPPort     int      `toml:"udp_port"`
	} `toml:"border"`
	Role struct {
		Run []string `toml:"run"`
	} `toml:"role"`
	Rules []rawRule `toml:"rule"`
}

// Parse reads and checks the text of a file; name stands for it in errors,
// which are of type Errors and complete: all faults, not the first one.
func Parse(name string, text []byte) (Config, error) {
	var r raw
	if err := toml.Unmarshal([]byte(defaults()), &r); err != nil {
		return Config{}, fmt.Errorf("read defaults: %w", err)
	}
	text, found := readable(name, text)
	dec := toml.NewDecoder(strings.NewReader(string(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		found = append(found, faults(name, err)...)
		if missing := new(toml.StrictMissingError); !errors.As(err, &missing) {
			return Config{}, found
		}
	}
	c := checker{file: name, places: places(text), errs: found}
	cfg := c.config(&r)
	if len(c.errs) > 0 {
		slices.SortStableFunc(c.errs, func(a, b *Error) int {
			if a.Line != b.Line {
				return a.Line - b.Line
			}
			return a.Column - b.Column
		})
		return Config{}, c.errs
	}
	return cfg, nil
}

// readable takes out of a text what cannot be read, and returns its faults: values of a wrong
// type, and expressions with a fault of syntax. So all the rest can be checked.
func readable(name string, text []byte) ([]byte, Errors) {
	const most = 100
	var found Errors
	for range most {
		var r raw
		var de *toml.DecodeError
		if err := toml.Unmarshal(text, &r); !errors.As(err, &de) {
			break
		}
		key := strings.Join(de.Key(), ".")
		line, _ := de.Position()
		if at, ok := places(text)[key]; ok && allowed(key) != "" {
			found, text = append(found, faults(name, de)...), blank(text, at.line)
		} else if open := unclosed(text, line); open > 0 {
			found = append(found, &Error{File: name, Line: open, Column: 1, Message: "a list begins here and is not closed: ] is missing"})
			text = repair(text, open)
		} else {
			found, text = append(found, faults(name, de)...), repair(text, line)
		}
	}
	return text, found
}

// noList matches what cannot begin or end a list: strings and comments.
var noList = regexp.MustCompile(`"[^"]*"|'[^']*'|#.*`)

// unclosed returns the line with the last key at or before a line whose list is still open there, as
// the TOML library finds where the next expression begins, or the text ends; 0: none is.
func unclosed(text []byte, line int) int {
	lines := strings.Split(string(text), "\n")
	if line <= len(lines) && !begins.MatchString(lines[line-1]) {
		return 0
	}
	open := 0
	for i := min(line, len(lines)) - 1; i >= 0; i-- {
		l := noList.ReplaceAllString(lines[i], "")
		if _, value, ok := strings.Cut(l, "="); ok {
			if open += strings.Count(value, "[") - strings.Count(value, "]"); open > 0 {
				return i + 1
			}
			open = 0
		} else if !strings.HasPrefix(strings.TrimSpace(l), "[") {
			open += strings.Count(l, "[") - strings.Count(l, "]")
		}
	}
	return 0
}

// begins matches a line that begins an expression.
var begins = regexp.MustCompile(`^\s*(\[|[A-Za-z0-9_."'-]+\s*=|[a-z_]+[ \t]+[^,\s]|#|$)`)

// repair takes out the expression around a line, of which the TOML library can say nothing but
// that it is wrong: up to the next line that looks as if another began. A header whose section
// can be guessed is completed, or the keys below it would be mistaken for others.
func repair(text []byte, line int) []byte {
	lines := strings.Split(string(text), "\n")
	from := min(line, len(lines)) - 1
	for from > 0 && !begins.MatchString(lines[from]) {
		from--
	}
	to := from + 1
	for to < len(lines) && !begins.MatchString(lines[to]) {
		to++
	}
	header := strings.TrimSpace(lines[from])
	for i := from; i < to; i++ {
		lines[i] = ""
	}
	for _, s := range sections() {
		if whole := "[" + s + "]"; strings.HasPrefix(header, "["+s) && header != whole {
			lines[from] = whole
		}
	}
	return []byte(strings.Join(lines, "\n"))
}

// sections returns the names of the sections in the order of the manual.
func sections() (list []string) {
	for _, k := range keys {
		if s, _, _ := strings.Cut(k.Name, "."); !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return append(list, sectionRule)
}

// blank empties the lines of the expression that begins on a line; the numbers of the others
// stay.
func blank(text []byte, line int) []byte {
	lines := strings.SplitAfter(string(text), "\n")
	end := len(lines) + 1
	for _, p := range places(text) {
		if p.line > line {
			end = min(end, p.line)
		}
	}
	for i := line; i < end; i++ {
		lines[i-1] = "\n"
	}
	return []byte(strings.Join(lines, ""))
}

// defaults is the file that the table of keys describes.
func defaults() string {
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&b, "%s = %s\n", k.Name, k.Default)
	}
	return b.String()
}

// faults turns the errors of the TOML library into ours.
func faults(name string, err error) Errors {
	var missing *toml.StrictMissingError
	if errors.As(err, &missing) {
		var out Errors
		for i := range missing.Errors {
			out = append(out, unknown(name, &missing.Errors[i]))
		}
		return out
	}
	var de *toml.DecodeError
	if errors.As(err, &de) {
		line, col := de.Position()
		key := strings.Join(de.Key(), ".")
		msg := strings.TrimPrefix(de.Error(), "toml: ")
		if a := allowed(key); a != "" {
			msg = "wrong type of value; allowed: " + a
		}
		return Errors{{File: name, Line: line, Column: col, Key: key, Message: msg}}
	}
	return Errors{{File: name, Message: strings.TrimPrefix(err.Error(), "toml: ")}}
}

// unknown says which keys there are where the file has another.
func unknown(name string, de *toml.DecodeError) *Error {
	line, col := de.Position()
	key := strings.Join(de.Key(), ".")
	section, _, _ := strings.Cut(key, ".")
	var siblings []string
	for _, k := range keys {
		s, n, _ := strings.Cut(k.Name, ".")
		if s == section {
			siblings = append(siblings, n)
		}
	}
	msg := fmt.Sprintf("unknown key; section [%s] has %s", section, strings.Join(siblings, ", "))
	if section == sectionRule {
		msg = "unknown key; a rule has " + strings.Join(RuleKeys(), ", ")
	} else if siblings == nil {
		msg = "unknown section; there are " + strings.Join(sections(), ", ")
	}
	return &Error{File: name, Line: line, Column: col, Key: key, Message: msg}
}

// place is where a value stands in the file, counted from 1.
type place struct{ line, column int }

// places finds every value and every section's first header, so that a fault found
// after decoding, when the library has forgotten where it was, can still name its
// place. The text is known to be valid TOML.
func places(text []byte) map[string]place {
	out := make(map[string]place)
	var p unstable.Parser
	p.Reset(text)
	var table []string
	elements := make(map[string]int)
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = keyParts(e.Key())
			if e.Kind == unstable.ArrayTable {
				if elements[table[0]]++; elements[table[0]] == 1 {
					out[table[0]] = start(&p, e)
				}
			}
			if n := elements[table[0]]; n > 0 {
				table[0] = elementName(table[0], n)
			}
			if name := strings.Join(table, "."); out[name] == (place{}) {
				out[name] = start(&p, e)
			}
		case unstable.KeyValue:
			note(&p, out, table, e)
		}
	}
	return out
}

// elementName names an element of an array of tables, counted from 1: "rule[2]".
func elementName(array string, n int) string { return fmt.Sprintf("%s[%d]", array, n) }

// note records a value, and those inside it when it is an inline table.
func note(p *unstable.Parser, out map[string]place, prefix []string, e *unstable.Node) {
	key := append(slices.Clone(prefix), keyParts(e.Key())...)
	v := e.Value()
	if v.Kind == unstable.InlineTable {
		out[strings.Join(key, ".")] = start(p, e)
		for it := v.Children(); it.Next(); {
			note(p, out, key, it.Node())
		}
		return
	}
	out[strings.Join(key, ".")] = start(p, e)
}

// start returns where the name of a value or section stands. It serves for every kind
// of value: not all nodes carry the range of their text.
func start(p *unstable.Parser, e *unstable.Node) place {
	k := e.Key()
	k.Next()
	at := p.Shape(k.Node().Raw).Start
	return place{at.Line, at.Column}
}

func keyParts(it unstable.Iterator) (parts []string) {
	for it.Next() {
		parts = append(parts, string(it.Node().Data))
	}
	return parts
}
