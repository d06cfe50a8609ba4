package main

import (
	"context"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"roam/internal/config"
)

// lookupTime is how long the system's resolver may take for one name.
const lookupTime = 2 * time.Second

func (machine) Read(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}

func (machine) Free(dir string) (uint64, bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, false
	}
	if st.Files > 0 && st.Ffree == 0 {
		return 0, true // no inode is free
	}
	return st.Bavail * uint64(st.Bsize), true
}

func (machine) BPF(dir string) bool { return config.IsBPF(dir) }

func (machine) Lookup(ctx context.Context, name string) []netip.Addr {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip6", name)
	if err != nil {
		return nil
	}
	return list
}
