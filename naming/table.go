package naming

import (
	"fmt"
	"strings"

	"roam"
)

// Table maps names and Node Identifiers to records. It is immutable; a new file makes a new
// table.
type Table struct {
	records []Record
	byName  map[string]*Record
	byNID   map[roam.NID]*Record
}

// NewTable merges records from several sources, such as the hosts file and added peers. Of
// two that contradict each other it keeps the earlier one and reports the later one; the
// table is usable in any case.
func NewTable(records []Record) (*Table, []error) {
	t := &Table{byName: make(map[string]*Record), byNID: make(map[roam.NID]*Record)}
	var errs []error
	t.records = make([]Record, 0, len(records)) // never grows: the maps point into it
	for _, r := range records {
		if err := t.add(r); err != nil {
			errs = append(errs, err)
		}
	}
	for i := range t.records {
		t.records[i].sortLocators()
	}
	return t, errs
}

func (t *Table) add(r Record) error {
	for _, n := range r.Names {
		if o, ok := t.byName[n]; ok && o.NID != r.NID {
			return fmt.Errorf("name %s means node %v already: node %v is left out", n, o.NID, r.NID)
		}
	}
	rec := t.byNID[r.NID]
	if rec == nil {
		t.records = append(t.records, Record{NID: r.NID})
		rec = &t.records[len(t.records)-1]
		t.byNID[r.NID] = rec
	}
	if err := rec.merge(r); err != nil {
		return fmt.Errorf("node %v: %w", r.NID, err)
	}
	for _, n := range rec.Names {
		t.byName[n] = rec
	}
	return nil
}

// ByName returns the record of a name, ignoring case and a final dot.
func (t *Table) ByName(name string) (Record, bool) {
	if r := t.byName[strings.ToLower(strings.TrimSuffix(name, "."))]; r != nil {
		return *r, true
	}
	return Record{}, false
}

// ByNID returns the record of a node.
func (t *Table) ByNID(nid roam.NID) (Record, bool) {
	if r := t.byNID[nid]; r != nil {
		return *r, true
	}
	return Record{}, false
}

// Records returns all records in the order of the sources. The caller must not change them.
func (t *Table) Records() []Record { return t.records }
