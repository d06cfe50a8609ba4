package video

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/topo"
	"roam/lab/workload"
	"roam/lab/workload/rtpflow"
)

// wire is a sender and a receiver with an emulated link between them.
func wire(t *testing.T) (send, recv *topo.Host, link *linkem.Link) {
	t.Helper()
	testutil.NeedRoot(t)
	for _, what := range []string{"netns", "cgroup2", "ipv6", "ffmpeg"} {
		testutil.Need(t, what)
	}
	lab, err := topo.New("video")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	if send, err = lab.Host("send"); err == nil {
		recv, err = lab.Host("recv")
	}
	if err == nil {
		link, err = lab.Link(send, "eth0", recv, "eth0", linkem.Params{Seed: 1})
	}
	for i, h := range []*topo.Host{send, recv} {
		if err == nil {
			err = h.AddAddr("eth0", netip.PrefixFrom(address(i), 64))
		}
	}
	if err == nil {
		err = send.AddName(address(1), "recv")
	}
	if err != nil {
		t.Fatal(err)
	}
	return send, recv, link
}

func address(i int) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: byte(i + 1)})
}

// record streams a clip and returns what was recorded.
func record(t *testing.T, recv, send *topo.Host, dir string, opt workload.RTPOptions) *rtpflow.Recording {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	s, err := workload.StartRTP(ctx, recv, send, dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Kill()
	r, err := s.Wait(ctx, 500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if s.BufferErrors() != 0 {
		t.Fatalf("receive buffer refused %d datagrams", s.BufferErrors())
	}
	return r
}

// ffmpeg's packets are the same each time, so that a stream recorded on loopback shows the
// losses of another one; and a loss by the emulator appears in the packets and in the
// frames.
func TestAPlantedLossOnTheWay(t *testing.T) {
	send, recv, link := wire(t)
	path, dir := clip(t, Motion), t.TempDir()
	sent := record(t, send, send, dir, workload.RTPOptions{Name: "sent", Clip: path, Target: "::1", Port: 7000, Speed: 8})
	if err := sent.Complete(); err != nil {
		t.Fatal(err)
	}
	truth := filepath.Join(dir, "sent.ts")
	if err := sent.WriteTo(truth); err != nil {
		t.Fatal(err)
	}
	for _, loss := range []float64{0, 0.01} {
		if err := link.Set(linkem.AB, linkem.Params{Loss: loss, Delay: 5 * time.Millisecond, Seed: 1}); err != nil {
			t.Fatal(err)
		}
		before := link.Counters(linkem.AB).DropLoss
		f := rtpflow.Match(sent,
			record(t, recv, send, dir, workload.RTPOptions{Name: "got", Clip: path, Target: "recv", Port: 7000}))
		planted := int(link.Counters(linkem.AB).DropLoss - before)
		c := f.Count()
		// A report of RTCP may be among what the emulator lost.
		if c.Lost > planted || c.Lost < planted-2 || f.Unknown != 0 || c.Disordered != 0 || c.Doubled != 0 {
			t.Errorf("loss %g: %d planted, counted %+v, %d unknown", loss, planted, c, f.Unknown)
		}
		order, late := f.Played(100 * time.Millisecond)
		got := filepath.Join(dir, "got.ts")
		if err := f.WriteTo(got, order); err != nil {
			t.Fatal(err)
		}
		q := judge(t, truth, got)
		if q.Identical != (loss == 0) || late != 0 || loss > 0 && (planted == 0 || q.Perfect() == 1) {
			t.Errorf("loss %g: identical %v, %g perfect, %d planted, %d late", loss, q.Identical, q.Perfect(), planted, late)
		}
	}
}

// ffmpeg receives ffmpeg's packets, and records the same frames. Its receiver loses packets
// while it does not run, and everything that depends on them: a busy machine gets three
// attempts.
func TestFfmpegAsReceiver(t *testing.T) {
	send, recv, _ := wire(t)
	path := clip(t, Detail)
	want := hashes(t, path)
	var have []string
	for range 3 {
		have = hashes(t, received(t, send, recv, path))
		if len(have) >= 2*FrameRate-2 && strings.Contains(strings.Join(want, " "), strings.Join(have, " ")) {
			return
		}
	}
	t.Errorf("recorded %d frames of %d, or others than were sent", len(have), len(want))
}

// received sends a clip from one host's ffmpeg to another's, and returns what
// that one recorded.
func received(t *testing.T, send, recv *topo.Host, path string) (got string) {
	t.Helper()
	dir := t.TempDir()
	sdp, got := filepath.Join(dir, "stream.sdp"), filepath.Join(dir, "got.ts")
	text := "v=0\no=- 0 0 IN IP6 ::1\ns=clip\nc=IN IP6 " + address(1).String() + "\nt=0 0\nm=video 7000 RTP/AVP 33\n"
	if err := os.WriteFile(sdp, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	// -t ends it by the clock of the stream, since nothing signals the end to a receiver.
	player := recv.AppCommand(ctx, "ffmpeg", "-v", "error", "-nostdin", "-y", "-protocol_whitelist", "file,rtp,udp", "-i",
		sdp, "-c", "copy", "-t", "2", "-f", "mpegts", got)
	player.Stderr = os.Stderr
	if err := player.Start(); err != nil {
		t.Fatal(err)
	}
	if err := topo.Wait(ctx, "port of the receiver", func() bool {
		b, err := recv.Command(ctx, "ss", "-6uln").Output()
		return err == nil && strings.Contains(string(b), ":7000 ")
	}); err != nil {
		t.Fatal(err)
	}
	sender := send.AppCommand(ctx, "ffmpeg", "-v", "error", "-nostdin", "-re", "-i", path, "-map", "0:v", "-c", "copy",
		"-f", "rtp_mpegts", "rtp://recv:7000?pkt_size=1328")
	if err := sender.Run(); err != nil {
		t.Fatal(err)
	}
	_ = player.Process.Signal(os.Interrupt) // it may have ended by itself
	_ = player.Wait()                       // its error is that it was interrupted
	return got
}

// hashes decodes a stream and returns a sum of each frame.
func hashes(t *testing.T, path string) (sums []string) {
	t.Helper()
	out, err := run(t.Context(), "ffmpeg", "-i", path, "-map", "0:v", "-f", "framemd5", "-")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Split(strings.TrimSpace(line), ","); !strings.HasPrefix(line, "#") && len(f) == 6 {
			sums = append(sums, strings.TrimSpace(f[5]))
		}
	}
	return sums
}
