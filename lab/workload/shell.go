package workload

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"roam/lab/topo"
)

// remoteShell runs in the interactive session. It returns each line with the id of its
// process and the connection, so that a session that was silently re-opened is detected.
const remoteShell = `stty -echo; while read -r l; do echo "$l $$ $SSH_CONNECTION"; done`

// typeEvery is the pause between two lines typed.
const typeEvery = 100 * time.Millisecond

// ShellOptions describe an interactive ssh session.
type ShellOptions struct {
	Name   string // of the session, for people
	Target string // name or address as ssh is given it
	Port   int
	Listen string // address that the server is bound to; "": all
}

// Echo is one typed line and its echo.
type Echo struct {
	Sent time.Time
	RTT  time.Duration // 0: no echo
}

// Shell is a running interactive ssh session with its server.
type Shell struct {
	opt            ShellOptions
	server, client *process

	mu       sync.Mutex
	echoes   []Echo
	identity string // process and connection, from the first echo
	changed  string // another identity, if there was one
	stop     chan struct{}
}

// StartShell starts an sshd with throw-away keys in dir on one host, and on
// another an ssh session with a terminal in which a line is typed every 100 ms.
func StartShell(ctx context.Context, server, client *topo.Host, dir string, opt ShellOptions) (*Shell, error) {
	dir = filepath.Join(dir, opt.Name)
	if err := makeKeys(ctx, dir, opt); err != nil {
		return nil, err
	}
	sshd, err := program("sshd")
	if err != nil {
		return nil, err
	}
	ssh, err := program("ssh")
	if err != nil {
		return nil, err
	}
	s := &Shell{opt: opt, stop: make(chan struct{})}
	if s.server, err = start(server.AppCommand(ctx, sshd, "-D", "-e", "-f", filepath.Join(dir, "sshd_config")),
		nil); err != nil {
		return nil, err
	}
	if err := listening(ctx, server, "tcp6", opt.Port); err != nil {
		s.server.kill()
		return nil, fmt.Errorf("%w: %s", err, s.server.errs)
	}
	args := []string{ssh, "-6", "-tt", "-F", "none", "-p", strconv.Itoa(opt.Port), "-i", filepath.Join(dir, "user"),
		"-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "HostKeyAlias=lab", "-o", "LogLevel=ERROR",
		"-o", "UserKnownHostsFile=" + filepath.Join(dir, "known_hosts"), "root@" + opt.Target, remoteShell}
	if s.client, err = start(client.AppCommand(ctx, args...), s.hear); err != nil {
		s.server.kill()
		return nil, err
	}
	go s.typeOn()
	return s, nil
}

// makeKeys writes keys and configuration that live and die with the lab. The session's home directory is dir, and
// sshd runs no rc of the account, so that none of its start-up files runs: they may wait, for a minute, for those of
// another shell.
func makeKeys(ctx context.Context, dir string, opt ShellOptions) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory of keys: %w", err)
	}
	// sshd refuses to start without its directory for separated privileges,
	// which a machine without the running service does not have.
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		return fmt.Errorf("make directory of sshd: %w", err)
	}
	keygen, err := program("ssh-keygen")
	if err != nil {
		return err
	}
	for _, name := range []string{"host", "user"} {
		if out, err := run(ctx, keygen, "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f",
			filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("make key: %w: %s", err, out)
		}
	}
	public, err := os.ReadFile(filepath.Join(dir, "host.pub"))
	if err != nil {
		return fmt.Errorf("read host key: %w", err)
	}
	conf := fmt.Sprintf("Port %d\nListenAddress %[3]s\nHostKey %[2]s/host\nAuthorizedKeysFile "+
		"%[2]s/user.pub\nPidFile none\n"+
		"StrictModes no\nUsePAM no\nPermitUserRC no\nPermitRootLogin prohibit-password\nPasswordAuthentication "+
		"no\nKbdInteractiveAuthentication no\n"+
		"PrintMotd no\nPrintLastLog no\nUseDNS no\nLogLevel ERROR\nSetEnv HOME=%[2]s\n", opt.Port, dir,
		cmp.Or(opt.Listen, "::"))
	for name, text := range map[string]string{"sshd_config": conf, "known_hosts": "lab " + string(public)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// typeOn types numbered lines until the session is closed.
func (s *Shell) typeOn() {
	t := time.NewTicker(typeEvery)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-s.client.done:
			return
		case <-t.C:
		}
		s.mu.Lock()
		n := len(s.echoes)
		s.echoes = append(s.echoes, Echo{Sent: time.Now()})
		s.mu.Unlock()
		if _, err := fmt.Fprintf(s.client.stdin, "%d\n", n); err != nil {
			return
		}
	}
}

// hear parses an echoed line: number, process, connection.
func (s *Shell) hear(p *process, line string) {
	number, identity, ok := strings.Cut(strings.TrimSpace(line), " ")
	n, err := strconv.Atoi(number)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ok || err != nil || n < 0 || n >= len(s.echoes) {
		return
	}
	switch {
	case s.identity == "":
		s.identity = identity
	case s.identity != identity:
		s.changed = identity
	}
	s.echoes[n].RTT = time.Since(s.echoes[n].Sent)
	p.grow(uint64(n)+1, fmt.Sprintf("echo %d in %.0f ms", n, s.echoes[n].RTT.Seconds()*1e3))
}

// Name returns the name given in the options.
func (s *Shell) Name() string { return s.opt.Name }

// State returns the progress of the session.
func (s *Shell) State() State { return s.client.state() }

// Echoes returns every line typed so far.
func (s *Shell) Echoes() []Echo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Echo(nil), s.echoes...)
}

// Close stops typing, waits for the last echo, exits the remote shell and reports whether
// the session used one connection and one process all the time, and lost no line.
func (s *Shell) Close(ctx context.Context) error {
	close(s.stop)
	err := topo.Wait(ctx, "the last line of "+s.opt.Name, func() bool {
		return s.client.ended() || s.missing() == 0
	})
	if err == nil && s.client.ended() {
		err = fmt.Errorf("ssh ended by itself: %w", s.client.wait(ctx))
	}
	_ = s.client.stdin.Close()
	s.Kill()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		return err
	case s.identity == "":
		return fmt.Errorf("no line of %s ever came back", s.opt.Name)
	case s.changed != "":
		return fmt.Errorf("session changed from %q to %q", s.identity, s.changed)
	}
	return nil
}

// missing counts the lines without echo.
func (s *Shell) missing() (n int) {
	for _, e := range s.Echoes() {
		if e.RTT == 0 {
			n++
		}
	}
	return n
}

// Kill kills ssh and the server.
func (s *Shell) Kill() {
	s.client.kill()
	s.server.kill()
}
