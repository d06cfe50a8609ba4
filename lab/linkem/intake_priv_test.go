package linkem

import (
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Frames that a host sends back to back on two links of one delay arrive in that order: no
// link's frames are stamped before those that came earlier on the other. If the machine stops
// the thread just after it has read a frame, it looks there first again: a few are overtaken
// then, in the best of three rounds at most one in a hundred pairs.
func TestLinksKeepOrder(t *testing.T) {
	needLink(t)
	const pairs, rounds = 2000, 3
	best := 2 * pairs
	for range rounds {
		if best = min(best, overtaken(t, pairs)); best <= pairs/100 {
			return
		}
	}
	t.Errorf("%d of %d frames were overtaken by one sent later", best, 2*pairs)
}

// overtaken returns how many frames of as many pairs arrive after one that was sent later.
func overtaken(t *testing.T, pairs int) (late int) {
	t.Helper()
	done := make(chan struct{})
	var got []receipt
	var err error
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so that the namespace ends with the thread
		got, err = sendPairs(pairs)
	}()
	<-done
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2*pairs {
		t.Fatalf("%d of %d frames arrived", len(got), 2*pairs)
	}
	slices.SortStableFunc(got, func(a, b receipt) int { return int(a.at - b.at) })
	for i := 1; i < len(got); i++ {
		if got[i].number < got[i-1].number {
			late++
		}
	}
	return late
}

// receipt is a frame with the kernel's time of its reception.
type receipt struct {
	at     int64
	number uint64
}

// sendPairs joins the calling thread's new namespace to itself by two links of 5 ms and sends
// frames in pairs a millisecond apart, one on each link, by turns the one or the other first.
func sendPairs(pairs int) (got []receipt, err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	var out, in [2]int
	for i, names := range [][2]string{{"em0", "em1"}, {"em2", "em3"}} {
		var taps [2]*Tap
		for j, name := range names {
			if taps[j], err = OpenTap(name); err != nil {
				return nil, err
			}
		}
		p := Params{Delay: 5 * time.Millisecond}
		link, err := New(taps[0], taps[1], p, p)
		if err != nil {
			return nil, err
		}
		defer link.Close()
		var errs [2]error
		out[i], errs[0] = taps[0].listen()
		in[i], errs[1] = taps[1].listen()
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
		defer unix.Close(out[i])
		defer unix.Close(in[i])
	}
	frame := make([]byte, 200)
	copy(frame, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, probeType >> 8, probeType & 0xff})
	for n := range uint64(2 * pairs) {
		binary.BigEndian.PutUint64(frame[ethLen:], n)
		if _, err := unix.Write(out[(n+n/2)%2], frame); err != nil {
			return nil, err
		}
		if n%2 == 1 {
			ts := unix.NsecToTimespec(int64(time.Millisecond))
			_ = unix.Nanosleep(&ts, nil) // cut short: the pairs only come faster
		}
	}
	for _, fd := range in {
		r := receiver{fd: fd}
		if err := r.collect(pairs, &got); err != nil {
			return nil, err
		}
	}
	return got, nil
}

// collect adds the frames that arrived, until there are as many as were sent or none has
// arrived for a second.
func (r *receiver) collect(want int, got *[]receipt) error {
	buf, oob := make([]byte, 2048), make([]byte, 128)
	for range want {
		poll := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(poll, 1000); n <= 0 {
			return err
		}
		_, k, _, _, err := unix.Recvmsg(r.fd, buf, oob, 0)
		if err != nil {
			return err
		}
		msgs, err := unix.ParseSocketControlMessage(oob[:k])
		if err != nil || len(msgs) == 0 {
			return errors.Join(err, errors.New("no time stamp"))
		}
		d := msgs[0].Data
		*got = append(*got, receipt{number: binary.BigEndian.Uint64(buf[ethLen:]),
			at: int64(binary.NativeEndian.Uint64(d))*int64(time.Second) + int64(binary.NativeEndian.Uint64(d[8:]))})
	}
	return nil
}
