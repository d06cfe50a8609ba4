package ilnphost

import (
	"context"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/config"
	"roam/internal/control"
	"roam/internal/keyfile"
	"roam/naming"
	"roam/nidkey"
)

// takeOver puts a record in the place of another one whose key vouches for it: the peer has made
// a new key, and has a new Node Identifier. Names and options stay.
func (h *Host) takeOver(ctx context.Context, r naming.Record) (control.Peer, error) {
	var own *nidkey.Key
	if err := h.do(ctx, func(time.Time) { own = h.key }); err != nil {
		return control.Peer{}, err
	}
	replaced := roam.NID(0)
	out, err := h.changePeer(ctx, r.NID, func(b book) (next book, err error) {
		next, replaced, err = takenOver(b, own, h.nid, r)
		return next, err
	})
	out.Replaced = replaced
	return out, err
}

// takenOver returns a book in which a line has the place of the record whose key vouches for it towards the reader,
// and the identifier of that record; 0: it had that place before.
func takenOver(b book, own *nidkey.Key, reader roam.NID, r naming.Record) (next book, replaced roam.NID, err error) {
	v := r.Vouch
	r.Vouch = nidkey.Vouch{}
	if len(b.Written(v.Old)) == 0 && b.record(r.NID).Key.Public == r.Key.Public {
		return b, 0, nil
	}
	old := b.record(v.Old)
	if err := vouched(own, reader, old, v); err != nil {
		return b, 0, err
	}
	if err := takesNobodysPlace(b, r); err != nil {
		return b, 0, err
	}
	if in := b.inHosts(b.Written(v.Old)); len(in) > 0 {
		return b, 0, control.Errorf(control.CodeConflict, "%v is written in %s, which Roam does not edit", v.Old,
			in[0].Place).WithHint("its key vouches for the new one: put this line there, then `roam config reload`: %s",
			succession(old, r).HostsLine())
	}
	next, err = b.succeed(v.Old, succession(old, r))
	return next, v.Old, err
}

// takesNobodysPlace returns why a key that another one vouches for cannot be that of its identifier, or nil. A key may
// vouch for one of its own owner only, so neither for an identifier that is no hash, which could be anybody's, nor for
// one that is known with another key.
func takesNobodysPlace(b book, r naming.Record) error {
	if !r.Key.Hashed {
		return control.Errorf(control.CodeInvalid, "the line brings a new key for %v, which is not its hash: "+
			"it may be the identifier of another node", r.NID).
			WithHint("`roam key rotate` prints no such line: do not trust its sender")
	}
	if known := b.record(r.NID); known.Key.Present() && known.Key.Public != r.Key.Public {
		return control.Errorf(control.CodeConflict, "node %v is known already, with another key", r.NID).
			WithHint("if you trust a line of `roam export` there: `roam add --replace LINE`")
	}
	return nil
}

// vouched returns why the key of a record does not vouch for a line, or nil.
func vouched(own *nidkey.Key, reader roam.NID, old naming.Record, v nidkey.Vouch) error {
	const again = "`roam export` there, and `roam add --replace LINE` here, if you trust the way that the line came"
	switch {
	case !old.Key.Present():
		return control.Errorf(control.CodeNotFound, "node %v, whose key is to vouch, is not known here with a key", v.Old).WithHint(again)
	case own == nil:
		return control.Errorf(control.CodeConflict, "this host has no key, so it cannot verify who made the line").
			WithHint(again)
	case !time.Now().Before(v.Until):
		return control.Errorf(control.CodeInvalid, "the old key vouched until %s only", v.Until.Format(time.RFC3339)).
			WithHint(again)
	}
	if secret, _ := own.Shared(old.Key.Public); v.Check(secret, reader) { // without a secret nothing is right
		return nil
	}
	return control.Errorf(control.CodeInvalid, "the line was not made for this host by the known key of %v", v.Old).
		WithHint("`roam key rotate` there prints one line for each peer: take this host's. If it is, %s", again)
}

// succession returns a record with the identifier, key and locators of another one.
func succession(old, r naming.Record) naming.Record {
	next := old
	next.NID, next.Key, next.Locators = r.NID, r.Key, r.Locators
	return next
}

// successionWithin is how long a succession may take to be written down.
const successionWithin = 10 * time.Second

// follow changes the record of a correspondent whose old key vouches for a new one, beside
// the engine's goroutine: to verify the hash takes about 0.1 s, and the file is written.
func follow(h *Host, s ilnp.Succession) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), successionWithin)
		defer cancel()
		r := naming.Record{NID: s.NID, Key: s.Claim}
		err := r.Key.Check(r.NID)
		if err == nil {
			_, err = h.changePeer(ctx, r.NID, func(b book) (book, error) { return succeeded(b, s.Old, r) })
		}
		if err != nil {
			h.log.Warn("a peer's old key vouches for a new one, which is not taken over",
				"nid", s.Old, "next", s.NID, "err", err)
			return
		}
		h.log.Info("a peer has a new key and identifier: its old key vouches for them", "nid", s.NID, "before", s.Old)
	}()
}

// succeeded returns a book with a new identifier and key in the record of an older one, which
// keeps its names, options and locators.
func succeeded(b book, older roam.NID, r naming.Record) (book, error) {
	old := b.record(older)
	r.Locators = old.Locators
	switch in := b.inHosts(b.Written(older)); {
	case !old.Key.Present():
		return b, control.Errorf(control.CodeNotFound, "node %v is not known any more with a key", older)
	case b.record(r.NID).Key.Present():
		return b, control.Errorf(control.CodeConflict, "node %v is known already", r.NID)
	case len(in) > 0:
		return b, control.Errorf(control.CodeConflict, "%v is written in %s, which Roam does not edit: "+
			"put this line there, then `roam config reload`: %s", older, in[0].Place, succession(old, r).HostsLine())
	}
	return b.succeed(older, succession(old, r))
}

// oldKey returns the key that vouches for that of a host with an identifier; nil: none does.
func oldKey(cfg config.Config, nid roam.NID, now time.Time) (*ilnp.OldKey, error) {
	old, err := keyfile.ReadOld(cfg, now)
	if old == nil || old.NID == nid {
		return nil, err
	}
	return &ilnp.OldKey{Key: old.Key, NID: old.NID, Until: old.Until}, nil
}
