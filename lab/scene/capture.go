package scene

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"roam/lab/node"
	"roam/lab/topo"
)

// Captures are the running captures of all interfaces of some hosts.
type Captures struct {
	dir  string
	list []*topo.Capture
}

// Capture captures the first snaplen bytes (0: all) of every packet on the interfaces of
// the end hosts, into dir/HOST-INTERFACE.pcap. A filter in tcpdump's language narrows it.
// Run leaves the events of their daemons beside, in dir/HOST-events.jsonl.
func (s *Scene) Capture(ctx context.Context, dir string, snaplen int, filter ...string) (*Captures, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory of captures: %w", err)
	}
	c := &Captures{dir: dir}
	s.kept = dir
	for _, e := range s.Ends {
		for _, ifname := range sorted(e.Prefix) {
			one, err := e.Host.Capture(ctx, ifname, c.File(e.Host.Name(), ifname), snaplen, filter...)
			if err != nil {
				_, serr := c.Stop()
				return nil, errors.Join(err, serr)
			}
			c.list = append(c.list, one)
		}
	}
	return c, nil
}

// File returns the path of the capture of an interface.
func (c *Captures) File(host, ifname string) string {
	return filepath.Join(c.dir, host+"-"+ifname+".pcap")
}

// Stop ends the captures and returns the number of packets that the kernel dropped. Unless
// it is 0, the files cannot prove that a packet was absent.
func (c *Captures) Stop() (dropped int, err error) {
	for _, one := range c.list {
		n, e := one.Stop()
		dropped, err = dropped+n, errors.Join(err, e)
	}
	c.list = nil
	return dropped, err
}

// keepEvents writes the events of a daemon, a line of JSON each, beside the captures.
func keepEvents(dir, host string, events []node.Event) (err error) {
	f, err := os.Create(filepath.Join(dir, host+"-events.jsonl"))
	if err != nil {
		return fmt.Errorf("keep the events of %s: %w", host, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for _, e := range events {
		if err := json.NewEncoder(f).Encode(e); err != nil {
			return fmt.Errorf("keep the events of %s: %w", host, err)
		}
	}
	return nil
}
