package scene

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"roam"
	"roam/lab/node"
)

// NID returns the Node Identifier of an end host: fixed, so that runs can be
// compared.
func NID(host string) roam.NID {
	if host == "mn" {
		return 0x1000_0000_0000_00a1
	}
	var i int
	_, _ = fmt.Sscanf(host, "cn%d", &i) // names are our own
	return 0x1000_0000_0000_00c0 + roam.NID(i)
}

// nameHosts gives the applications the hosts' names, where no daemon does.
func (s *Scene) nameHosts() (err error) {
	for _, from := range s.Ends {
		for _, to := range s.Ends {
			if from != to && (to.noRoam || s.cfg.Arm != Roam) {
				err = errors.Join(err, from.Host.AddName(to.Addr, to.Host.Name()))
			}
		}
	}
	return err
}

// hostsFile names the hosts with their first locators, as an administrator
// would; the mobile one too, or nobody could begin to talk to it.
func (s *Scene) hostsFile() string {
	var b strings.Builder
	for _, e := range s.Ends {
		if e.noRoam {
			continue
		}
		v := roam.ILVFromAddr(e.Prefix[e.first()].Addr())
		v.NID = NID(e.Host.Name())
		fmt.Fprintf(&b, "%s %s\n", v, e.Host.Name())
	}
	return b.String()
}

// startRoam starts the daemons, the mobile host's last, and waits until each has
// a locator.
func (s *Scene) startRoam(ctx context.Context) error {
	for _, e := range append(append([]*End{}, s.Ends[1:]...), s.Mobile()) {
		if e.noRoam {
			continue
		}
		name, mode := e.Host.Name(), s.cfg.PeerMode
		if e == s.Mobile() {
			mode = s.cfg.Mode
		}
		n, err := node.New(e.Host, node.Binaries{Roam: s.env.Roam, Roamd: s.env.Roamd}, node.Options{
			NID: NID(name), Mode: mode, Hosts: s.hostsFile(), More: s.cfg.More[name],
			Log: filepath.Join(s.env.Dir, s.cfg.Name+"-"+name+".roamd.log"),
		})
		if err != nil {
			return err
		}
		if err := n.Start(ctx); err != nil {
			return err
		}
		e.Node = n
		if err := n.WaitUsable(ctx, e.first()); err != nil {
			return err
		}
	}
	return nil
}
