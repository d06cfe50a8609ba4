package naming

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"roam"
	"roam/nidkey"
)

// Error is one fault of a hosts file.
type Error struct {
	File string
	Line int    // from 1; 0: the file as a whole
	Text string // of the line, without comment and with single blanks; "": the file as a whole
	Err  error
}

// Error returns "file:line: fault".
func (e *Error) Error() string { return fmt.Sprintf("%v: %v", Place{e.File, e.Line}, e.Err) }

// Unwrap returns the fault itself.
func (e *Error) Unwrap() error { return e.Err }

// Errors holds every fault of a hosts file, in the order of its lines.
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

// File is the text of one hosts file.
type File struct {
	Name string // for errors and places
	Text string
}

// Place is a position in a file.
type Place struct {
	File string
	Line int // from 1; 0: the file as a whole
}

// String returns "file:line", or the file alone.
func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Line is one line of a hosts file, as far as the parser could read it.
type Line struct {
	Place
	Record Record // of this line alone; the NID is zero if it cannot be read
	Fault  error  // why the line is skipped, or nil
}

// Hosts is the content of hosts files: the records of the valid lines, and the faults of
// the others.
type Hosts struct {
	Records []Record // in the order of the first lines of each node
	Lines   []Line   // without empty lines, comments, and lines that set the order
	Faults  Errors   // one for each skipped line
}

// ParseHosts is ReadHosts for one file, but returns no records if any line has a fault. Its
// error is of type Errors and lists every fault.
func ParseHosts(name, text string) ([]Record, error) {
	h := ReadHosts(File{name, text})
	if len(h.Faults) > 0 {
		return nil, h.Faults
	}
	return h.Records, nil
}

// ReadHosts reads hosts files, and skips the lines that have a fault. A line is
//
//	n-n-n-n.l+l+l+l                [option...] name [alias...]
//	nid=n:n:n:n [l64=l:l:l:l[,preference]...] [option...] name [alias...]
//
// The first form is that of the papers: identifier first. The option "order=locator-first"
// reverses it for its line; alone on a line, it reverses the form of all later lines, until
// "order=identifier-first" restores it. Other options are checksum=ipv6|rfc6741,
// update=rfc6743|draft, nonce=first|always, lu-order=new|old, anywhere=yes|no, plain=yes|no,
// key=KEY, the node's public key, and key=optional. "#" begins a comment.
//
// ReadHosts merges the lines of one node in one file: each may add locators and names. A
// later file replaces the locators and options of an earlier one, see Record.With. A name
// means one node in all files: a line that gives it to another node has a fault.
func ReadHosts(files ...File) Hosts {
	p := hostsParser{byName: make(map[string]owner), all: make(map[roam.NID]int), keys: make(map[roam.NID]boundKey)}
	for _, f := range files {
		p.read(f)
	}
	return p.out
}

// owner is the node that has a name, and the place of the line that says so.
type owner struct {
	nid roam.NID
	at  Place
}

// boundKey is the key of a node, and the place of the line that says so.
type boundKey struct {
	key nidkey.Claim
	at  Place
}

type hostsParser struct {
	out    Hosts
	keys   map[roam.NID]boundKey
	all    map[roam.NID]int // index in out.Records
	byName map[string]owner

	// State of the current file.
	file         string
	records      []Record
	index        map[roam.NID]int // in records
	locatorFirst bool
	orderFault   int // line of an unreadable order, which makes the lines behind it unreadable
}

// read adds one file.
func (p *hostsParser) read(f File) {
	p.file, p.records, p.index, p.locatorFirst, p.orderFault = f.Name, nil, make(map[roam.NID]int), false, 0
	n := 0
	for text := range strings.Lines(f.Text) {
		n++
		text, _, _ = strings.Cut(text, "#")
		fields := strings.Fields(text)
		switch {
		case len(fields) == 0:
			continue
		case len(fields) == 1 && strings.HasPrefix(fields[0], "order="):
			p.order(n, fields[0])
			continue
		}
		r, err := p.line(n, fields)
		p.out.Lines = append(p.out.Lines, Line{Place: Place{f.Name, n}, Record: r, Fault: err})
		if err != nil {
			p.fault(n, err, fields...)
		}
	}
	for _, r := range p.records {
		r.sortLocators()
		if i, ok := p.all[r.NID]; ok {
			p.out.Records[i] = p.out.Records[i].With(r)
			continue
		}
		p.all[r.NID] = len(p.out.Records)
		p.out.Records = append(p.out.Records, r)
	}
}

func (p *hostsParser) fault(n int, err error, fields ...string) {
	p.out.Faults = append(p.out.Faults, &Error{File: p.file, Line: n, Text: strings.Join(fields, " "), Err: err})
}

// order reads a line that sets the order of all later lines.
func (p *hostsParser) order(n int, field string) {
	first, err := parseOrder(field)
	p.locatorFirst, p.orderFault = first, 0
	if err != nil {
		// A guess could swap identifiers and locators.
		p.orderFault = n
		p.fault(n, err, field)
	}
}

// line reads one line and returns its own record, even if that contradicts other lines.
func (p *hostsParser) line(n int, fields []string) (Record, error) {
	if p.orderFault > 0 && isVector(fields[0]) && !slices.ContainsFunc(fields, func(f string) bool {
		return strings.HasPrefix(f, "order=")
	}) {
		return Record{}, fmt.Errorf("%q: it is not known which half comes first, since line %d has a fault",
			fields[0], p.orderFault)
	}
	r, err := parseFields(fields, p.locatorFirst)
	if err != nil {
		return Record{}, err
	}
	for _, name := range r.Names {
		// A name resolves to one session address, so it means one node.
		if o, ok := p.byName[name]; ok && o.nid != r.NID {
			since := fmt.Sprintf("line %d", o.at.Line)
			if o.at.File != p.file {
				since = o.at.String()
			}
			return r, fmt.Errorf("name %s means node %v since %s: give this node, %v, another name", name, o.nid, since, r.NID)
		}
	}
	if k, bound := p.keys[r.NID]; bound && r.Key.Present() && k.key.Public != r.Key.Public {
		return r, fmt.Errorf("node %v has key %s in %v and %s here: a node has one key", r.NID, k.key, k.at, r.Key)
	}
	next := Record{NID: r.NID}
	i, known := p.index[r.NID]
	if known {
		next = p.records[i]
	}
	if err := next.merge(r); err != nil {
		return r, err
	}
	if known {
		p.records[i] = next
	} else {
		p.index[r.NID] = len(p.records)
		p.records = append(p.records, next)
	}
	if r.Key.Present() {
		p.keys[r.NID] = boundKey{r.Key, Place{p.file, n}}
	}
	for _, name := range r.Names {
		if _, ok := p.byName[name]; !ok {
			p.byName[name] = owner{r.NID, Place{p.file, n}}
		}
	}
	return r, nil
}

// Written returns the lines about a node, including those with a fault.
func (h Hosts) Written(nid roam.NID) (out []Line) {
	for _, l := range h.Lines {
		if l.Record.NID == nid && nid != 0 {
			out = append(out, l)
		}
	}
	return out
}

// Named returns the first valid line that gives a node a name, in the form of CleanName.
func (h Hosts) Named(name string) (Line, bool) {
	for _, l := range h.Lines {
		if l.Fault == nil && slices.Contains(l.Record.Names, name) {
			return l, true
		}
	}
	return Line{}, false
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

// entry is a partly read line.
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
	case "anywhere":
		var i int
		i, err = word(f, value, anywhereWords)
		e.Anywhere = Anywhere(i)
	case "plain":
		var i int
		i, err = word(f, value, plainWords)
		e.Plain = Plain(i)
	case "key":
		if value == keyOptional {
			e.Optional = true
			return nil
		}
		if e.Key.Present() {
			return fmt.Errorf("%q: the line has a key already", f)
		}
		e.Key, err = nidkey.ParseClaim(value)
	default:
		return fmt.Errorf("%q: unknown option; there are nid, l64, order, checksum, update, nonce, lu-order, "+
			"anywhere, plain and key", f)
	}
	return err
}

// resolve reads the vector. It runs after the whole line, since an option may set the
// order.
func (e *entry) resolve() error {
	if e.vector == "" {
		return nil
	}
	s := e.vector
	if e.locatorFirst {
		left, right, _ := strings.Cut(s, ".")
		// The separators keep their places, dashes left and plus signs right; only the
		// meaning of the halves changes.
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

// isVector distinguishes the papers' form from a name: no name has a plus sign.
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

// parseLocator reads "l:l:l:l[,preference]", or a /64 prefix in place of the locator.
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
