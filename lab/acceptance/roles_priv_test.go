package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/node"
)

// withoutBTF is a host whose daemon runs on a kernel that shows no BTF, which the programs
// of the observer need and those of the host do not.
func (w *world) withoutBTF(t *testing.T, name string, s settings) *host {
	t.Helper()
	script := filepath.Join(w.scratch(name), "roamd")
	text := "#!/bin/sh\nexec unshare -m sh -c 'mount -t tmpfs none /sys/kernel/btf && exec \"$0\" \"$@\"' " +
		binaries.Roamd + " \"$@\"\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	n, err := node.New(w.hosts[name], node.Binaries{Roam: binaries.Roam, Roamd: script}, w.options(name, s))
	if err != nil {
		t.Fatal(err)
	}
	h := &host{Node: n, w: w, name: name}
	w.nodes = append(w.nodes, h)
	return h
}

// line returns FILE:LINE of the configuration's first line that begins so.
func (h *host) line(t *testing.T, begins string) string {
	t.Helper()
	text, err := os.ReadFile(h.Config)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, begins) {
			return fmt.Sprintf("%s:%d", h.Config, i+1)
		}
	}
	t.Fatalf("no line begins with %q in\n%s", begins, text)
	return ""
}

// wantSaid waits until a command, whose exit status is no matter, prints all of these.
func (h *host) wantSaid(t *testing.T, command string, parts ...string) {
	t.Helper()
	var said string
	if !testutil.Wait(patience, func() bool {
		out, diag, _ := h.command(strings.Fields(command)...)
		said = out + diag
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(said, part) })
	}) {
		t.Errorf("roam %s does not print %q:\n%s", command, parts, said)
	}
}

// TestHostBesideAFailedRole starts a host and an observer where the kernel lacks what the
// observer needs: the host works, and each command that shows roles has the reason, the
// line, and what to do.
func TestHostBesideAFailedRole(t *testing.T) {
	needs(t, "ping", "unshare")
	testutil.NeedKernel(t, "BTF", exists("/sys/kernel/btf/vmlinux"))
	w := newWorld(t, "failedrole", 2*time.Millisecond, place{"mn", 1, true}, place{"cn", 1, false})
	mn := w.withoutBTF(t, "mn", settings{more: "[role]\nrun = [\"host\", \"observer\"]\n"})
	mn.start()
	w.newHost("cn", settings{}).start()
	w.must("mn", "ping", "-n", "-c", "3", "-i", "0.05", w.session("cn").String())
	mn.reaches("cn", "established")
	at := mn.line(t, "run =")
	mn.wantSaid(t, "", `the role "observer" does not run: `, "no BTF", "CONFIG_DEBUG_INFO_BTF", "("+at+")", "failed")
	mn.wantSaid(t, "doctor", "fault", "role observer", "no BTF", "("+at+")")
	mn.wantSaid(t, "observer show", `the role "observer" does not run`, "no BTF", "("+at+")")
	mn.signal(syscall.SIGTERM)
	mn.start()
	w.must("mn", "ping", "-n", "-c", "3", "-i", "0.05", w.session("cn").String())
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestRoleTakenAway takes the observer out of the file of a daemon that runs. It counts on,
// and roam warns with the line, until the daemon starts without it.
func TestRoleTakenAway(t *testing.T) {
	needs(t, "ping")
	w := newWorld(t, "takenrole", 2*time.Millisecond, place{"mn", 1, true}, place{"cn", 1, false})
	observed := settings{more: "[role]\nrun = [\"host\", \"observer\"]\n[observer]\nlinks = [\"net1\", \"usb0\"]\n"}
	mn := w.newHost("mn", observed)
	mn.start()
	w.newHost("cn", settings{}).start()
	ping := func() { w.must("mn", "ping", "-n", "-c", "3", "-i", "0.05", w.session("cn").String()) }
	w.sub("a link that is not there", func(t *testing.T) {
		at := mn.line(t, "links =")
		mn.wantSaid(t, "", `the role "observer" runs, but: not observed: usb0`, "("+at+")", "links net1; packets")
		mn.wantSaid(t, "doctor", "warning  role observer", "not observed: usb0", "("+at+")")
	})
	w.sub("its section alone is left", func(t *testing.T) {
		mn.write(settings{more: "[role]\nrun = [\"host\"]\n[observer]\nlinks = [\"net1\"]\n"})
		mn.wantSaid(t, "config reload", "section [observer] belongs to the role", mn.line(t, "[observer]"),
			"nothing was changed")
	})
	w.sub("taken away", func(t *testing.T) {
		mn.write(settings{more: "[role]\nrun = [\"host\"]\n"})
		mn.wantSaid(t, "config reload", `role.run: ["host", "observer"] -> ["host"]`)
		at := mn.line(t, "run =")
		mn.wantSaid(t, "", `the role "observer" runs, but: role.run (`+at+") no longer lists it", "restart roamd")
		was := mn.echoes("net1", "out")
		ping()
		testutil.Eventually(t, patience, func() bool { return mn.echoes("net1", "out") >= was+3 }, "it counts on")
	})
	w.sub("started without it", func(t *testing.T) {
		mn.signal(syscall.SIGTERM)
		mn.start()
		ping()
		mn.wantSaid(t, "observer show", `the daemon does not have the role "observer"`)
		if s := mn.status(); s.State != "running" {
			t.Errorf("status %+v", s)
		}
	})
	w.sub("down removes it", func(t *testing.T) {
		mn.down()
		unmounted(t, mn)
	})
}
