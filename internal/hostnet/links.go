package hostnet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"roam"
)

// LinkChanged tells that a link is there, under this name, or is gone.
type LinkChanged struct {
	Link    roam.LinkID
	Name    string
	Present bool
}

// FollowLinks tells of each link that is there, then of those that appear, change or go,
// until done is closed. Where the kernel had to drop messages it tells of all links that
// are there again; one that went meanwhile may be missed.
func FollowLinks(done <-chan struct{}) (<-chan LinkChanged, error) {
	subscribe := func() (chan netlink.LinkUpdate, error) {
		updates := make(chan netlink.LinkUpdate)
		return updates, netlink.LinkSubscribeWithOptions(updates, done, netlink.LinkSubscribeOptions{
			ListExisting: true, ReceiveBufferSize: watchBuffer, ReceiveBufferForceSize: true,
		})
	}
	updates, err := subscribe()
	if err != nil {
		return nil, fmt.Errorf("follow links: %w", err)
	}
	changes := make(chan LinkChanged)
	go func() {
		defer close(changes)
		for ; err == nil; updates, err = subscribe() {
			for u := range updates {
				if u.IfInfomsg.Family == unix.AF_BRIDGE {
					continue // of a port, which is a link still when it leaves its bridge
				}
				select {
				case changes <- LinkChanged{roam.LinkID(u.Index), u.Attrs().Name, u.Header.Type == unix.RTM_NEWLINK}:
				case <-done:
				}
			}
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	return changes, nil
}

// OwnDevice reports whether a link is one of those that Setup makes for a session device
// of this name.
func OwnDevice(device, link string) bool {
	rest, ok := strings.CutPrefix(link, device)
	return ok && slices.Contains([]string{
		"", peerSuffix, segmentationSuffix, segmentationSuffix + peerSuffix,
	}, rest)
}
