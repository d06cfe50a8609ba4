// Package linkem is a link emulator in user space.
package linkem

import "errors"

// Params are the properties of one direction of a link.
type Params struct{}

// Tap is one end of a link.
type Tap struct{}

// OpenTap creates a TAP device in the calling thread's network namespace.
func OpenTap(name string) (*Tap, error) { return nil, errors.New("open tap: not built") }

// Close removes the device.
func (t *Tap) Close() error { return nil }

// Link is an emulated link between two TAP devices.
type Link struct{}

// New joins two devices.
func New(a, b *Tap, ab, ba Params) (*Link, error) { return &Link{}, nil }

// Close removes the link and both devices.
func (l *Link) Close() error { return nil }
