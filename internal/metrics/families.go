package metrics

import "io"

// Family is one metric with its samples.
type Family struct {
	Name, Kind, Help string // Kind is "counter" or "gauge"
	Samples          []Sample
}

// Sample is one value of a metric; Labels are pairs of name and value.
type Sample struct {
	Labels []string
	Value  float64
}

// WriteFamilies writes metrics one after the other. Its only errors are those of w.
func WriteFamilies(w io.Writer, families ...Family) error {
	p := &page{w: w}
	for _, f := range families {
		p.family(f.Name, f.Kind, f.Help)
		for _, s := range f.Samples {
			p.sample(f.Name, s.Value, s.Labels...)
		}
	}
	return p.err
}
