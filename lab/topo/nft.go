package topo

import (
	"context"
	"encoding/json"
	"fmt"
)

// Counter is a named counter of a host's nftables.
type Counter struct {
	Name    string `json:"name"`
	Packets int    `json:"packets"`
	Bytes   int    `json:"bytes"`
}

// Counters returns the named counters of the host's nftables, which count packets without
// help of what is measured.
func (h *Host) Counters(ctx context.Context) (map[string]Counter, error) {
	out, err := h.Command(ctx, "/usr/sbin/nft", "-j", "list", "counters").Output()
	if err != nil {
		return nil, fmt.Errorf("read the counters of %s: %w", h.name, err)
	}
	var all struct {
		NFTables []struct {
			Counter *Counter `json:"counter"`
		} `json:"nftables"`
	}
	if err := json.Unmarshal(out, &all); err != nil {
		return nil, fmt.Errorf("read the counters of %s: %w", h.name, err)
	}
	m := map[string]Counter{}
	for _, x := range all.NFTables {
		if x.Counter != nil {
			m[x.Counter.Name] = *x.Counter
		}
	}
	return m, nil
}
