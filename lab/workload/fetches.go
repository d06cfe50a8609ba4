package workload

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"roam/lab/topo"
	"roam/lab/workload/fetch"
)

// FetchOptions describe short transfers by new connections, one after the other, see package fetch.
type FetchOptions struct {
	Name   string // of the session, for people
	Target string // name or address as the client is given it
	Port   int
	Sizes  []int         // bytes of the transfers, in turn
	Times  int           // transfers of each size
	Warm   time.Duration // for which small transfers go before, uncounted
	Pause  time.Duration // between two transfers
	CC     string        // congestion control of the server; "" for the kernel's default
}

// Fetches are running transfers.
type Fetches struct {
	opt            FetchOptions
	server, client *process
	mu             sync.Mutex
	output         string // of the client, see fetch.Read
}

// StartFetches starts a server on one host and, when it listens, the client on another.
func StartFetches(ctx context.Context, server, client *topo.Host, opt FetchOptions) (*Fetches, error) {
	f := &Fetches{opt: opt}
	argv, err := Agent("fetch", "--listen", fmt.Sprintf("[::]:%d", opt.Port), "--cc", opt.CC)
	if err != nil {
		return nil, err
	}
	if f.server, err = start(server.AppCommand(ctx, argv...), nil); err != nil {
		return nil, err
	}
	if err := listening(ctx, server, "tcp6", opt.Port); err != nil {
		f.server.kill()
		return nil, err
	}
	var sizes []string
	for _, n := range opt.Sizes {
		sizes = append(sizes, strconv.Itoa(n))
	}
	argv, err = Agent("fetch", "--to", hostPort(opt.Target, opt.Port), "--sizes", strings.Join(sizes, ","),
		"--times", strconv.Itoa(opt.Times), "--warm", opt.Warm.String(), "--pause", opt.Pause.String())
	if err == nil {
		f.client, err = start(client.AppCommand(ctx, argv...), f.hear)
	}
	if err != nil {
		f.server.kill()
		return nil, err
	}
	return f, nil
}

// hear keeps a line of the output; what it means is read in the end.
func (f *Fetches) hear(p *process, line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.output += line + "\n"
	if bytes, took, err := fetch.Parse(line); err == nil {
		p.grow(p.state().Progress+uint64(bytes), fmt.Sprintf("%d kB in %d ms", bytes/1000, took.Milliseconds()))
	}
}

// Name returns the name given in the options.
func (f *Fetches) Name() string { return f.opt.Name }

// State returns the progress of the transfers.
func (f *Fetches) State() State { return f.client.state() }

// Wait waits for the end and returns the output, which package fetch reads. A transfer that failed is an
// error.
func (f *Fetches) Wait(ctx context.Context) (string, error) {
	err := f.client.wait(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.output, err
}

// Kill kills both ends.
func (f *Fetches) Kill() {
	f.client.kill()
	f.server.kill()
}
