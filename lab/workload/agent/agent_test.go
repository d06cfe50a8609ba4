package agent

import (
	"bytes"
	"io"
	"testing"
	"time"
)

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-time.After(5 * time.Second):
		return false
	}
}

func TestCommands(t *testing.T) {
	in, say := io.Pipe()
	stop, quit := Commands(in)
	if _, err := io.WriteString(say, "hello\nstop\n"); err != nil {
		t.Fatal(err)
	}
	if !closed(stop) {
		t.Fatal("not stopped")
	}
	select {
	case <-quit:
		t.Fatal("stop ended the probe")
	default:
	}
	if err := say.Close(); err != nil {
		t.Fatal(err)
	}
	if !closed(quit) {
		t.Error("the end of input did not end the probe")
	}
}

func TestEndOfInputStops(t *testing.T) {
	stop, quit := Commands(bytes.NewReader(nil))
	if !closed(stop) || !closed(quit) {
		t.Error("neither stopped nor ended")
	}
}

func TestStatusHasALastLine(t *testing.T) {
	quit, n := make(chan struct{}), 0
	close(quit)
	var b bytes.Buffer
	Status(&b, quit, func() string { n++; return "line" })
	if n < 2 || b.String() != "line\nline\n" {
		t.Errorf("%d lines: %q", n, b.String())
	}
}
