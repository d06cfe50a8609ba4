package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"roam"
	"roam/internal/cli"
	"roam/internal/config"
	"roam/internal/control"
	"roam/internal/keyfile"
	"roam/nidkey"

	"github.com/spf13/cobra"
)

// shownKey is what `roam key show --json` and `roam key new --json` print. It has nothing of
// the private half.
type shownKey struct {
	File   string    `json:"file"`
	Public string    `json:"public"`
	NID    *roam.NID `json:"nid,omitempty"` // absent: the daemon takes that of an address
	Hashed bool      `json:"hashed"`        // the NID is the hash of the key
	Old    *oldKey   `json:"old,omitempty"` // the key before, while it vouches
}

// oldKey is what people see of a key that was replaced.
type oldKey struct {
	Public string    `json:"public"`
	NID    roam.NID  `json:"nid"`
	Until  time.Time `json:"until"`
}

func keyCommand(a *app) *cobra.Command {
	noun := &cobra.Command{
		Use: "key", Short: "Show, make, replace or revoke the key of this host", Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error { return keyShow(a) },
	}
	noun.AddCommand(
		&cobra.Command{
			Use: "new", Short: "Make the key; a host that has never started gets its NID from it", Args: cli.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return keyNew(cmd.Context(), a) },
		},
		&cobra.Command{
			Use: "show", Short: "Show the public key, and whether the NID is its hash", Args: cli.NoArgs,
			RunE: func(*cobra.Command, []string) error { return keyShow(a) },
		},
	)
	keep := defaultKeep
	rotate := &cobra.Command{
		Use: "rotate", Short: "Make a new key and NID; the old key vouches for it", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return keyRotate(cmd.Context(), a, keep) },
	}
	rotate.Flags().DurationVar(&keep, "keep", defaultKeep, "how long the old key vouches, as `DURATION`")
	noun.AddCommand(rotate, &cobra.Command{
		Use: "revoke", Short: "Remove the old key after a rotation, so that it no longer vouches", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return keyRevoke(cmd.Context(), a) },
	})
	return noun
}

// keyNew makes a key, and has a daemon that runs take it.
func keyNew(ctx context.Context, a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	k, err := keyfile.New(cfg)
	if errors.Is(err, keyfile.ErrExists) {
		return control.Errorf(control.CodeConflict, "%w", err).
			WithHint("`roam key show` shows it; for a new one remove the file: every peer must then add the new line")
	}
	if err != nil {
		return err
	}
	err = a.ask(ctx, func(ctx context.Context, b control.Backend) error {
		_, err := b.Reload(ctx)
		return err
	})
	if err := a.key(shownOf(cfg, &k, a.now())); err != nil || a.JSON {
		return err
	}
	fmt.Fprintln(a.Out)
	a.Fill("", "Now `roam export` here, and `roam add LINE` on each peer; and the same in the other direction.")
	if err != nil && !errors.Is(err, control.ErrNotRunning) {
		a.Warn("the daemon has not taken the key: %v; restart it", err)
	}
	return nil
}

func keyShow(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	k, err := keyfile.Read(cfg)
	if err != nil {
		return err
	}
	if k == nil {
		return control.Errorf(control.CodeNotFound, "this host has no key").WithHint("`roam key new` makes one")
	}
	return a.key(shownOf(cfg, k, a.now()))
}

// shownOf returns what people see of a key.
func shownOf(cfg config.Config, k *nidkey.Key, now time.Time) shownKey {
	s := shownKey{File: keyfile.Path(cfg), Public: k.Public.String()}
	if nid, ok := keyfile.NID(cfg); ok {
		s.NID, s.Hashed = &nid, nid == k.NID
	}
	if old, err := keyfile.ReadOld(cfg, now); err == nil && old != nil {
		s.Old = &oldKey{old.Public.String(), old.NID, old.Until}
	}
	return s
}

// key prints what people see of a key.
func (pr *printer) key(s shownKey) error {
	if pr.JSON {
		return pr.PrintJSON(s)
	}
	fmt.Fprintf(pr.Out, "key   %s\n", s.Public)
	nid := "that of an address: this host's pairing line binds the key to it"
	switch {
	case s.Hashed:
		nid = fmt.Sprintf("%v, the hash of the key", *s.NID)
	case s.NID != nil:
		nid = fmt.Sprintf("%v, not the hash of the key: this host's pairing line binds them", *s.NID)
	}
	pr.Fill("nid   ", nid)
	fmt.Fprintf(pr.Out, "file  %s\n", s.File)
	if s.Old != nil {
		pr.Fill("old   ", fmt.Sprintf("%s of %v, vouches until %s", s.Old.Public, s.Old.NID,
			s.Old.Until.Format(time.RFC3339)))
	}
	return nil
}
