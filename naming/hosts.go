package naming

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"roam"
)

// Error is one fault of a hosts file.
type Error struct {
	File string
	Line int // from 1
	Err  error
}

// Error returns "file:line: fault".
func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }

// Unwrap returns the fault itself.
func (e *Error) Unwrap() error { return e.Err }

// Errors is every fault of a hosts file, in its order.
type Errors []*Error

// Error returns the faults, one a line.
func (e Errors) Error() string {
	s := make([]string, len(e))
	for i, x := range e {
		s[i] = x.Error()
	}
	return strings.Join(s, "\n")
}

// Unwrap returns the faults, for errors.As.
func (e Errors) Unwrap() []error {
	s := make([]error, len(e))
	for i, x := range e {
		s[i] = x
	}
	return s
}

// ParseHosts reads a hosts file; name stands for it in errors. A line is
//
//	n-n-n-n.l+l+l+l                [option...] name [alias...]
//	nid=n:n:n:n [l64=l:l:l:l[,preference]...] [option...] name [alias...]
//
// The first form is that of the papers: identifier first. The option
// "order=locator-first" turns it round for its line; alone on a line, for the
// lines that follow ("order=identifier-first" turns it back). Other options
// are checksum=ipv6|rfc6741, update=rfc6743|draft, nonce=first|always and
// lu-order=new|old. "#" begins a comment.
//
// Lines of one node add up: each may give further locators and names. The
// records come in the order of their first lines. The error is of type Errors
// and complete; there are no records then.
func ParseHosts(name, text string) ([]Record, error) {
	p := hostsParser{byName: make(map[string]owner)}
	var errs Errors
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		if err := p.line(n, strings.Fields(line)); err != nil {
			errs = append(errs, &Error{File: name, Line: n, Err: err})
		}
	}
	if errs != nil {
		return nil, errs
	}
	for i := range p.records {
		p.records[i].sortLocators()
	}
	return p.records, nil
}

// owner is the node that a name was given to, and where.
type owner struct {
	nid  roam.NID
	line int
}

type hostsParser struct {
	records      []Record
	byName       map[string]owner
	locatorFirst bool
}

func (p *hostsParser) line(n int, fields []string) error {
	if len(fields) == 0 {
		return nil
	}
	if len(fields) == 1 && strings.HasPrefix(fields[0], "order=") {
		first, err := parseOrder(fields[0])
		p.locatorFirst = first
		return err
	}
	r, err := parseFields(fields, p.locatorFirst)
	if err != nil {
		return err
	}
	for _, name := range r.Names {
		// A name answers with one address, hence means one node.
		if o, ok := p.byName[name]; ok && o.nid != r.NID {
			return fmt.Errorf("name %s means node %v since line %d: give this node, %v, another name", name, o.nid, o.line, r.NID)
		} else if !ok {
			p.byName[name] = owner{r.NID, n}
		}
	}
	i := slices.IndexFunc(p.records, func(x Record) bool { return x.NID == r.NID })
	if i < 0 {
		p.records = append(p.records, Record{NID: r.NID})
		i = len(p.records) - 1
	}
	return p.records[i].merge(r)
}

// ParseHostsLine reads one line of a hosts file, without comment.
func ParseHostsLine(line string) (Record, error) {
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return Record{}, fmt.Errorf("the line is empty")
	}
	r, err := parseFields(fields, false)
	if err != nil {
		return Record{}, err
	}
	out := Record{NID: r.NID}
	if err := out.merge(r); err != nil {
		return Record{}, err
	}
	out.sortLocators()
	return out, nil
}

// entry is a line being read.
type entry struct {
	Record
	vector       string
	hasNID       bool
	locatorFirst bool
}

func parseFields(fields []string, locatorFirst bool) (Record, error) {
	e := entry{locatorFirst: locatorFirst}
	for _, f := range fields {
		if err := e.field(f); err != nil {
			return Record{}, err
		}
	}
	if err := e.resolve(); err != nil {
		return Record{}, err
	}
	if len(e.Names) == 0 {
		return Record{}, fmt.Errorf("no name: add the host's name at the end of the line")
	}
	return e.Record, checkNode(e.NID, e.Locators)
}

func (e *entry) field(f string) error {
	key, value, ok := strings.Cut(f, "=")
	if len(e.Names) > 0 && (ok || isVector(f)) {
		return fmt.Errorf("%q stands after a name: names come last", f)
	}
	switch {
	case ok:
		return e.option(key, value, f)
	case isVector(f):
		if e.vector != "" || e.hasNID {
			return fmt.Errorf("%q: the line has an identifier already; give further locators on lines of their own", f)
		}
		e.vector = f
		return nil
	}
	if e.vector == "" && !e.hasNID {
		return fmt.Errorf("%q: want n-n-n-n.l+l+l+l or nid=n:n:n:n before the name", f)
	}
	n, err := CleanName(f)
	if err != nil {
		return err
	}
	e.Names = append(e.Names, n)
	return nil
}

func (e *entry) option(key, value, f string) (err error) {
	switch key {
	case "nid":
		if e.vector != "" || e.hasNID {
			return fmt.Errorf("%q: the line has an identifier already", f)
		}
		e.hasNID = true
		e.NID, err = roam.ParseNID(value)
	case "l64":
		if !e.hasNID {
			return fmt.Errorf("%q: nid= comes before l64=", f)
		}
		var l Locator
		l, err = parseLocator(value)
		e.Locators = append(e.Locators, l)
	case "order":
		e.locatorFirst, err = parseOrder(f)
	case "checksum":
		var i int
		i, err = word(f, value, checksumWords)
		e.Checksum = Checksum(i)
	case "update":
		var i int
		i, err = word(f, value, updateWords)
		e.Update = Update(i)
	case "nonce":
		var i int
		i, err = word(f, value, nonceWords)
		e.Nonce = Nonce(i)
	case "lu-order":
		var i int
		i, err = word(f, value, orderWords)
		e.Order = Order(i)
	default:
		return fmt.Errorf("%q: unknown option; there are nid, l64, order, checksum, update, nonce and lu-order", f)
	}
	return err
}

// resolve reads the vector once the whole line, and so its order, is known.
func (e *entry) resolve() error {
	if e.vector == "" {
		return nil
	}
	s := e.vector
	if e.locatorFirst {
		left, right, _ := strings.Cut(s, ".")
		// The separators stay where they are, dashes left and plus signs
		// right; only the meaning of the halves changes.
		s = strings.ReplaceAll(right, "+", "-") + "." + strings.ReplaceAll(left, "-", "+")
	}
	v, err := roam.ParseILV(s)
	if err != nil {
		return fmt.Errorf("%q (%s): %w", e.vector, order(e.locatorFirst), err)
	}
	e.NID = v.NID
	e.Locators = append(e.Locators, Locator{L64: v.L64, Preference: DefaultPreference})
	return nil
}

// isVector tells the papers' form from a name: a name has no plus sign.
func isVector(f string) bool { return strings.Contains(f, "+") }

func parseOrder(f string) (locatorFirst bool, err error) {
	switch f {
	case "order=locator-first":
		return true, nil
	case "order=identifier-first":
		return false, nil
	}
	return false, fmt.Errorf("%q: want order=identifier-first or order=locator-first", f)
}

func order(locatorFirst bool) string {
	if locatorFirst {
		return "read as locator.identifier"
	}
	return "read as identifier.locator"
}

// parseLocator reads "l:l:l:l[,preference]"; a /64 prefix serves as well.
func parseLocator(s string) (Locator, error) {
	text, pref, ok := strings.Cut(s, ",")
	l := Locator{Preference: DefaultPreference}
	if ok {
		n, err := strconv.ParseUint(pref, 10, 16)
		if err != nil {
			return l, fmt.Errorf("locator %q: preference %q is not a number from 0 to 65535", s, pref)
		}
		l.Preference = uint16(n)
	}
	if p, err := netip.ParsePrefix(text); err == nil && p.Bits() == 64 && p.Addr().Is6() {
		l.L64 = roam.ILVFromAddr(p.Addr()).L64
		return l, nil
	}
	v, err := roam.ParseL64(text)
	l.L64 = v
	return l, err
}

func word(f, value string, words []string) (int, error) {
	if i := slices.Index(words, value); i > 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%q: want one of %s", f, strings.Join(words[1:], ", "))
}
