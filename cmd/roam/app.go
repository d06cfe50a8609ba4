package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"roam/internal/cli"
	"roam/internal/config"
	"roam/internal/control"
)

// patience limits the time in which the daemon must answer, and for which a list that it sends
// may stand still.
const patience = 10 * time.Second

// app is one run of the command. Clock, daemon and machine are fields, so that tests can
// replace them.
type app struct {
	printer
	connect func(socket string) control.Backend
	wait    func(context.Context, time.Duration) error // until the time has passed, or the context ends
	host    host
	usual   string // the configuration file, unless a flag names one

	configPath, socketPath string

	warned bool // it has warned of faults of the configuration
}

// printer prints the daemon's answers as text. It sends no requests.
type printer struct {
	*cli.Terminal
	now func() time.Time
}

func newApp(out, errw *os.File) *app {
	return &app{
		printer: printer{cli.NewTerminal("roam", out, errw), time.Now},
		connect: func(socket string) control.Backend { return control.NewClient(socket) },
		wait:    pause, host: realHost(), usual: config.DefaultPath,
	}
}

// config returns the configuration: that of the file that a flag names, of the usual file, or
// the defaults if that does not exist.
func (a *app) config() (config.Config, error) {
	path := a.configPath
	if path == "" {
		path = a.usual
	}
	cfg, err := config.Load(path)
	if errors.Is(err, fs.ErrNotExist) && a.configPath == "" {
		return config.Default(), nil
	}
	if err != nil {
		return cfg, control.Errorf(control.CodeInvalid, "%w", err).
			WithHint("correct it and look again with `roam config check`")
	}
	return cfg, nil
}

// keptFile returns the file in which the daemon keeps the configuration that it has in force.
func keptFile(a *app) (string, error) {
	socket, err := a.socket()
	var cfg config.Config
	cfg.Host.RunDir = filepath.Dir(socket)
	return cfg.InForce(), err
}

// inForce returns the configuration that a running daemon has in force, or that of config if
// the daemon's copy cannot be read.
func inForce(a *app) (config.Config, error) {
	if file, err := keptFile(a); err == nil {
		if text := a.host.Read(file); text != "" {
			if cfg, err := config.Parse(file, []byte(text)); err == nil {
				return cfg, nil
			}
		}
	}
	return a.config()
}

// located returns the configuration by which the command finds the daemon. If the file has
// faults, it warns and uses the keys that can be read, so that a running daemon is still found.
func (a *app) located() (config.Config, error) {
	cfg, err := a.config()
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return cfg, err
	}
	cfg = config.Rescue(a.configFile(nil))
	if !a.warned {
		a.warned = true
		a.Warn("%v", err)
		a.Warn("roam uses the control socket in %s nevertheless; `roam config check` names every fault", cfg.Host.RunDir)
	}
	return cfg, nil
}

// socket returns the path of the control socket.
func (a *app) socket() (string, error) {
	if a.socketPath != "" {
		return a.socketPath, nil
	}
	cfg, err := a.located()
	return cfg.Socket(), err
}

// backend returns a client of the daemon that the flags name. It sends no request.
func (a *app) backend() (control.Backend, error) {
	socket, err := a.socket()
	if err != nil {
		return nil, err
	}
	return a.connect(socket), nil
}

// ask calls f with a client of the daemon and a time limit, which every session that comes
// extends.
func (a *app) ask(ctx context.Context, f func(context.Context, control.Backend) error) error {
	b, err := a.backend()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(patience, func() { cancel(errSilent) })
	defer limit.Stop()
	err = f(ctx, patient{b, limit})
	if err != nil && context.Cause(ctx) == errSilent {
		return errSilent
	}
	return err
}

// errSilent is the end of patience.
var errSilent = control.Errorf(control.CodeUnavailable, "the daemon has not answered for %v", patience)

// patient is a daemon whose lists take as long as they do, as long as they go on.
type patient struct {
	control.Backend
	limit *time.Timer
}

// EachSession stops the time while f works: it may wait for the reader of its output.
func (p patient) EachSession(ctx context.Context, f func(control.Session) error) error {
	return p.Backend.EachSession(ctx, func(s control.Session) error {
		p.limit.Stop()
		defer p.limit.Reset(patience)
		return f(s)
	})
}
