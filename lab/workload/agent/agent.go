// Package agent is the common part of the lab's probes: how a process inside a host
// receives commands, and how it reports its progress.
//
// It implements the reading of standard input and of signals, and the status lines. It
// omits measuring. It is driven by lab/workload/udpflow, lab/workload/tcpflow and
// lab/workload/rtpflow.
package agent

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// StatusEvery is the pause between two lines of status.
const StatusEvery = 100 * time.Millisecond

// Commands reads standard input: stop is closed at the line "stop" and at its
// end, quit at its end, on SIGINT and on SIGTERM.
func Commands(in io.Reader) (stop, quit <-chan struct{}) {
	halted, ended, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, syscall.SIGTERM, os.Interrupt)
	var once sync.Once
	halt := func() { once.Do(func() { close(halted) }) }
	go func() {
		for s := bufio.NewScanner(in); s.Scan(); {
			if s.Text() == "stop" {
				halt()
			}
		}
		close(ended)
	}()
	go func() {
		select {
		case <-sig:
		case <-ended:
		}
		halt()
		close(over)
	}()
	return halted, over
}

// Status prints a line at once, every StatusEvery, and a last time when quit is
// closed; then it returns.
func Status(w io.Writer, quit <-chan struct{}, line func() string) {
	t := time.NewTicker(StatusEvery)
	defer t.Stop()
	for {
		fmt.Fprintln(w, line())
		select {
		case <-quit:
			fmt.Fprintln(w, line())
			return
		case <-t.C:
		}
	}
}
