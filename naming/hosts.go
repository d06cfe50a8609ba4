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
	Line int // from 1; 0: the file as a whole
	Err  error
}

// Error returns "file:line: fault".
func (e *Error) Error() string { return fmt.Sprintf("%v: %v", Place{e.File, e.Line}, e.Err) }

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

// File is the text of one hosts file.
type File struct {
	Name string // for errors and places
	Text string
}

// Place is where something is written.
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

// Line is one line of a hosts file, as far as it could be read.
type Line struct {
	Place
	Record Record // what the line says by itself; the NID is zero if that cannot be read
	Fault  error  // why the line is skipped; nil if it is not
}

// Hosts is what hosts files say: the records of the lines that can be used, and
// the faults of the others.
type Hosts struct {
	Records []Record // in the order of the first lines of each node
	Lines   []Line   // without empty lines, comments, and the order of the lines that follow
	Faults  Errors   // one for each line that is skipped
}

// ParseHosts reads a hosts file as ReadHosts does, all or nothing: the error is of
// type Errors and complete, and there are no records then.
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
// The first form is that of the papers: identifier first. The option
// "order=locator-first" turns it round for its line; alone on a line, for the
// lines that follow ("order=identifier-first" turns it back). Other options
// are checksum=ipv6|rfc6741, update=rfc6743|draft, nonce=first|always,
// lu-order=new|old and anywhere=yes|no. "#" begins a comment.
//
// Lines of one node in one file add up: each may give further locators and
// names. What a later file says of a node replaces locators and options of an
// earlier file, see Record.With. A name means one node in all files: a line
// that gives it to another one has a fault.
func ReadHosts(files ...File) Hosts {
	p := hostsParser{byName: make(map[string]owner), all: make(map[roam.NID]int)}
	for _, f := range files {
		p.read(f)
	}
	return p.out
}

// owner is the node that a name was given to, and where.
type owner struct {
	nid roam.NID
	at  Place
}

type hostsParser struct {
	out    Hosts
	all    map[roam.NID]int // index in out.Records
	byName map[string]owner

	// Of the file at hand.
	file         string
	records      []Record
	index        map[roam.NID]int // in records
	locatorFirst bool
	orderFault   int // line of an order that cannot be read, and holds for what follows
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
			p.fault(n, err)
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

func (p *hostsParser) fault(n int, err error) {
	p.out.Faults = append(p.out.Faults, &Error{File: p.file, Line: n, Err: err})
}

// order reads a line that says how those behind it are to be read.
func (p *hostsParser) order(n int, field string) {
	first, err := parseOrder(field)
	p.locatorFirst, p.orderFault = first, 0
	if err != nil {
		// To guess would turn identifiers and locators round.
		p.orderFault = n
		p.fault(n, err)
	}
}

// line reads one line, and returns what it says by itself, also where that
// contradicts other lines.
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
		// A name answers with one address, hence means one node.
		if o, ok := p.byName[name]; ok && o.nid != r.NID {
			since := fmt.Sprintf("line %d", o.at.Line)
			if o.at.File != p.file {
				since = o.at.String()
			}
			return r, fmt.Errorf("name %s means node %v since %s: give this node, %v, another name", name, o.nid, since, r.NID)
		}
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
	for _, name := range r.Names {
		if _, ok := p.byName[name]; !ok {
			p.byName[name] = owner{r.NID, Place{p.file, n}}
		}
	}
	return r, nil
}

// Written returns the lines that say something of a node, those with a fault among them.
func (h Hosts) Written(nid roam.NID) (out []Line) {
	for _, l := range h.Lines {
		if l.Record.NID == nid && nid != 0 {
			out = append(out, l)
		}
	}
	return out
}

// Named returns the first line that gives a node a name, in the form of CleanName,
// and is not skipped.
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
	case "anywhere":
		var i int
		i, err = word(f, value, anywhereWords)
		e.Anywhere = Anywhere(i)
	default:
		return fmt.Errorf("%q: unknown option; there are nid, l64, order, checksum, update, nonce, lu-order and anywhere", f)
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
