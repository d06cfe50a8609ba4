package ilnphost

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/config"
	"roam/internal/control"
	clocks "roam/internal/dataplane"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/durable"
	"roam/internal/keyfile"
	"roam/multipath"
)

// identity returns this host's Node Identifier: the configured one, that of an
// address, or the one that was made at the first start and is kept ever since,
// for a NID outlives networks. It waits until ctx is done for an address, if it needs one, and calls waits then.
func identity(ctx context.Context, cfg config.Config, log *slog.Logger, waits func(string)) (roam.NID, error) {
	switch cfg.Host.NID.Source {
	case config.NIDFixed:
		return cfg.Host.NID.Value, nil
	case config.NIDFromAddress:
		return nidFromAddress(ctx, cfg, waits)
	}
	file := keyfile.NIDPath(cfg)
	b, err := os.ReadFile(file)
	if err == nil {
		nid, err := roam.ParseNID(strings.TrimSpace(string(b)))
		if err != nil {
			return 0, fmt.Errorf("%s: %w; remove the file to get the one that is the hash of the key", file, err)
		}
		return nid, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("read node identifier: %w", err)
	}
	return firstIdentity(cfg, log)
}

// firstIdentity gives a host that has never started the Node Identifier that is the hash of its key. It makes the
// key, unless `roam key new` has, or a first start that did not get as far as the identifier.
func firstIdentity(cfg config.Config, log *slog.Logger) (roam.NID, error) {
	k, err := keyfile.Read(cfg)
	if err != nil {
		return 0, err
	}
	if k != nil {
		if err := keepFile(keyfile.NIDPath(cfg), k.NID.String()+"\n"); err != nil {
			return 0, fmt.Errorf("keep node identifier: %w", err)
		}
		return k.NID, nil
	}
	log.Info("first start: this host gets its key, and the node identifier that is the hash of it, in 2^20 steps of "+
		"SHA-256 (0.1 to 0.5 s of one processor, once)", "file", keyfile.Path(cfg))
	began := time.Now()
	made, err := keyfile.New(cfg)
	if nid, ok := keyfile.NID(cfg); ok && errors.Is(err, keyfile.ErrExists) {
		return nid, nil // `roam key new` was first
	}
	if err != nil {
		return 0, control.Errorf(control.CodeInternal, "%w", err).
			WithHint("host.state_dir has to be a directory that roamd can write: key and node identifier stay there")
	}
	log.Info("this host has its key", "nid", made.NID, "took", time.Since(began).Round(time.Millisecond))
	return made.NID, nil
}

// keepFile writes a file of the state directory so that a crash or a power
// failure leaves the old one or the new one.
func keepFile(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return durable.Replace(file, []byte(text), 0o644)
}

// probeID is the identifier of the daemon's own echo requests. It differs
// between starts, so that replies to a predecessor are not taken for ours.
func probeID() uint16 {
	var b [2]byte
	rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint16(b[:])
}

// nidsOf returns the Node Identifiers of this host, the present one first.
func nidsOf(h *Host) []roam.NID {
	if h.former == 0 {
		return []roam.NID{h.nid}
	}
	return []roam.NID{h.nid, h.former}
}

// watchFormer gives up what is not needed any more of the identifier that the host had before a
// rotation: its session address with its last session, the rest when its key no longer vouches either.
func watchFormer(h *Host, now time.Time) {
	if h.former == 0 {
		return
	}
	sessions, vouches := h.engine.Core().FormerInUse(now)
	h.network.KeepFormer(vouches, sessions)
	if sessions || vouches {
		return
	}
	h.log.Info("the former node identifier is given up: its sessions are over, its key no longer vouches",
		"nid", h.former)
	forgetFormer(h, now)
	if err := h.plane.SetHost(h.settings); err != nil {
		h.log.Warn("the data plane still has the former node identifier", "err", err)
	}
}

// forgetFormer forgets that this host had another identifier before, on the disk too if its time is over.
func forgetFormer(h *Host, now time.Time) {
	h.engine.Core().ForgetFormer(now)
	if _, err := keyfile.Expire(h.cfg, h.former, now); err != nil { // it would bring the identifier back at the next start
		h.log.Warn("the key of the former node identifier stays, although its time is over", "err", err)
	}
	h.former, h.settings.NIDs = 0, []roam.NID{h.nid}
}

func (h *Host) coreConfig(probeID uint16) ilnp.Config {
	return ilnp.Config{
		NIDs: nidsOf(h), Former: h.former, Mode: coreMode[h.cfg.Host.Mode],
		Liveness: liveness(&h.cfg), Trains: true, Silence: silenceOf(h.cfg),
		Flows: func(k ilnp.SessionKey) *multipath.Flows { return h.plane.Flows(k) },
		PathCounts: func(k ilnp.SessionKey, p ilnp.Path) (ilnp.PathCounts, bool) {
			return dataplane.PathCounts(h.plane, k, p)
		},
		Preference: h.cfg.Uplinks.PreferenceOf, Outside: h.cfg.Uplinks.Outside,
		Place: h.cfg.Uplinks.Place, Accept: coreAccept[h.cfg.Host.Accept],
		DraftLU: h.cfg.ILNP.LUFormat == config.LUDraft, NonceLength: uint8(h.cfg.ILNP.NonceLength),
		Rule: coreRule[h.cfg.ILNP.Checksum], Rand: rand.Reader, FallbackLifetime: h.cfg.ILNP.FallbackLifetime,
		IdleTimeout: h.cfg.ILNP.IdleTimeout, SessionPrefix: h.cfg.Host.SessionPrefix, ProbeID: probeID,
		Key: h.key, Boot: clocks.Instant(1), UDPPort: h.cfg.ILNP.UDPPort, Preinstall: preinstallMost,
		MaxSessions: h.cfg.ILNP.MaxSessions,
	}
}

// liveness returns the level of a link of that name.
func liveness(cfg *config.Config) func(link string) multipath.Level {
	return func(link string) multipath.Level { return coreLevel[cfg.LivenessOf(link)] }
}

// silenceOf returns after which silence of a peer the programs report it: what the most
// eager level wants.
func silenceOf(cfg config.Config) time.Duration {
	least := multipath.Relaxed.Timing().Silence
	for _, l := range cfg.Levels() {
		least = min(least, coreLevel[l].Timing().Silence)
	}
	return least
}

// preinstallMost is how many known correspondents without a session have an entry in the
// data plane. Each takes as much memory as a session, and is written anew
// with each move of this host.
const preinstallMost = 64
