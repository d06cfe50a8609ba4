package config

import "golang.org/x/sys/unix"

// IsCgroup reports whether a directory is one of a cgroup2.
func IsCgroup(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC
}

// IsBPF reports whether a directory is one of a bpffs.
func IsBPF(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && uint32(fs.Type) == unix.BPF_FS_MAGIC
}
