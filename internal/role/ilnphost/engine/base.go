package engine

import (
	"roam"
	"roam/ilnp"
	"roam/ilnp/slowpath"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/loop"
)

// base is what the parts of an engine share: the sessions that have entries in the data
// plane, and the ways out.
type base struct {
	cfg      Config
	core     *ilnp.Core
	clock    loop.Clock
	entries  map[ilnp.SessionKey]ilnp.Entry
	names    map[ilnp.SessionKey]ilnp.SessionKey // of sessions that have a second alias: by that, the key
	refused  map[string]uint64
	adopting bool // the data plane is not to be touched yet
}

// session returns the session with an alias.
func (b *base) session(k ilnp.SessionKey) (ilnp.Entry, bool) {
	p, ok := b.entries[b.sessionKey(k)]
	return p, ok
}

// sessionKey returns the key of the session with an alias.
func (b *base) sessionKey(k ilnp.SessionKey) ilnp.SessionKey {
	if key, ok := b.names[k]; ok {
		return key
	}
	return k
}

// keep notes a session that has an entry.
func (b *base) keep(p ilnp.Entry) {
	b.entries[p.Key] = p
	name := ilnp.SessionKey{Local: p.LocalNID, Remote: p.RemoteNID}
	if p.Named {
		b.names[name] = p.Key
	} else if b.names[name] == p.Key {
		delete(b.names, name)
	}
}

// drop forgets one.
func (b *base) drop(k ilnp.SessionKey) {
	if p, ok := b.entries[k]; ok {
		name := ilnp.SessionKey{Local: p.LocalNID, Remote: p.RemoteNID}
		if b.names[name] == k {
			delete(b.names, name)
		}
	}
	delete(b.entries, k)
}

// host is what the translation of packets needs to know of this host.
func (b *base) host() slowpath.Host {
	return slowpath.Host{SessionPrefix: b.cfg.SessionPrefix, UDPPort: b.cfg.UDPPort}
}

func (b *base) sessionAddr(n roam.NID) roam.ILV {
	return b.host().SessionAddr(n)
}

func (b *base) resend(packet []byte) {
	d := b.cfg.Network.Device()
	b.report("send first packet again", b.cfg.Sender.Resend(roam.LinkID(d.Index), d.MAC, packet, dataplane.HeldMark))
}

func (b *base) inject(packet []byte) {
	d := b.cfg.Network.Device()
	b.report("hand packet to own stack", b.cfg.Sender.Inject(roam.LinkID(d.PeerIndex), d.MAC, packet))
}

// report logs an error that does not end the daemon.
func (b *base) report(what string, err error) {
	if err != nil {
		b.cfg.Log.Error("cannot "+what, "err", err)
	}
}
