package ilnphost

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"

	"roam/structops"
)

// Window is a congestion window for a TCP connection of this network namespace.
type Window struct {
	Local, Remote netip.AddrPort
	Segments      int  // the window
	Least         int  // it is set only if the connection has this window or a larger one, and repairs no loss
	Most          int  // the largest that its congestion control may make of it; 0: without limit, also if it is not set
	Pace          int  // bytes a second at most, if the window is set; 0: without limit, also if not; below: as it is
	PaceAnyway    bool // Pace is set though the window is not
}

const (
	windowsMost = 64            // that are set at once; map window_orders holds them
	noMost      = math.MaxInt32 // as the kernel has a window without limit
)

// SetWindows sets congestion windows, at most 64, and returns those that were set. The congestion controls of the
// connections begin anew with them. It looks at every TCP socket of the namespace, and registers a congestion control
// meanwhile. A kernel that cannot do that returns an error each time. Without any it loads what sets them.
func (Sockets) SetWindows(all []Window) (done []Window, err error) {
	stalledUse.Lock()
	defer stalledUse.Unlock()
	c, err := borrowSetter()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, returnSetter(c)) }()
	if len(all) == 0 {
		return nil, nil
	}
	orders := make(map[windowWindowKey]Window)
	for _, w := range all[:min(len(all), windowsMost)] {
		order := windowWindowOrder{Window: uint32(w.Segments), Least: uint32(w.Least), Pace: uint32(w.Pace)}
		if order.Most = uint32(w.Most); w.Most == 0 || w.Most > noMost {
			order.Most = noMost
		}
		switch {
		case w.Pace == 0:
			order.Pace, order.Paced = math.MaxUint32, 1
		case w.Pace < 0:
			order.Pace = 0
		}
		if w.PaceAnyway {
			order.Paced = 1
		}
		k := windowKeyOf(w)
		orders[k] = w
		if err := c.Collection.Maps["window_orders"].Put(k, order); err != nil {
			return nil, fmt.Errorf("write the windows to be set: %w", err)
		}
		defer c.Collection.Maps["window_orders"].Delete(k)
	}
	b, err := iterate(c.Collection.Programs["set_windows"])
	if err != nil {
		return nil, fmt.Errorf("set windows: %w", err)
	}
	rows := make([]windowWindowKey, len(b)/binary.Size(windowWindowKey{}))
	if err := binary.Read(bytes.NewReader(b), binary.NativeEndian, rows); err != nil {
		return nil, fmt.Errorf("decode the windows that were set: %w", err)
	}
	for _, k := range rows {
		if w, is := orders[k]; is {
			done = append(done, w)
		}
	}
	return done, nil
}

// windowSetter is what sets windows, if it is kept: loading it takes a tenth of a second of a processor. All planes of
// the process share it, under stalledUse.
var windowSetter *structops.Control

// borrowSetter registers what sets windows.
func borrowSetter() (*structops.Control, error) {
	if c := windowSetter; c != nil {
		windowSetter = nil
		if err := c.Renew(); err != nil {
			return nil, errors.Join(fmt.Errorf("register the setter of windows: %w", err), c.Close())
		}
		return c, nil
	}
	spec, err := loadWindow()
	if err != nil {
		return nil, fmt.Errorf("load the program that sets windows: %w", err)
	}
	name, field := setterName()
	if err := spec.Variables["setter_name"].Set(field); err != nil {
		return nil, fmt.Errorf("name the setter of windows: %w", err)
	}
	return structops.Register(spec, "window_setter", name, nil)
}

// setterName makes a name for a congestion control of ours, and the field that holds it. The names of the whole
// machine, containers and all, must not clash.
func setterName() (name string, field [16]byte) {
	name = fmt.Sprintf("roam%08x", rand.Uint32())
	copy(field[:15], name)
	return name, field
}

// returnSetter ends the registration.
func returnSetter(c *structops.Control) error {
	renewable, err := c.Withdraw()
	if !renewable || err != nil {
		c.Collection.Close()
		return err
	}
	windowSetter = c
	return nil
}

func windowKeyOf(w Window) (k windowWindowKey) {
	k.Local.In6U.U6Addr8, k.Remote.In6U.U6Addr8 = w.Local.Addr().As16(), w.Remote.Addr().As16()
	k.LocalPort, k.RemotePort = w.Local.Port(), w.Remote.Port()
	return k
}
