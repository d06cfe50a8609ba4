package ilnphost

import (
	"roam/ilnp"
	"roam/multipath"
)

// costTold is COST_TOLD of bpf/ilnp/pathtypes.h.
const costTold = 1 << 8

// PathCounts returns what a plane's programs have counted along a path of a session; false: nothing.
func PathCounts(p *Plane, key ilnp.SessionKey, path ilnp.Path) (ilnp.PathCounts, bool) {
	row, there := p.known[key]
	if !there {
		return ilnp.PathCounts{}, false
	}
	k := bpfPathKey{
		Near: bpfAddr{L64: half(uint64(path.Local.L64)), Nid: row.LocalNid},
		Far:  bpfAddr{L64: half(uint64(path.Remote)), Nid: row.RemoteNid},
	}
	var c bpfPathCounts
	// A map that cannot be read has counted nothing for this host.
	if err := p.objs.PathCounts.Lookup(&k, &c); err != nil {
		return ilnp.PathCounts{}, false
	}
	return ilnp.PathCounts{
		Epoch: c.Epoch, Told: uint8(c.Told), IsTold: c.Told&costTold != 0,
		Sent:     multipath.Traffic{Packets: c.TxPackets, Bytes: c.TxBytes},
		Received: multipath.Traffic{Packets: c.RxPackets, Bytes: c.RxBytes},
	}, true
}
