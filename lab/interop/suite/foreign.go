package suite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"roam"
	"roam/lab/topo"
)

// Foreign describes a host with another stack on a link of this machine.
type Foreign struct {
	Link string // interface of this machine by which it is reached
	NID  roam.NID
	L64s []roam.L64 // the first is advertised there; it moves to the second
	Port uint16     // of its echo services over TCP and UDP; 0 is 7
	// Agent is a program that controls the host: the suite runs it with the words of a
	// request appended, see docs/lab.md. Empty: cases that need it are not measured.
	Agent []string
}

// foreign is a target of that kind.
type foreign struct {
	Foreign
	roam   netip.Addr
	router *topo.Host // where it is attached
}

func (f *foreign) nid() roam.NID        { return f.NID }
func (f *foreign) locators() []roam.L64 { return f.L64s }
func (f *foreign) port() uint16         { return cmp.Or(f.Port, 7) }
func (f *foreign) plain() string        { return "" }
func (f *foreign) answersEcho() bool    { return true }

// detach removes the router's place on the link, which the next case takes.
func (f *foreign) detach() error {
	if f.router == nil {
		return nil
	}
	r := f.router
	f.router = nil
	return r.DelLink("peer")
}

// attach returns the host to its first locator, if there is an agent.
func (f *foreign) attach(w *world) ([]topo.Advert, error) {
	if _, err := f.ask(context.Background(), agentTime, "reset"); err != nil && !errors.Is(err, errUnmeasured) {
		return nil, err
	}
	if err := w.r.Macvlan("peer", f.Link); err != nil {
		return nil, err
	}
	f.router = w.r
	return []topo.Advert{{Interface: "peer", Prefix: prefixOf(f.L64s[0])}}, addRouter(w.r, "peer", f.L64s)
}

// addRouter gives the router an address in each of a target's networks.
func addRouter(r *topo.Host, ifname string, l64s []roam.L64) error {
	for _, l := range l64s {
		if err := r.AddAddr(ifname, netip.PrefixFrom(prefixOf(l).Addr().Next(), 64)); err != nil {
			return err
		}
	}
	return nil
}

func prefixOf(l roam.L64) netip.Prefix {
	return netip.PrefixFrom(roam.ILV{L64: l}.Addr(), 64)
}

func (f *foreign) open(w *world) {
	f.roam = roam.ILV{NID: w.nid, L64: locator(roamPrefix(0))}.Addr()
}

// ask runs the agent with a request and returns its output.
func (f *foreign) ask(ctx context.Context, span time.Duration, words ...string) (string, error) {
	if len(f.Agent) == 0 {
		return "", fmt.Errorf("%w: the target would have to be asked to %s, and there is no --agent", errUnmeasured, words[0])
	}
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	cmd := exec.CommandContext(ctx, f.Agent[0], append(f.Agent[1:], words...)...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	text := string(bytes.TrimSpace(out))
	var exit *exec.ExitError
	switch {
	case err == nil:
		return text, nil
	case errors.As(err, &exit) && exit.ExitCode() == agentCannot:
		return "", fmt.Errorf("%w: the agent cannot %s", errUnmeasured, words[0])
	}
	return "", fmt.Errorf("agent: %s: %w: %s", strings.Join(words, " "), err, text)
}

// agentCannot is the exit status of an agent that does not serve a request.
const agentCannot = 3

// agentTime bounds a request without a span of its own.
const agentTime = time.Minute

func (f *foreign) callTCP(context.Context) (*turns, error) {
	return nil, fmt.Errorf("%w: an agent keeps no connection that it began", errUnmeasured)
}

func (f *foreign) callUDP(context.Context) (*datagrams, error) {
	return nil, fmt.Errorf("%w: an agent keeps no flow that it began", errUnmeasured)
}

func (f *foreign) echoTCP(ctx context.Context, size int) error {
	_, err := f.ask(ctx, agentTime, "tcp-echo", f.roam.String(), strconv.Itoa(echoServer), strconv.Itoa(size))
	return err
}

func (f *foreign) fetchTCP(ctx context.Context, size int) error {
	_, err := f.ask(ctx, agentTime, "tcp-fetch", f.roam.String(), strconv.Itoa(fetchServer), strconv.Itoa(size))
	return err
}

func (f *foreign) echoUDP(ctx context.Context, count int) (losses, error) {
	n, err := f.lost(ctx, "udp-echo", f.roam.String(), strconv.Itoa(echoServer), strconv.Itoa(count), strconv.Itoa(rate))
	return losses{count: n}, err
}

func (f *foreign) ping(ctx context.Context, count int) (lost int, err error) {
	return f.lost(ctx, "ping", f.roam.String(), strconv.Itoa(count))
}

// lost makes a request whose answer is the number of lost datagrams.
func (f *foreign) lost(ctx context.Context, words ...string) (int, error) {
	out, err := f.ask(ctx, agentTime, words...)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(out)
	if err != nil {
		return 0, fmt.Errorf("agent: %s: %q is not the number of what was lost", words[0], out)
	}
	return n, nil
}

func (f *foreign) move(ctx context.Context, hard bool) error {
	if len(f.L64s) < 2 {
		return fmt.Errorf("%w: the target has one locator", errUnmeasured)
	}
	_, err := f.ask(ctx, agentTime, "move", map[bool]string{true: "hard", false: "soft"}[hard],
		prefixOf(f.L64s[1]).String())
	return err
}

func (f *foreign) reboot(ctx context.Context) error {
	_, err := f.ask(ctx, agentTime, "reboot")
	return err
}

func (f *foreign) disable(ctx context.Context) error {
	_, err := f.ask(ctx, agentTime, "disable")
	return err
}
