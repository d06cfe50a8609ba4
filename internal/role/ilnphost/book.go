package ilnphost

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"

	"roam"
	"roam/internal/config"
	"roam/internal/control"
	"roam/naming"
)

// bookHead begins a new file of added peers.
const bookHead = "# Kept by `roam add`; one correspondent a line, as in the hosts file.\n"

// book is what is written of correspondents: the hosts file, which only the user
// edits, and the file of added peers, of which it makes new texts. Nothing is written
// by its methods.
type book struct {
	hosts, peers naming.File
	naming.Hosts // of both

	before  naming.Hosts // as the files were before the last change
	retired roam.NID     // whose key vouched for that of another record, that change; 0: none
}

// openBook reads both files; neither need exist.
func openBook(cfg config.Config) (book, error) {
	b := book{hosts: naming.File{Name: cfg.Host.Hosts}, peers: naming.File{Name: cfg.Peers()}}
	for _, f := range []*naming.File{&b.hosts, &b.peers} {
		text, err := os.ReadFile(f.Name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return b, fmt.Errorf("read correspondents: %w", err)
		}
		f.Text = string(text)
	}
	b.Hosts = naming.ReadHosts(b.hosts, b.peers)
	return b, nil
}

// has reports whether a node has a name already.
func (b book) has(nid roam.NID, name string) bool {
	l, ok := b.Named(name)
	return ok && l.Record.NID == nid
}

// find returns the node that a word means, a Node Identifier or a name.
func (b book) find(word string) (roam.NID, bool) {
	if nid, err := roam.ParseNID(word); err == nil {
		return nid, len(b.Written(nid)) > 0
	}
	name, err := naming.CleanName(word)
	if err != nil {
		return 0, false
	}
	l, ok := b.Named(name)
	return l.Record.NID, ok
}

// record returns what is known of a node.
func (b book) record(nid roam.NID) naming.Record {
	i := slices.IndexFunc(b.Records, func(r naming.Record) bool { return r.NID == nid })
	if i < 0 {
		return naming.Record{NID: nid}
	}
	return b.Records[i]
}

// inHosts returns the lines of the hosts file among these.
func (b book) inHosts(lines []naming.Line) (out []naming.Line) {
	for _, l := range lines {
		if l.File == b.hosts.Name {
			out = append(out, l)
		}
	}
	return out
}

// edit returns the book with the lines of the file of added peers as change wants
// them: it is called for each line that names a node, and returns the new line, or ""
// to drop it. Lines that it returns as they are keep their comments.
func (b book) edit(change func(l naming.Line) string, more ...string) book {
	byLine := make(map[int]naming.Line)
	for _, l := range b.Lines {
		if l.File == b.peers.Name {
			byLine[l.Line] = l
		}
	}
	var out strings.Builder
	n := 0
	for text := range strings.Lines(b.peers.Text) {
		n++
		text = strings.TrimRight(text, "\r\n")
		if l, ok := byLine[n]; ok {
			was := l.Record.HostsLine()
			next := change(l)
			if next == "" {
				continue
			}
			if next != was {
				text = next
			}
		}
		out.WriteString(text + "\n")
	}
	if out.Len() == 0 {
		out.WriteString(bookHead)
	}
	for _, line := range more {
		out.WriteString(line + "\n")
	}
	b.peers.Text = out.String()
	b.Hosts = naming.ReadHosts(b.hosts, b.peers)
	return b
}

// add returns the book with a record in place of what was added of its node before;
// options that the record does not set are kept. With replace its names are taken
// from the lines of others.
func (b book) add(r naming.Record, replace bool) (book, error) {
	var old naming.Record
	for _, l := range b.Written(r.NID) {
		if l.File == b.peers.Name && l.Fault == nil {
			old = old.With(l.Record)
		}
	}
	next := old.With(r)
	next.NID, next.Names, next.Locators = r.NID, r.Names, r.Locators
	return b.checked(b.edit(func(l naming.Line) string {
		switch {
		case l.Record.NID == r.NID:
			return ""
		case replace:
			return without(l, r.Names)
		}
		return l.Record.HostsLine()
	}, next.HostsLine()), r.NID)
}

// succeed returns the book with a record in place of what was added of it and of an older node.
func (b book) succeed(older roam.NID, r naming.Record) (book, error) {
	next, err := b.checked(b.edit(func(l naming.Line) string {
		if l.Record.NID == older || l.Record.NID == r.NID {
			return ""
		}
		return l.Record.HostsLine()
	}, r.HostsLine()), r.NID)
	next.retired = older
	return next, err
}

// sameKey refuses a record with another key than the one that is known of its node.
func (b book) sameKey(r naming.Record, replace bool) error {
	known := b.record(r.NID).Key
	if replace || !known.Present() || !r.Key.Present() || known.Public == r.Key.Public {
		return nil
	}
	return control.Errorf(control.CodeConflict, "node %v has the key %s here, and %s on the line: a node has one key",
		r.NID, known.Public, r.Key.Public).
		WithHint("if the peer itself says that it has a new key, add the line with --replace")
}

// without returns a line without some names; "" if none is left to it.
func without(l naming.Line, names []string) string {
	r := l.Record
	r.Names = slices.DeleteFunc(slices.Clone(r.Names), func(n string) bool { return slices.Contains(names, n) })
	if len(r.Names) == 0 && len(l.Record.Names) > 0 {
		return ""
	}
	return r.HostsLine()
}

// remove returns the book without what was added of a node.
func (b book) remove(nid roam.NID) book {
	return b.edit(func(l naming.Line) string {
		if l.Record.NID == nid {
			return ""
		}
		return l.Record.HostsLine()
	})
}

// rename returns the book with another name in place of one that a node has.
func (b book) rename(nid roam.NID, from, to string, replace bool) (book, error) {
	return b.checked(b.edit(func(l naming.Line) string {
		if l.Record.NID != nid {
			if replace {
				return without(l, []string{to})
			}
			return l.Record.HostsLine()
		}
		r := l.Record
		if slices.Contains(r.Names, from) {
			r.Names = nil
			for _, n := range l.Record.Names {
				switch n {
				case from:
					r.Names = append(r.Names, to)
				case to: // once is enough
				default:
					r.Names = append(r.Names, n)
				}
			}
		}
		return r.HostsLine()
	}), nid)
}

// checked returns the next book, unless a line of it could not be used that could be
// before, or none of a node can: what is written must be readable at the next start.
func (b book) checked(next book, nid roam.NID) (book, error) {
	for _, l := range next.Written(nid) {
		if l.Fault != nil && l.File == next.peers.Name {
			return b, control.Errorf(control.CodeConflict, "%w; nothing was written", l.Fault).WithHint("`roam peer show` lists who is known")
		}
	}
	if len(next.Faults) > len(b.Faults) {
		return b, control.Errorf(control.CodeConflict, "%w; nothing was written", next.Faults[len(next.Faults)-1]).
			WithHint("`roam config check` names every fault")
	}
	return next, nil
}

// touched returns the nodes whose records the last change has made, altered or taken away.
func (b book) touched() map[roam.NID]bool {
	nids, old := make(map[roam.NID]bool), make(map[roam.NID]naming.Record)
	for _, r := range b.before.Records {
		nids[r.NID], old[r.NID] = true, r
	}
	for _, r := range b.Records {
		if was, known := old[r.NID]; known && reflect.DeepEqual(was, r) {
			delete(nids, r.NID)
		} else {
			nids[r.NID] = true
		}
	}
	return nids
}

// places converts the places of lines.
func places(lines []naming.Line) []control.Place {
	out := make([]control.Place, 0, len(lines))
	for _, l := range lines {
		out = append(out, placeOf(l.Place))
	}
	return out
}

func placeOf(p naming.Place) control.Place { return control.Place(p) }
