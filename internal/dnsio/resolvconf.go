package dnsio

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// marker is the first line of a resolv.conf that Roam wrote.
const marker = "# Written by roamd; `roam down` restores the original."

// savedName is the file in ResolvConf.Dir that keeps the original.
const savedName = "resolv.conf.json"

// ResolvConf manages one resolv.conf. Take and Restore may be repeated. If another program
// has rewritten the file, Take starts from the new content, and Restore leaves it alone.
type ResolvConf struct {
	Path string // of resolv.conf
	Dir  string // of the saved original; must survive a power failure, as the file does
	// Resolved is the file in which systemd-resolved lists its servers; "": the default.
	Resolved string
	// Stub is the address of systemd-resolved's stub resolver; the zero value: the default.
	Stub netip.AddrPort
}

// saved is the original: a symbolic link, or content and mode, or neither if there was no
// file.
type saved struct {
	Absent  bool        `json:"absent,omitempty"`
	Link    string      `json:"link,omitempty"`
	Content string      `json:"content"`
	Mode    fs.FileMode `json:"mode"`
}

// Upstream returns the servers of the original file, without the one at own: those that the
// host used before Roam.
func (r ResolvConf) Upstream(own netip.AddrPort) ([]netip.AddrPort, error) {
	o, err := r.original()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.Path, err)
	}
	text, err := os.ReadFile(r.Path)
	return r.past(servers(o.Content, own), own, err == nil && isOurs(text)), nil
}

// Take saves the original in Dir, points the file at own and returns the original's
// servers. The port must be 53: resolv.conf cannot name another.
func (r ResolvConf) Take(own netip.AddrPort) ([]netip.AddrPort, error) {
	if own.Port() != 53 {
		return nil, fmt.Errorf("point %s at %v: resolv.conf knows port 53 only; set dns.listen to it or "+
			"dns.manage_resolv_conf = false", r.Path, own)
	}
	for tries := 1; ; tries++ {
		o, err := r.keep()
		if err != nil {
			return nil, fmt.Errorf("keep %s: %w", r.Path, err)
		}
		err = replaceIf(r.Path, []byte(ours(o.Content, own)), 0o644, func() bool {
			now, err := r.original()
			return tries >= takeTries || err == nil && now == o
		})
		if errors.Is(err, errWritten) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("point %s at %v: %w", r.Path, own, err)
		}
		return r.past(servers(o.Content, own), own, true), nil
	}
}

// takeTries is how often Take reads the file again if another program wrote it meanwhile. A
// write in the last microseconds is lost.
const takeTries = 5

// keep stores the original on disk before Take changes the file.
func (r ResolvConf) keep() (saved, error) {
	o, err := r.original()
	if err != nil {
		return o, err
	}
	b, err := json.Marshal(o)
	if err != nil {
		return o, err
	}
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return o, err
	}
	return o, replace(filepath.Join(r.Dir, savedName), b, 0o600)
}

// Restore puts the original back, if the file is still Roam's, and deletes the saved copy.
func (r ResolvConf) Restore() error {
	keep := filepath.Join(r.Dir, savedName)
	o, err := r.load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // Take never ran
	}
	if err != nil {
		return fmt.Errorf("restore %s: %w", r.Path, err)
	}
	text, err := os.ReadFile(r.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("restore %s: %w", r.Path, err)
	}
	if isOurs(text) && r.forgetUs(o) {
		if err := o.writeTo(r.Path); err != nil {
			return fmt.Errorf("restore %s: %w", r.Path, err)
		}
	}
	if err := os.Remove(keep); err != nil {
		return fmt.Errorf("forget the kept %s: %w", r.Path, err)
	}
	return nil
}

// original returns the content of the file before Roam.
func (r ResolvConf) original() (saved, error) {
	text, err := os.ReadFile(r.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// A dangling link is kept as a link.
		if link, err := os.Readlink(r.Path); err == nil {
			return saved{Link: link}, nil
		}
		return saved{Absent: true}, nil
	case err != nil:
		return saved{}, err
	case isOurs(text):
		o, err := r.load()
		if errors.Is(err, fs.ErrNotExist) {
			// The saved original is lost; Roam's own file is the best source left.
			return saved{Content: withoutUs(string(text)), Mode: 0o644}, nil
		}
		return r.current(o), err
	}
	o := saved{Content: string(text), Mode: 0o644}
	if link, err := os.Readlink(r.Path); err == nil {
		o.Link = link
	} else if info, err := os.Stat(r.Path); err == nil {
		o.Mode = info.Mode().Perm()
	}
	return o, nil
}

// current returns an original with what the target of its link says now: the owner goes on writing that
// while resolv.conf is Roam's, also while no daemon runs. Without a target, as early in a boot, the saved
// content stays.
func (r ResolvConf) current(o saved) saved {
	if o.Link == "" {
		return o
	}
	if text, err := os.ReadFile(r.target(o.Link)); err == nil && !isOurs(text) {
		o.Content = string(text)
	}
	return o
}

// target returns the path of the file that a link at Path leads to.
func (r ResolvConf) target(link string) string {
	if filepath.IsAbs(link) {
		return link
	}
	return filepath.Join(filepath.Dir(r.Path), link)
}

func (r ResolvConf) load() (o saved, err error) {
	b, err := os.ReadFile(filepath.Join(r.Dir, savedName))
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(b, &o); err != nil {
		return o, fmt.Errorf("read %s: %w", savedName, err)
	}
	return o, nil
}

func (o saved) writeTo(path string) error {
	switch {
	case o.Absent:
		return os.Remove(path)
	case o.Link != "":
		temp := path + ".roam"
		_ = os.Remove(temp)
		if err := os.Symlink(o.Link, temp); err != nil {
			return err
		}
		return os.Rename(temp, path)
	}
	return replace(path, []byte(o.Content), o.Mode)
}

// replace writes the file atomically. If the name cannot be replaced, as with a bind mount,
// it writes the file in place.
func replace(path string, b []byte, mode fs.FileMode) error {
	return replaceIf(path, b, mode, func() bool { return true })
}

// errWritten is returned by replaceIf if another program changed the file.
var errWritten = errors.New("another program has written it")

// replaceIf is replace, if the file is still unchanged just before the rename.
func replaceIf(path string, b []byte, mode fs.FileMode, still func() bool) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(b)
	err = errors.Join(err, temp.Chmod(mode), temp.Sync(), temp.Close())
	if err != nil {
		return err
	}
	if !still() {
		return errWritten
	}
	err = os.Rename(temp.Name(), path)
	if errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EXDEV) {
		return os.WriteFile(path, b, mode)
	}
	return err
}

func isOurs(text []byte) bool { return strings.HasPrefix(string(text), marker) }

// behind is the number of servers named behind Roam's own: the C library reads three.
const behind = 2

// ours returns Roam's resolv.conf: the original's domain, search list and options, with our
// server first. Up to two of the original's servers follow, so that names still resolve if
// the daemon is killed and not restarted: the C library moves on at once from a loopback
// port without listener. `rotate` is omitted, since those servers do not know the names of
// correspondents.
func ours(original string, own netip.AddrPort) string {
	lines := []string{marker, "nameserver " + own.Addr().String()}
	for n, s := range servers(original, own) {
		if n < behind {
			lines = append(lines, "nameserver "+s.Addr().String())
		}
	}
	for _, line := range others(original) {
		f := strings.Fields(line)
		if f[0] == "options" && slices.Contains(f, "rotate") {
			line = strings.Join(slices.DeleteFunc(f, func(o string) bool { return o == "rotate" }), " ")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n") + "\n"
}

// withoutUs returns Roam's resolv.conf without Roam's server, which is the first.
func withoutUs(text string) string {
	var out []string
	first := true
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		us := first && strings.HasPrefix(line, "nameserver")
		first = first && !us
		if !us && line != marker {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n") + "\n"
}

// others returns the lines other than servers and comments.
func others(text string) (out []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' && line[0] != ';' && !strings.HasPrefix(line, "nameserver") {
			out = append(out, line)
		}
	}
	return out
}

// servers returns the servers of a resolv.conf, without duplicates and own.
func servers(text string, own netip.AddrPort) (out []netip.AddrPort) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "nameserver" {
			continue
		}
		a, err := netip.ParseAddr(f[1])
		if err != nil {
			continue // as the C library does
		}
		if a.IsUnspecified() {
			a = netip.AddrFrom4([4]byte{127, 0, 0, 1}) // resolv.conf(5): this host
		}
		if s := netip.AddrPortFrom(a, 53); s != own && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
