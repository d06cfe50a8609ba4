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

// marker is the first line of a resolv.conf that is ours.
const marker = "# Written by roamd; `roam down` restores the original."

// savedName is the file in that directory that keeps the original.
const savedName = "resolv.conf.json"

// ResolvConf cares for one resolv.conf. Take and Release may be repeated; a
// file that somebody else wrote meanwhile is theirs: Take starts from it, and
// Release leaves it alone.
type ResolvConf struct {
	Path string // of resolv.conf
	Dir  string // where the original is kept; it must outlive a power failure, as the file does
	// Resolved is where systemd-resolved lists the servers that it asks; "": where it always does.
	Resolved string
	// Stub is where systemd-resolved answers; the zero value: where it always does.
	Stub netip.AddrPort
}

// saved is the original: a symbolic link, or content and mode; or neither,
// when there was no file.
type saved struct {
	Absent  bool        `json:"absent,omitempty"`
	Link    string      `json:"link,omitempty"`
	Content string      `json:"content"`
	Mode    fs.FileMode `json:"mode"`
}

// Upstream returns the servers of the original file, without the one at own:
// those that names were asked from before us, or would be.
func (r ResolvConf) Upstream(own netip.AddrPort) ([]netip.AddrPort, error) {
	o, err := r.original()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.Path, err)
	}
	text, err := os.ReadFile(r.Path)
	return r.past(servers(o.Content, own), own, err == nil && isOurs(text)), nil
}

// Take keeps the original in Dir, points the file at own and
// returns the servers of the original. The port must be 53: resolv.conf has no
// way to say another.
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

// takeTries is how often the file is read anew as somebody else has written it
// meanwhile. What they write in the last microseconds is lost.
const takeTries = 5

// keep has the original safe on disk, before the file is touched.
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

// Release puts the original back, if the file is still ours, and forgets it.
func (r ResolvConf) Release() error {
	keep := filepath.Join(r.Dir, savedName)
	o, err := r.load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // never taken
	}
	if err != nil {
		return fmt.Errorf("restore %s: %w", r.Path, err)
	}
	text, err := os.ReadFile(r.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("restore %s: %w", r.Path, err)
	}
	if isOurs(text) && r.forgetUs(o) {
		if err := o.restore(r.Path); err != nil {
			return fmt.Errorf("restore %s: %w", r.Path, err)
		}
	}
	if err := os.Remove(keep); err != nil {
		return fmt.Errorf("forget the kept %s: %w", r.Path, err)
	}
	return nil
}

// original returns the file as it was before us.
func (r ResolvConf) original() (saved, error) {
	text, err := os.ReadFile(r.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// A link that leads nowhere is kept as the link that it is.
		if link, err := os.Readlink(r.Path); err == nil {
			return saved{Link: link}, nil
		}
		return saved{Absent: true}, nil
	case err != nil:
		return saved{}, err
	case isOurs(text):
		o, err := r.load()
		if errors.Is(err, fs.ErrNotExist) {
			// The kept original was lost; nothing better is known than what we made
			// of it.
			return saved{Content: withoutUs(string(text)), Mode: 0o644}, nil
		}
		return o, err
	}
	o := saved{Content: string(text), Mode: 0o644}
	if link, err := os.Readlink(r.Path); err == nil {
		o.Link = link
	} else if info, err := os.Stat(r.Path); err == nil {
		o.Mode = info.Mode().Perm()
	}
	return o, nil
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

func (o saved) restore(path string) error {
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

// replace writes the file whole or not at all. Where the name cannot be
// replaced (a bind mount), the file is written in place.
func replace(path string, b []byte, mode fs.FileMode) error {
	return replaceIf(path, b, mode, func() bool { return true })
}

// errWritten is returned by replaceIf when the file is not what it was.
var errWritten = errors.New("another program has written it")

// replaceIf does the same, if the file is still what it was when all is written but
// the name.
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

// behind is how many servers are named behind ours: the C library reads three.
const behind = 2

// ours is our resolv.conf: the original's domain, search list and options with
// our server first. Behind it are servers of before, so that names are still
// found when we are killed and nothing starts us again: a port on the loopback
// that nobody listens at has the C library go on at once. While we answer they are
// not asked, so `rotate` is left out: they do not know the names of correspondents.
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

// withoutUs returns our resolv.conf without our server, which is the first.
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

// others returns the lines that are neither servers nor comments.
func others(text string) (out []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' && line[0] != ';' && !strings.HasPrefix(line, "nameserver") {
			out = append(out, line)
		}
	}
	return out
}

// servers returns the servers of a resolv.conf, each once, without own.
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
