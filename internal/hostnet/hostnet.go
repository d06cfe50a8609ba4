package hostnet

import (
	"errors"
	"net/netip"

	"roam"
)

// Config says what hostnet needs to know of this host.
type Config struct {
	SessionPrefix roam.L64 // never taken for a Locator
	NID           roam.NID // low half of the addresses that hostnet adds
	Device        string   // name of the session device, "roam0"; its peer is Device + "x"
	Include       []string // globs; if any, only links that match one are uplinks
	Exclude       []string // globs; links that match one are never uplinks
	JournalPath   string   // file of changes made to the host; its folder must exist
	OptionSize    int      // octets kept free under the least uplink MTU: 8 or 16; 0 means 8
}

// Host is the network of this host, as seen from the network namespace of the
// thread that called Open. Its methods may be called from any goroutine.
type Host struct{}

var errNotYet = errors.New("not available in this build")

// Open connects to netlink and reads the journal of an earlier process. It
// changes nothing.
func Open(cfg Config) (*Host, error) { return nil, errNotYet }

// Setup makes the session device, its address and its route, or adopts those
// that exist. It needs CAP_NET_ADMIN.
func (h *Host) Setup() (Device, error) { return Device{}, errNotYet }

// Start begins the watch: prefix:NID is kept on every uplink and events flow.
// The first events tell what is there already.
func (h *Host) Start() error { return errNotYet }

// Events returns the one stream of events. It never loses one: what the reader
// has not taken waits in memory. It is closed by Close.
func (h *Host) Events() <-chan Event { return nil }

// Snapshot returns the state that the events told so far.
func (h *Host) Snapshot() Snapshot { return Snapshot{} }

// Device returns what Setup made.
func (h *Host) Device() Device { return Device{} }

// SetMTU sets the largest MTU that the session device may have, in octets; 0
// takes the default of 1500. The MTU in force also stays below the least
// uplink MTU by OptionSize, and never under 1280.
func (h *Host) SetMTU(limit int) error { return errNotYet }

// FlushPMTU forgets what path MTU discovery learned for one session address,
// since its path is another one now.
func (h *Host) FlushPMTU(dst netip.Addr) error { return errNotYet }

// Close ends the watch and leaves the host as it is: addresses, device and
// journal stay for a successor.
func (h *Host) Close() error { return nil }

// Restore takes back every change that the journal names, made by this or an
// earlier process, and removes the journal. It is called after Close, or
// without any Host. A journal that does not exist is no error.
func Restore(journalPath string) error { return errNotYet }

// GlobalAddresses returns the global unicast IPv6 addresses of this host on
// links that are up, those of virtual session devices excepted, preferred and
// permanent ones first: the candidates for `nid = from-address`.
func GlobalAddresses() ([]netip.Addr, error) { return nil, errNotYet }
