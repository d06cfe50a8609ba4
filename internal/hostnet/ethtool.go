package hostnet

import (
	"encoding/binary"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// From linux/ethtool.h.
const (
	ethtoolStrings  = 0x1b
	ethtoolFeatures = 0x3a
	ethtoolSetSome  = 0x3b
	ethtoolSetInfo  = 0x37

	ethtoolSetTxChecksum = 0x17
	ethtoolSetGRO        = 0x2c

	stringsFeatures = 4
	stringLen       = 32
	featureBlock    = 16 // four words: available, requested, active, never changed
	activeWord      = 8
	// maxFeatures bounds what a driver can make us allocate.
	maxFeatures = 1024
)

// paravirtual drivers have a bus address but hand whole GSO packets to
// another kernel.
var paravirtual = []string{"virtio_net", "vmxnet3", "hv_netvsc", "vif", "xen_netfront", "veth", "tun"}

// physical reports whether a link has a driver that puts segments on a wire:
// it sits on a bus and is not paravirtual.
func (k *kernel) physical(name string) bool {
	info, err := unix.IoctlGetEthtoolDrvinfo(k.ioctl, name)
	if err != nil {
		return false
	}
	driver := unix.ByteSliceToString(info.Driver[:])
	bus := unix.ByteSliceToString(info.Bus_info[:])
	return bus != "" && bus != "N/A" && driver != "" && !slices.Contains(paravirtual, driver)
}

// features returns which offload features are on, by the names that ethtool
// shows; nil if the link has none.
func (k *kernel) features(name string) map[string]bool {
	names := k.featureNames(name)
	blocks := (len(names) + 31) / 32
	state := make([]byte, 8+blocks*featureBlock)
	putWords(state, ethtoolFeatures, uint32(blocks))
	if len(names) == 0 || !k.ethtool(name, state) {
		return nil
	}
	on := map[string]bool{}
	for i, feature := range names {
		word := binary.NativeEndian.Uint32(state[8+i/32*featureBlock+activeWord:])
		if word>>(i%32)&1 == 1 {
			on[feature] = true
		}
	}
	return on
}

// featureNames lists the features that this kernel knows, by their bits.
func (k *kernel) featureNames(name string) []string {
	n := k.featureCount(name)
	b := make([]byte, 12+n*stringLen)
	putWords(b, ethtoolStrings, stringsFeatures, uint32(n))
	if n == 0 || !k.ethtool(name, b) {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = unix.ByteSliceToString(b[12+i*stringLen:][:stringLen])
	}
	return list
}

// turnOff turns single features off. One that this kernel does not know is off.
func (k *kernel) turnOff(name string, features ...string) bool {
	names := k.featureNames(name)
	blocks := (len(names) + 31) / 32
	b := make([]byte, 8+blocks*8) // of each block two words: meant, wanted
	putWords(b, ethtoolSetSome, uint32(blocks))
	for i, feature := range names {
		if slices.Contains(features, feature) {
			meant := b[8+i/32*8:]
			binary.NativeEndian.PutUint32(meant, binary.NativeEndian.Uint32(meant)|1<<(i%32))
		}
	}
	return len(names) > 0 && k.ethtool(name, b)
}

// featureCount asks how many features this kernel knows.
func (k *kernel) featureCount(name string) int {
	b := make([]byte, 20) // command, reserved, mask of 64 bits, one length
	putWords(b, ethtoolSetInfo, 0)
	binary.NativeEndian.PutUint64(b[8:], 1<<stringsFeatures)
	if !k.ethtool(name, b) || binary.NativeEndian.Uint64(b[8:]) == 0 {
		return 0
	}
	return int(min(binary.NativeEndian.Uint32(b[16:]), maxFeatures))
}

// setOffload turns one group of features on or off.
func (k *kernel) setOffload(name string, command uint32, on bool) bool {
	b := make([]byte, 8) // command, value
	putWords(b, command)
	if on {
		putWords(b, command, 1)
	}
	return k.ethtool(name, b)
}

// ethtool does one SIOCETHTOOL; b is the command with its room for the answer.
func (k *kernel) ethtool(name string, b []byte) bool {
	req := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [24 - unsafe.Sizeof(uintptr(0))]byte // struct ifreq has a union of 24 bytes
	}{data: unsafe.Pointer(&b[0])}
	copy(req.name[:unix.IFNAMSIZ-1], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(k.ioctl), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	runtime.KeepAlive(b)
	return errno == 0
}

func putWords(b []byte, words ...uint32) {
	for i, w := range words {
		binary.NativeEndian.PutUint32(b[4*i:], w)
	}
}
