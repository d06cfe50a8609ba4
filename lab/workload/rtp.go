package workload

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"roam/lab/topo"
	"roam/lab/workload/rtpflow"
)

// RTPOptions describe a video that ffmpeg sends without transcoding, an MPEG transport
// stream in RTP (RFC 2250), to a recorder.
type RTPOptions struct {
	Name   string
	Clip   string // path of an MPEG transport stream
	Target string // name or address of the receiver, as the sender is given it
	Port   int    // of RTP; the next one is for RTCP
	// Speed is the sending speed, relative to the clip's own; 0 is 1.
	Speed float64
}

// RTP is a stream in progress.
type RTP struct {
	opt      RTPOptions
	path     string
	recorder *process
	sender   *process
	errors   int // datagrams refused by the recorder's receive buffer
}

// rtpPacket is the size of the largest RTP packet: seven packets of the
// transport stream. With all headers and options it fits an MTU of 1400.
const rtpPacket = 12 + 7*188

// StartRTP starts the recorder on one host and, when it listens, ffmpeg on
// another. The recording lies in dir.
func StartRTP(ctx context.Context, receiver, sender *topo.Host, dir string, opt RTPOptions) (*RTP, error) {
	prog, err := program("ffmpeg")
	if err != nil {
		return nil, err
	}
	s := &RTP{opt: opt, path: filepath.Join(dir, opt.Name+".rtp")}
	argv, err := Agent("rtp-record", "--listen", fmt.Sprintf("[::]:%d", opt.Port), "--out", s.path)
	if err != nil {
		return nil, err
	}
	if s.recorder, err = start(receiver.AppCommand(ctx, argv...), s.hear); err != nil {
		return nil, err
	}
	if err = listening(ctx, receiver, "udp6", opt.Port+1); err == nil {
		s.sender, err = start(sender.AppCommand(ctx, append([]string{prog}, opt.args()...)...), nil)
	}
	if err != nil {
		s.recorder.kill()
		return nil, err
	}
	return s, nil
}

// args returns ffmpeg's command line. Its sequence numbers start at FirstSeq.
func (o RTPOptions) args() []string {
	speed := o.Speed
	if speed == 0 {
		speed = 1
	}
	return []string{"-v", "error", "-nostdin", "-readrate", strconv.FormatFloat(speed, 'f', -1, 64), "-i", o.Clip,
		"-map", "0:v", "-c", "copy",
		"-f", "rtp_mpegts", "-rtp_muxer_options", fmt.Sprintf("seq=%d", rtpflow.FirstSeq),
		fmt.Sprintf("rtp://%s?pkt_size=%d", hostPort(o.Target, o.Port), rtpPacket)}
}

// hear parses a status line of the recorder.
func (s *RTP) hear(p *process, line string) {
	f := strings.Fields(line)
	if len(f) != 2 {
		return
	}
	if f[0] == "rcvbuf_errors" {
		s.errors, _ = strconv.Atoi(f[1])
		return
	}
	nbytes, _ := strconv.ParseUint(f[1], 10, 64)
	p.grow(nbytes, f[0]+" packets")
}

// Name returns the name given in the options.
func (s *RTP) Name() string { return s.opt.Name }

// State returns the progress of the recording.
func (s *RTP) State() State {
	st := s.recorder.state()
	st.Alive = st.Alive && s.sender.state().Alive
	return st
}

// Wait waits until ffmpeg has sent the clip and nothing has arrived for a while, and
// returns the recording.
func (s *RTP) Wait(ctx context.Context, quiet time.Duration) (*rtpflow.Recording, error) {
	if err := s.sender.wait(ctx); err != nil {
		return nil, err
	}
	ended := time.Now()
	err := topo.Wait(ctx, "packets under way", func() bool {
		last := s.recorder.state().Last
		if last.Before(ended) {
			last = ended
		}
		return time.Since(last) > quiet
	})
	if err != nil {
		return nil, err
	}
	_ = s.recorder.stdin.Close()
	ctx, cancel := context.WithTimeout(ctx, drainWithin)
	defer cancel()
	if err := s.recorder.wait(ctx); err != nil {
		return nil, err
	}
	return rtpflow.Load(s.path)
}

// BufferErrors returns the number of datagrams that the recorder's receive buffer dropped;
// valid after Wait. Unless it is 0, losses cannot be measured.
func (s *RTP) BufferErrors() int { return s.errors }

// Kill kills both ends.
func (s *RTP) Kill() {
	s.sender.kill()
	s.recorder.kill()
}
