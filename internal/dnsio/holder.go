package dnsio

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// holder names a program that listens on the port, as "NAME (pid N)", or returns "" if it
// finds none; proc is the mount point of procfs. Its result is for an error message, so it
// ignores files that it cannot read.
func holder(proc string, port uint16) string {
	inodes := make(map[string]bool)
	for _, table := range []string{"tcp", "udp", "tcp6", "udp6"} {
		text, err := os.ReadFile(filepath.Join(proc, "self", "net", table))
		if err == nil {
			listeners(string(text), port, inodes)
		}
	}
	links, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd", "*"))
	if err != nil {
		return ""
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !inodes[target] {
			continue
		}
		dir := filepath.Dir(filepath.Dir(link))
		name, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil {
			continue
		}
		return fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(name)), filepath.Base(dir))
	}
	return ""
}

// listeners adds the sockets of the port in a table of /proc/net, in the form of the links
// in /proc/PID/fd.
func listeners(table string, port uint16, inodes map[string]bool) {
	suffix := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		// Fields: number, local address, remote address, state, ..., inode. A remote port
		// of zero means a listening socket.
		if len(f) > 9 && strings.HasSuffix(f[1], suffix) && strings.HasSuffix(f[2], ":0000") {
			inodes["socket:["+f[9]+"]"] = true
		}
	}
}
