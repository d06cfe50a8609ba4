package dataplane

// entries returns those of the index that are in use.
func entries(r *rig) (list []*uint64) {
	for i := range r.index.buckets {
		for j := range r.index.buckets[i].Entry {
			if e := &r.index.buckets[i].Entry[j]; *e != 0 {
				list = append(list, e)
			}
		}
	}
	return list
}
