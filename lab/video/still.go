package video

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// gutter is the distance of frames side by side, in pixels.
const gutter = 8

// Still returns as a JPEG the picture of a received stream when a frame of the sent one was
// due; black before its first picture. Width is in pixels. With the sent stream twice it is
// the sent frame.
func Still(ctx context.Context, sent, got string, frame, width int) ([]byte, error) {
	// The sent stream sets the time: the received one is laid over it.
	graph := fmt.Sprintf(
		"[0:v]scale=%[1]d:-2,drawbox=c=black:t=fill[clock];[1:v]scale=%[1]d:-2[seen];[clock][seen]overlay,select=eq(n\\,%[2]d)[out]", width, frame)
	args := append(inputs(sent, got), "-filter_complex", graph, "-map", "[out]", "-frames:v", "1", "-q:v",
		"4", "-f", "mjpeg", "-")
	b, err := run(ctx, "ffmpeg", args...)
	if err != nil {
		return nil, fmt.Errorf("draw frame %d: %w", frame, err)
	}
	if len(b) == 0 {
		return nil, fmt.Errorf("draw frame %d: the stream has no such frame", frame)
	}
	return b, nil
}

// SideBySide joins stills of one size into one JPEG, left to right. It leaves
// files in dir.
func SideBySide(ctx context.Context, dir string, stills ...[]byte) ([]byte, error) {
	var args []string
	var graph, ends strings.Builder
	for i, b := range stills {
		file := filepath.Join(dir, fmt.Sprintf("still%d.jpg", i))
		if err := os.WriteFile(file, b, 0o644); err != nil {
			return nil, fmt.Errorf("join stills: %w", err)
		}
		args = append(args, "-i", file)
		space := gutter
		if i == len(stills)-1 {
			space = 0
		}
		fmt.Fprintf(&graph, "[%d:v]pad=w=iw+%d:color=white[p%d];", i, space, i)
		fmt.Fprintf(&ends, "[p%d]", i)
	}
	fmt.Fprintf(&graph, "%shstack=inputs=%d[out]", ends.String(), len(stills))
	b, err := run(ctx, "ffmpeg", append(args, "-filter_complex", graph.String(), "-map", "[out]", "-q:v",
		"4", "-f", "mjpeg", "-")...)
	if err != nil {
		return nil, fmt.Errorf("join stills: %w", err)
	}
	return b, nil
}
