package ilnphost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/config"
	"roam/internal/control"
	"roam/naming"
)

// Peers lists what is known of every correspondent, and where that is written.
func (h *Host) Peers(ctx context.Context) ([]control.KnownPeer, error) {
	var out []control.KnownPeer
	var written map[roam.NID][]control.Place
	err := h.do(ctx, func(time.Time) { written = writtenPlaces(h) })
	if err != nil {
		return nil, err
	}
	err = walk(ctx, h, func(now time.Time, keys []ilnp.SessionKey) {
		for _, key := range keys {
			for _, p := range h.engine.Core().Show(now, key) {
				out = append(out, knownPeer(h, p, written[p.NID]))
			}
		}
	})
	return out, err
}

// writtenPlaces returns where each correspondent is written down.
func writtenPlaces(h *Host) map[roam.NID][]control.Place {
	written := make(map[roam.NID][]control.Place)
	for _, l := range h.hosts.Lines {
		if l.Fault == nil {
			written[l.Record.NID] = append(written[l.Record.NID], placeOf(l.Place))
		}
	}
	return written
}

func knownPeer(h *Host, p ilnp.PeerState, written []control.Place) control.KnownPeer {
	s := sessionFrom(p, h.cfg.Host.SessionPrefix, h.linkNames())
	k := control.KnownPeer{NID: s.NID, Address: s.Address, State: s.State, Dead: s.Dead, WhyPlain: s.WhyPlain}
	// Another node with the identifier of one that is written down is not that one.
	if r, ok := h.records[s.NID]; ok && s.RemoteAlias == s.NID {
		k.Names, k.Options, k.Written = r.Names, r.Options(), written
		for _, l := range r.Locators {
			k.Locators = append(k.Locators, control.PeerLocator{L64: l.L64, Preference: l.Preference})
		}
	}
	return k
}

// AddPeer makes a correspondent known, now and after a restart.
func (h *Host) AddPeer(ctx context.Context, q control.AddRequest) (control.Peer, error) {
	r, err := naming.ParseAny(q.Line)
	if err != nil {
		return control.Peer{}, control.Errorf(control.CodeInvalid, "read line: %w", err).
			WithHint("a line of `roam export` or of the hosts file is wanted")
	}
	if r.NID == h.nid {
		return control.Peer{}, control.Errorf(control.CodeConflict, "%s is this host itself", r.NID).
			WithHint("run `roam export` on the other host, and `roam add` here")
	}
	if err := r.Key.Check(r.NID); err != nil {
		return control.Peer{}, control.Errorf(control.CodeInvalid, "read line: %w", err).
			WithHint("run `roam export` there, and copy its line")
	}
	if r.Vouch.Present() {
		return h.takeOver(ctx, r)
	}
	if q.As != "" {
		name, err := naming.CleanName(q.As)
		if err != nil {
			return control.Peer{}, control.Errorf(control.CodeInvalid, "%w", err)
		}
		r.Names = []string{name}
	}
	j := h.judgement(ctx, r, q.As != "", q.Replace, q.Force)
	return h.changePeer(ctx, r.NID, func(b book) (book, error) {
		if err := b.sameKey(r, q.Replace); err != nil {
			return b, err
		}
		if err := j.judge(b, r.Names).refusal("add", addWays); err != nil {
			return b, err
		}
		return b.add(r, q.Replace)
	})
}

// RenamePeer gives a correspondent that was added another name.
func (h *Host) RenamePeer(ctx context.Context, q control.RenameRequest) (control.Peer, error) {
	to, err := naming.CleanName(q.New)
	if err != nil {
		return control.Peer{}, control.Errorf(control.CodeInvalid, "%w", err)
	}
	now, err := openBook(h.cfg)
	if err != nil {
		return control.Peer{}, err
	}
	nid, ok := now.find(q.Old)
	if !ok {
		return control.Peer{}, unknownPeer(q.Old)
	}
	r := naming.Record{NID: nid, Names: []string{to}, Locators: now.record(nid).Locators}
	j := h.judgement(ctx, r, true, q.Replace, q.Force)
	return h.changePeer(ctx, nid, func(b book) (book, error) {
		names := b.record(nid).Names
		if len(names) == 0 {
			return b, unknownPeer(q.Old)
		}
		from := names[0]
		if name, err := naming.CleanName(q.Old); err == nil && slices.Contains(names, name) {
			from = name
		}
		for _, l := range b.inHosts(b.Written(nid)) {
			if slices.Contains(l.Record.Names, from) {
				return b, control.Errorf(control.CodeConflict, "%s is named in %s, which Roam does not edit", from, l.Place).
					WithHint("change the name there, then `roam config reload`")
			}
		}
		if err := j.judge(b, r.Names).refusal("rename", renameWays); err != nil {
			return b, err
		}
		return b.rename(nid, from, to, q.Replace)
	})
}

// changePeer writes what change makes of the file of added peers, takes it over, and
// returns what is known of a node then. Several may be at work at once.
func (h *Host) changePeer(ctx context.Context, nid roam.NID, change func(book) (book, error)) (control.Peer, error) {
	h.keeping.Lock()
	defer h.keeping.Unlock()
	next, err := h.writeBook(change)
	if err != nil {
		return control.Peer{}, err
	}
	full, err := h.takeBook(ctx, next)
	r := next.record(nid)
	out := control.Peer{
		NID: nid, Names: r.Names, Keyed: r.Key.Present(), Plain: !r.Guarded(),
		Proof:   proofOf(r.Key.Present(), len(r.Locators) > 0 && r.Anywhere != naming.AnywhereYes),
		Address: control.SessionAddr(h.cfg.Host.SessionPrefix, nid),
	}
	for _, l := range r.Locators {
		out.Locators = append(out.Locators, l.L64)
	}
	// It is kept and can be contacted, and whoever is accepted anyhow need not be noted.
	if full != nil && h.cfg.Host.Accept != config.AcceptAny {
		out.Warning = full.Error() + raiseRoom
	}
	if out.Keyed && !h.hasKey(ctx) {
		out.Warning = "this host has no key, so nothing is keyed: run `roam key new`, and add its line there again"
	}
	return out, err
}

// hasKey reports whether this host has a key.
func (h *Host) hasKey(ctx context.Context) (has bool) {
	err := h.do(ctx, func(time.Time) { has = h.key != nil })
	return has && err == nil
}

// writeBook writes a change of the file of added peers; d.keeping is held.
func (h *Host) writeBook(change func(book) (book, error)) (book, error) {
	b, err := openBook(h.cfg)
	if err != nil {
		return b, err
	}
	next, err := change(b)
	next.before = b.Hosts
	if err != nil || next.peers.Text == b.peers.Text {
		return next, err
	}
	if err := keepFile(next.peers.Name, next.peers.Text); err != nil {
		return b, fmt.Errorf("keep peers: %w", err)
	}
	return next, nil
}

// takeBook has core, data plane and resolver follow what was written; d.keeping is
// held. full is why a correspondent has no room in the data plane.
func (h *Host) takeBook(ctx context.Context, b book) (full, err error) {
	var failure error
	err = h.do(ctx, func(now time.Time) {
		full, failure = h.useHosts(now, h.engine.Core(), b, false)
	})
	return full, errors.Join(err, failure)
}

// RemovePeer forgets a correspondent that was added.
func (h *Host) RemovePeer(ctx context.Context, q control.RemoveRequest) (control.Removed, error) {
	h.keeping.Lock()
	defer h.keeping.Unlock()
	var out control.Removed
	next, err := h.writeBook(func(b book) (book, error) {
		nid, ok := b.find(q.Peer)
		if !ok {
			return b, unknownPeer(q.Peer)
		}
		out.NID, out.Names = nid, b.record(nid).Names
		lines := b.Written(nid)
		in := b.inHosts(lines)
		if len(in) == len(lines) {
			return b, control.Errorf(control.CodeConflict, "%s is written in %s, which Roam does not edit", q.Peer, in[0].Place).
				WithHint("remove the line there, then `roam config reload`")
		}
		return b.remove(nid), nil
	})
	if err != nil {
		return control.Removed{}, err
	}
	out.Written = places(next.inHosts(next.Written(out.NID)))
	if len(out.Written) > 0 {
		out.Warning = fmt.Sprintf("%s is still known: it is written in %s, which Roam does not edit", q.Peer, out.Written[0])
	}
	_, err = h.takeBook(ctx, next)
	return out, err
}

func unknownPeer(word string) error {
	return control.Errorf(control.CodeNotFound, "no peer is called %q", word).WithHint("`roam peer show` lists who is known")
}
