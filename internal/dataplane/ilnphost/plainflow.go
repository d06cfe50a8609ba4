package ilnphost

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"

	"roam"
	"roam/ilnp"
)

// turns reports whether a session that has been plain IPv6 so far becomes ILNP. The
// programs make it plain by themselves, at the first Parameter Problem, before the
// daemon has heard of that one.
func (p *Plane) turns(old, row bpfSessionEntry) bool {
	if row.Flags&(bpfEntryFlagsENTRY_PLAIN|bpfEntryFlagsENTRY_INITIATED) != 0 {
		return false
	}
	if old.Flags&bpfEntryFlagsENTRY_INITIATED != 0 {
		l, err := p.live(old.Slot)
		return err == nil && l.Birth == old.Birth && l.Retried != 0
	}
	return old.Flags&bpfEntryFlagsENTRY_PLAIN != 0
}

// keepPlain notes which open TCP connections of a session that has been plain IPv6
// so far are to stay so, between the locators that they are bound to: those of old.
// It returns the flag that has the programs look for them.
func (p *Plane) keepPlain(old bpfSessionEntry) (bpfEntryFlags, error) {
	ends, ok := p.uplinks.endsOf(old)
	if !ok {
		return 0, nil
	}
	var host bpfHost
	if err := p.objs.Hosts.Lookup(uint32(0), &host); err != nil {
		return 0, fmt.Errorf("read host map: %w", err)
	}
	list, err := p.Connections(roam.L64(host.SessionPrefix.uint64()))
	if err != nil {
		return 0, err
	}
	flag := bpfEntryFlags(0)
	for _, c := range list {
		if !c.Open || !isOf(c, old.Alias.key()) {
			continue
		}
		key := bpfFlowKey{Alias: old.Alias}
		binary.BigEndian.PutUint16(key.Ports[:2], c.Local.Port())
		binary.BigEndian.PutUint16(key.Ports[2:], c.Remote.Port())
		if err := p.objs.PlainFlows.Update(&key, &ends, ebpf.UpdateAny); err != nil {
			return flag, fmt.Errorf("keep a connection of plain IPv6: %w", err)
		}
		flag = bpfEntryFlagsENTRY_PLAIN_FLOWS
	}
	return flag, nil
}

// endsOf returns the locators of a plain session, which has one path at most.
func (t *uplinkTable) endsOf(row bpfSessionEntry) (ends bpfFlowEnds, ok bool) {
	if row.N_paths == 0 {
		return ends, false
	}
	local, remote := row.Paths[0]>>4, row.Paths[0]&(ilnp.MaxRemote-1)
	return bpfFlowEnds{LocalL64: half(uint64(t.owner[local].L64)), RemoteL64: row.Remote[remote]}, true
}

// isOf reports whether a connection is between the aliases of a session.
func isOf(c Connection, k ilnp.SessionKey) bool {
	return roam.ILVFromAddr(c.Local.Addr()).NID == k.Local && roam.ILVFromAddr(c.Remote.Addr()).NID == k.Remote
}
