package hostnet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"

	"roam/internal/durable"
	"roam/internal/hostnet/desired"
)

// journal is the list of changes made to the host, oldest first, as it stands
// in its file. A change is in the file before it is made; what was recorded
// but not made is harmless to take back.
type journal struct {
	path    string
	entries []entry
	keyed   map[string][]entry // by the key of their items
}

// entry is one change: an item that was added, or a sysctl that was set. It is
// comparable.
type entry struct {
	owner string       // who wanted it first
	item  desired.Item // as desired.Item.Recorded has it
	old   string       // of a sysctl: the value to put back
}

// entryForm is an entry in the file: exactly one of the pointers is set.
type entryForm struct {
	Owner     string             `json:"owner"`
	Device    *desired.Device    `json:"device,omitempty"`
	Sysctl    *desired.Sysctl    `json:"sysctl,omitempty"`
	Old       string             `json:"old,omitempty"`
	Address   *desired.Address   `json:"address,omitempty"`
	Neighbour *desired.Neighbour `json:"neighbour,omitempty"`
	Proxy     *desired.Proxy     `json:"proxy,omitempty"`
	Route     *desired.Route     `json:"route,omitempty"`
	Rule      *desired.Rule      `json:"rule,omitempty"`
}

// journalFile is the form of the file.
type journalFile struct {
	Version int         `json:"version"`
	Changes []entryForm `json:"changes"`
}

// journalVersion is raised when an older Restore could not undo a newer file.
const journalVersion = 2

// form returns the entry as it is written.
func (e entry) form() entryForm {
	f := entryForm{Owner: e.owner, Old: e.old}
	switch x := e.item.(type) {
	case desired.Device:
		f.Device = &x
	case desired.Sysctl:
		f.Sysctl = &x
	case desired.Address:
		f.Address = &x
	case desired.Neighbour:
		f.Neighbour = &x
	case desired.Proxy:
		f.Proxy = &x
	case desired.Route:
		f.Route = &x
	case desired.Rule:
		f.Rule = &x
	}
	return f
}

// entry returns what a form says; false if it names no item or several.
func (f entryForm) entry() (entry, bool) {
	var items []desired.Item
	add := func(there bool, x func() desired.Item) {
		if there {
			items = append(items, x().Recorded())
		}
	}
	add(f.Device != nil, func() desired.Item { return *f.Device })
	add(f.Sysctl != nil, func() desired.Item { return *f.Sysctl })
	add(f.Address != nil, func() desired.Item { return *f.Address })
	add(f.Neighbour != nil, func() desired.Item { return *f.Neighbour })
	add(f.Proxy != nil, func() desired.Item { return *f.Proxy })
	add(f.Route != nil, func() desired.Item { return *f.Route })
	add(f.Rule != nil, func() desired.Item { return *f.Rule })
	if len(items) != 1 {
		return entry{}, false
	}
	return entry{f.Owner, items[0], f.Old}, true
}

// loadJournal reads a journal; a file that does not exist is an empty one.
func loadJournal(path string) (*journal, error) {
	j := &journal{path: path}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read journal of host changes: %w", err)
	}
	var head struct {
		Version int `json:"version"`
	}
	var list []entry
	if err = json.Unmarshal(b, &head); err == nil {
		switch head.Version {
		case 1:
			list, err = readFirstVersion(b)
		case journalVersion:
			list, err = readEntries(b)
		default:
			return nil, fmt.Errorf("journal of host changes %s has version %d, want %d: "+
				"run `roam down` of the version that wrote it", path, head.Version, journalVersion)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("journal of host changes %s is damaged "+
			"(compare `ip -6 addr`, then remove the file): %w", path, err)
	}
	j.hold(list)
	return j, nil
}

// hold takes entries over from the file, or as they stand there now.
func (j *journal) hold(list []entry) {
	j.entries, j.keyed = list, map[string][]entry{}
	for _, e := range list {
		key := e.item.Key()
		j.keyed[key] = append(j.keyed[key], e)
	}
}

func readEntries(b []byte) (list []entry, err error) {
	var f journalFile
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, err
	}
	for i, x := range f.Changes {
		e, ok := x.entry()
		if !ok {
			return nil, fmt.Errorf("change %d names no item, or several", i+1)
		}
		list = append(list, e)
	}
	return list, nil
}

// readFirstVersion reads a file of the builds that knew three kinds of changes,
// so that an upgrade takes over what they made.
func readFirstVersion(b []byte) (list []entry, err error) {
	var f struct {
		Changes []struct {
			Kind    string     `json:"kind"`
			Link    string     `json:"link"`
			Index   int        `json:"index"`
			Address netip.Addr `json:"address"`
			Sysctl  string     `json:"sysctl"`
			Old     string     `json:"old"`
		} `json:"changes"`
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, err
	}
	for _, c := range f.Changes {
		switch c.Kind {
		case "device":
			list = append(list, entry{ownerDevices, desired.Device{Name: c.Link, Peer: c.Link + peerSuffix}, ""})
		case "address":
			list = append(list, entry{ownerLocators, desired.Address{Link: c.Index, Addr: c.Address, Bits: 128}, ""})
		case "sysctl":
			link, key, ok := splitSysctl(c.Sysctl)
			if !ok {
				return nil, fmt.Errorf("sysctl %q, want LINK/KEY", c.Sysctl)
			}
			list = append(list, entry{ownerLocators, desired.Sysctl{Name: link, Param: key}, c.Old})
		default:
			return nil, fmt.Errorf("unknown kind of change %q", c.Kind)
		}
	}
	return list, nil
}

// edit writes the journal anew: without some entries, then with others. Entries
// that are there already cost nothing; of a sysctl the first old value stays.
func (j *journal) edit(without, with []entry) error {
	list := slices.DeleteFunc(slices.Clone(j.entries), func(e entry) bool { return slices.Contains(without, e) })
	for _, e := range with {
		if !slices.ContainsFunc(list, func(x entry) bool { return x.item == e.item }) {
			list = append(list, e)
		}
	}
	if slices.Equal(list, j.entries) {
		return nil
	}
	return j.save(list)
}

// named returns the entries under a key.
func (j *journal) named(key string) []entry { return j.keyed[key] }

// has reports whether an item is recorded.
func (j *journal) has(x desired.Item) bool { return j.entry(x).item != nil }

// entry returns the entry of an item; a zero one if there is none.
func (j *journal) entry(x desired.Item) entry {
	for _, e := range j.named(x.Key()) {
		if e.item == x {
			return e
		}
	}
	return entry{}
}

// of returns the entries of an owner.
func (j *journal) of(owner string) (list []entry) {
	for _, e := range j.entries {
		if e.owner == owner {
			list = append(list, e)
		}
	}
	return list
}

// save replaces the file as a whole: written, synced, renamed, so that a crash
// leaves the old one or the new one.
func (j *journal) save(list []entry) error {
	f := journalFile{Version: journalVersion, Changes: []entryForm{}}
	for _, e := range list {
		f.Changes = append(f.Changes, e.form())
	}
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("encode journal of host changes: %w", err)
	}
	if err := durable.Replace(j.path, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write journal of host changes: %w", err)
	}
	j.hold(list)
	return nil
}
