package golden

import (
	"encoding/hex"
	"fmt"
	"strings"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/xlate"
)

// icmpRule is the last key. It is absent if the rule is that of plain IPv6.
const icmpRule = "icmp-rule"

// keys are the other keys of the text, in the order of AppendText. Each is required, once.
var keys = []string{
	"description", "direction", "rule", "nonce", "session-prefix",
	"local-handle", "remote-handle", "local-nid", "remote-nid", "local-l64", "remote-l64",
}

// parseText reads a case without its packets.
func parseText(txt []byte) (Case, error) {
	values := make(map[string]string)
	for i, line := range strings.Split(string(txt), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			return Case{}, fmt.Errorf("line %d: no colon: %w", i+1, ErrFormat)
		}
		if _, twice := values[key]; twice {
			return Case{}, fmt.Errorf("line %d: %s again: %w", i+1, key, ErrFormat)
		}
		values[key] = strings.TrimSpace(value)
	}
	var c Case
	for _, key := range keys {
		value, ok := values[key]
		if !ok {
			return Case{}, fmt.Errorf("%s is missing: %w", key, ErrFormat)
		}
		if err := c.set(key, value); err != nil {
			return Case{}, fmt.Errorf("%s %q: %w: %w", key, value, ErrFormat, err)
		}
		delete(values, key)
	}
	if value, ok := values[icmpRule]; ok {
		var err error
		if c.Entry.ICMPRule, err = parseRule(value); err != nil {
			return Case{}, fmt.Errorf("%s %q: %w: %w", icmpRule, value, ErrFormat, err)
		}
		delete(values, icmpRule)
	}
	for key := range values {
		return Case{}, fmt.Errorf("unknown key %s: %w", key, ErrFormat)
	}
	return c, nil
}

// set parses and stores one value.
func (c *Case) set(key, value string) (err error) {
	switch key {
	case "description":
		c.Description = value
	case "direction":
		c.Direction = Direction(value)
		switch c.Direction {
		case Outward, Inward, ErrorInward, ErrorOutward:
		default:
			err = fmt.Errorf("want %s, %s, %s or %s", Outward, Inward, ErrorInward, ErrorOutward)
		}
	case "rule":
		c.Entry.Rule, err = parseRule(value)
	case "nonce":
		c.Entry.Nonce, err = parseNonce(value)
	case "session-prefix":
		c.Entry.SessionPrefix, err = roam.ParseL64(value)
	case "local-handle":
		c.Entry.LocalAlias, err = roam.ParseNID(value)
	case "remote-handle":
		c.Entry.RemoteAlias, err = roam.ParseNID(value)
	case "local-nid":
		c.Entry.LocalNID, err = roam.ParseNID(value)
	case "remote-nid":
		c.Entry.RemoteNID, err = roam.ParseNID(value)
	case "local-l64":
		c.Entry.LocalL64, err = roam.ParseL64(value)
	case "remote-l64":
		c.Entry.RemoteL64, err = roam.ParseL64(value)
	}
	return err
}

func parseRule(s string) (xlate.Rule, error) {
	for _, r := range []xlate.Rule{xlate.RuleIPv6, xlate.RuleRFC6741} {
		if s == r.String() {
			return r, nil
		}
	}
	return 0, fmt.Errorf("want %v or %v", xlate.RuleIPv6, xlate.RuleRFC6741)
}

// parseNonce reads hexadecimal digits, or "none".
func parseNonce(s string) (ilnp.Nonce, error) {
	if s == "none" {
		return ilnp.Nonce{}, nil
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		return ilnp.Nonce{}, fmt.Errorf("read hexadecimal digits: %w", err)
	}
	return ilnp.NewNonce(b)
}

// AppendText appends the case's text file to b.
func (c Case) AppendText(b []byte) []byte {
	nonce := "none"
	if c.Entry.Nonce.Present() {
		nonce = hex.EncodeToString(c.Entry.Nonce.Value())
	}
	e := c.Entry
	values := []any{
		c.Description, c.Direction, e.Rule, nonce, e.SessionPrefix,
		e.LocalAlias, e.RemoteAlias, e.LocalNID, e.RemoteNID, e.LocalL64, e.RemoteL64,
	}
	for i, key := range keys {
		b = fmt.Appendf(b, "%s: %v\n", key, values[i])
	}
	if e.ICMPRule != xlate.RuleIPv6 {
		b = fmt.Appendf(b, "%s: %v\n", icmpRule, e.ICMPRule)
	}
	return b
}
