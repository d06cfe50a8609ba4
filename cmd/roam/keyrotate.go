package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"roam"
	"roam/internal/control"
	"roam/internal/keyfile"
	"roam/naming"
	"roam/nidkey"
)

// defaultKeep is how long an old key vouches for the new one.
const defaultKeep = 7 * 24 * time.Hour

// rotated is what `roam key rotate --json` prints.
type rotated struct {
	shownKey
	Lines   []vouchedLine `json:"lines"`
	Unkeyed []string      `json:"unkeyed,omitempty"` // peers without a key here, for which nothing can vouch
}

// vouchedLine is the line for one peer.
type vouchedLine struct {
	Peer string   `json:"peer"`
	NID  roam.NID `json:"nid"`
	Line string   `json:"line"`
}

// keyRotate makes a new key and prints the line for each peer. While a rotation lasts, it prints the
// lines again.
func keyRotate(ctx context.Context, a *app, keep time.Duration) error {
	if keep < time.Minute {
		return control.Errorf(control.CodeInvalid, "--keep is %v: want a minute or more", keep)
	}
	cfg, err := a.config()
	if err != nil {
		return err
	}
	var own naming.Record
	var peers []control.KnownPeer
	// First what only a daemon knows: without the lines the peers would be lost.
	if err := a.ask(ctx, func(ctx context.Context, b control.Backend) error {
		lines, err := b.Export(ctx)
		if err != nil {
			return err
		}
		if own, err = naming.ParsePairing(lines.Line); err != nil {
			return err
		}
		peers, err = b.Peers(ctx)
		return err
	}); err != nil {
		return err
	}
	k, old, err := keyfile.Rotate(cfg, a.now(), keep, own.NID)
	switch {
	case errors.Is(err, keyfile.ErrNoKey):
		return control.Errorf(control.CodeNotFound, "rotate key: %w", err).WithHint("`roam key new` makes one")
	case err != nil:
		return fmt.Errorf("rotate key: %w", err)
	}
	own.NID, own.Key = k.NID, keyfile.Claim(&k, k.NID)
	out := rotated{shownKey: shownOf(cfg, &k, a.now())}
	if err := out.vouch(own, old, peers); err != nil {
		return err
	}
	return a.rotated(out)
}

// vouch makes the lines.
func (r *rotated) vouch(own naming.Record, old keyfile.Old, peers []control.KnownPeer) error {
	for _, p := range peers {
		public, keyed := keyOf(p)
		switch {
		case len(p.Written) == 0:
			continue // it came by itself
		case !keyed:
			r.Unkeyed = append(r.Unkeyed, knownName(p))
			continue
		}
		secret, err := old.Shared(public)
		if err != nil {
			return err
		}
		line, err := naming.FormatVouched(own, nidkey.Vouch{Old: old.NID, Until: old.Until},
			func(body string) [nidkey.VouchLen]byte { return secret.Vouches(old.NID, p.NID, body) })
		if err != nil {
			return err
		}
		r.Lines = append(r.Lines, vouchedLine{knownName(p), p.NID, line})
	}
	return nil
}

// keyOf returns the key that the record of a peer has.
func keyOf(p control.KnownPeer) (nidkey.Public, bool) {
	for _, o := range p.Options {
		if text, is := strings.CutPrefix(o, "key="); is {
			if c, err := nidkey.ParseClaim(text); err == nil {
				return c.Public, true
			}
		}
	}
	return nidkey.Public{}, false
}

// rotated prints the new key, the lines, and what is left to do.
func (pr *printer) rotated(r rotated) error {
	if pr.JSON {
		return pr.PrintJSON(r)
	}
	if err := pr.key(r.shownKey); err != nil {
		return err
	}
	fmt.Fprintln(pr.Out)
	pr.Fill("", "Run `systemctl restart roamd` here. Until then this host has its old identifier and key. Sessions "+
		"that live then keep the old identifier until they end.")
	if len(r.Lines) > 0 {
		fmt.Fprintln(pr.Out)
		pr.Fill("", fmt.Sprintf("Peers that this host reaches until %s take the new key over by themselves. On each other "+
			"peer run its line:", r.Old.Until.Format(time.RFC3339)))
	}
	for _, l := range r.Lines {
		fmt.Fprintf(pr.Out, "\n%s:\nroam add %s\n", l.Peer, l.Line)
	}
	if len(r.Unkeyed) > 0 {
		fmt.Fprintln(pr.Out)
		pr.Fill("", "These peers have no key, so that the old key cannot vouch towards them; run `roam export` here and "+
			"`roam add --replace LINE` there: "+strings.Join(r.Unkeyed, ", "))
	}
	return nil
}

// keyRevoke removes the replaced key.
func keyRevoke(ctx context.Context, a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	was, err := keyfile.Revoke(cfg)
	switch {
	case err != nil:
		return err
	case !was:
		return control.Errorf(control.CodeNotFound, "there is no old key").
			WithHint("`roam key rotate` replaces the present one")
	}
	err = a.ask(ctx, func(ctx context.Context, b control.Backend) error {
		_, err := b.Reload(ctx)
		return err
	})
	if err != nil && !errors.Is(err, control.ErrNotRunning) {
		a.Warn("the daemon has not forgotten the old key: %v; restart it", err)
	}
	if a.JSON {
		return a.PrintJSON(map[string]string{"removed": keyfile.OldPath(cfg)})
	}
	a.Fill("", "the old key is removed: it no longer vouches. A peer that has not taken the new one over needs the "+
		"present line of `roam export`, with `roam add --replace`. Run `systemctl restart roamd` if you have not since the rotation. "+
		"Sessions of the old identifier end with the next restart")
	return nil
}
