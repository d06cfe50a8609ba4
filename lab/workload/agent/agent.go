// Package agent is what the lab's probes have in common: how a process that
// runs inside a host is told to stop, and how it says how far it is.
//
// Implements the reading of standard input and of signals, and the lines of
// status. Omits everything that a probe measures. Driven by the probes' Main.
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
