package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"roam/internal/cli"
	"roam/internal/config"
	"roam/internal/control"
)

// patience is how long one question to the daemon may take.
const patience = 10 * time.Second

// app is one run of the command. What it needs of the world are fields, so
// that a test can give it another world.
type app struct {
	printer
	connect func(socket string) control.Backend
	host    host
	usual   string // where the configuration is when none is named

	configPath, socketPath string

	warned bool // that the configuration has faults
}

// printer prints the daemon's answers for people. It asks nothing.
type printer struct {
	*cli.Terminal
	now func() time.Time
}

func newApp(out, errw *os.File) *app {
	return &app{
		printer: printer{cli.NewTerminal("roam", out, errw), time.Now},
		connect: func(socket string) control.Backend { return control.NewClient(socket) },
		host:    realHost(), usual: config.DefaultPath,
	}
}

// config returns the configuration in force: the file that was named, the one
// at the usual place, or the defaults where there is none.
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

// located returns the configuration by which a daemon is found. One with faults does
// not hide a daemon that is well: what can be read of it serves, with a warning.
func (a *app) located() (config.Config, error) {
	cfg, err := a.config()
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return cfg, err
	}
	cfg = config.Rescue(a.configFile(nil))
	if !a.warned {
		a.warned = true
		a.Warn("%v", err)
		a.Warn("the daemon is looked for in %s all the same; `roam config check` names every fault", cfg.Host.RunDir)
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

// backend returns the daemon that the flags name. Nothing is asked yet.
func (a *app) backend() (control.Backend, error) {
	socket, err := a.socket()
	if err != nil {
		return nil, err
	}
	return a.connect(socket), nil
}

// ask runs f on the daemon with a limit on its time.
func (a *app) ask(ctx context.Context, f func(context.Context, control.Backend) error) error {
	b, err := a.backend()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return f(ctx, b)
}
