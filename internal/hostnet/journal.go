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
)

// journal is the list of changes made to the host, oldest first, as it stands
// in its file. A change is in the file before it is made; what was recorded
// but not made is harmless to take back.
type journal struct {
	path    string
	changes []change
}

// changeKind says what a change was.
type changeKind string

const (
	addedAddress changeKind = "address" // Index, Link, Address
	setSysctl    changeKind = "sysctl"  // Sysctl, Old
	madeDevice   changeKind = "device"  // Link
)

// change is one entry of the journal. It is comparable.
type change struct {
	Kind    changeKind `json:"kind"`
	Link    string     `json:"link,omitempty"`   // interface name at that time
	Index   int        `json:"index,omitempty"`  // interface index
	Address netip.Addr `json:"address,omitzero"` // of /128
	Sysctl  string     `json:"sysctl,omitempty"` // below net/ipv6/conf
	Old     string     `json:"old,omitempty"`    // the value to put back
}

// journalFile is the form of the file.
type journalFile struct {
	Version int      `json:"version"`
	Changes []change `json:"changes"`
}

// journalVersion is raised when an older Restore could not undo a newer file.
const journalVersion = 1

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
	var f journalFile
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("journal of host changes %s is damaged (compare `ip -6 addr`, then remove the file): %w", path, err)
	}
	if f.Version != journalVersion {
		return nil, fmt.Errorf("journal of host changes %s has version %d, want %d: run `roam down` of the version that wrote it", path, f.Version, journalVersion)
	}
	j.changes = f.Changes
	return j, nil
}

// record writes changes that are about to be made. Those recorded already
// cost nothing.
func (j *journal) record(list ...change) error {
	fresh := slices.DeleteFunc(slices.Clone(list), func(c change) bool { return j.has(c) })
	if len(fresh) == 0 {
		return nil
	}
	return j.save(append(slices.Clone(j.changes), fresh...))
}

// forget removes changes that were taken back or are gone by themselves.
func (j *journal) forget(list ...change) error {
	rest := slices.DeleteFunc(slices.Clone(j.changes), func(c change) bool { return slices.Contains(list, c) })
	if len(rest) == len(j.changes) {
		return nil
	}
	return j.save(rest)
}

// has reports whether a change is recorded. A sysctl counts as recorded
// whatever its old value: the first one is the one to put back.
func (j *journal) has(c change) bool {
	return slices.ContainsFunc(j.changes, func(x change) bool {
		if c.Kind == setSysctl {
			return x.Kind == setSysctl && x.Sysctl == c.Sysctl
		}
		return x == c
	})
}

// addresses returns the recorded addresses.
func (j *journal) addresses() map[addrKey]bool {
	m := map[addrKey]bool{}
	for _, c := range j.changes {
		if c.Kind == addedAddress {
			m[addrKey{c.Index, c.Address}] = true
		}
	}
	return m
}

// save replaces the file as a whole: written, synced, renamed, so that a crash
// leaves the old one or the new one.
func (j *journal) save(list []change) error {
	b, err := json.MarshalIndent(journalFile{journalVersion, list}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode journal of host changes: %w", err)
	}
	if err := durable.Replace(j.path, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write journal of host changes: %w", err)
	}
	j.changes = list
	return nil
}
