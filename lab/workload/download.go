package workload

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"roam/lab/topo"
)

// DownloadOptions describe a download by curl from Python's HTTP server.
type DownloadOptions struct {
	Name   string // of the session, for people
	Target string // name or address as curl is given it
	Port   int
	Listen string // address that the server is bound to; "": all
	Bytes  int64  // size of the file
	Rate   int64  // bytes per second; 0: no limit
	Seed   uint64
}

// Download is a running curl with its server.
type Download struct {
	opt            DownloadOptions
	server, client *process
	path           string // where curl writes
	sum            string
}

// StartDownload writes a random file, serves it on one host and downloads it on another
// with curl. The files are in dir.
func StartDownload(ctx context.Context, server, client *topo.Host, dir string, opt DownloadOptions) (*Download, error) {
	python, err := program("python3")
	if err != nil {
		return nil, err
	}
	curl, err := program("curl")
	if err != nil {
		return nil, err
	}
	d := &Download{opt: opt, path: filepath.Join(dir, opt.Name+".received")}
	www := filepath.Join(dir, opt.Name+".www")
	if err := os.MkdirAll(www, 0o755); err != nil {
		return nil, fmt.Errorf("make directory of server: %w", err)
	}
	if d.sum, err = randomFile(filepath.Join(www, "file"), opt.Bytes, opt.Seed); err != nil {
		return nil, err
	}
	port := strconv.Itoa(opt.Port)
	d.server, err = start(server.AppCommand(ctx, python, "-m", "http.server", "--bind", cmp.Or(opt.Listen, "::"),
		"--directory", www, port), nil)
	if err != nil {
		return nil, err
	}
	if err := listening(ctx, server, "tcp6", opt.Port); err != nil {
		d.server.kill()
		return nil, err
	}
	args := []string{curl, "-6", "-sS", "--fail", "-o", d.path, "http://" + hostPort(opt.Target, opt.Port) + "/file"}
	if opt.Rate > 0 {
		args = append(args, "--limit-rate", strconv.FormatInt(opt.Rate, 10))
	}
	if d.client, err = start(client.AppCommand(ctx, args...), nil); err != nil {
		d.server.kill()
		return nil, err
	}
	return d, nil
}

// randomFile writes n seeded random bytes and returns their SHA-256.
func randomFile(path string, n int64, seed uint64) (string, error) {
	f, err := os.Create(path)
	if err != nil {
		return "", fmt.Errorf("create file to serve: %w", err)
	}
	defer f.Close()
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	h := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(f, h), rand.NewChaCha8(key), n); err != nil {
		return "", fmt.Errorf("write file to serve: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Name returns the name given in the options.
func (d *Download) Name() string { return d.opt.Name }

// State returns the progress of the download, from the size of curl's file.
func (d *Download) State() State {
	var n int64
	at := time.Now()
	if st, err := os.Stat(d.path); err == nil {
		n, at = st.Size(), st.ModTime()
	}
	d.client.grewAt(at, uint64(n), fmt.Sprintf("%d %%", 100*n/max(1, d.opt.Bytes)))
	return d.client.state()
}

// Wait waits for curl to end and compares the checksum of its file.
func (d *Download) Wait(ctx context.Context) error {
	if err := d.client.wait(ctx); err != nil {
		return err
	}
	f, err := os.Open(d.path)
	if err != nil {
		return fmt.Errorf("open what curl wrote: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return fmt.Errorf("read what curl wrote: %w", err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != d.sum {
		return fmt.Errorf("download of %d bytes has checksum %s, want %s of %d bytes", n, got, d.sum, d.opt.Bytes)
	}
	return nil
}

// Kill kills curl and the server.
func (d *Download) Kill() {
	d.client.kill()
	d.server.kill()
}

// drainWithin bounds how long a probe may take to end after the command: a busy machine may let it wait
// before it has read its socket empty (udpflow.ReadOut).
const drainWithin = 20 * time.Second
