package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"roam/internal/config"
)

// mountBPF mounts a bpffs at dir unless one is there: pins live as long as the
// mount, not as long as the process.
func mountBPF(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make pin directory: %w", err)
	}
	if config.IsBPF(dir) {
		return nil
	}
	if err := unix.Mount("bpffs", dir, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return fmt.Errorf("mount bpffs at %s: %w (root and CONFIG_BPF_SYSCALL are needed)", dir, err)
	}
	return nil
}

func unmountBPF(dir string) error {
	if !config.IsBPF(dir) {
		return nil
	}
	if err := unix.Unmount(dir, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}

// notifyReady tells systemd, if it asked, that sessions can begin.
func notifyReady() { notify("READY=1\nSTATUS=") }

// notifyWaiting tells systemd, if it asked, that the daemon runs and what its start waits for. Units that are ordered
// after this one, such as a server by which one would look what is amiss, do not wait with it.
func notifyWaiting(what string) { notify("READY=1\nSTATUS=waits for " + what) }

func notify(state string) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return // systemd will notice
	}
	defer c.Close()
	_, _ = c.Write([]byte(state))
}
