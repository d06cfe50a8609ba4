package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Bounds of the cases.
const (
	lossBound = 2               // datagrams of a flow at 50 per second, after its first second
	gapBound  = 2 * time.Second // without an echo over TCP, through a soft move
	backBound = 3 * time.Second // until a flow is answered again after a hard move or a reboot
	lastPart  = time.Second     // at the end of a case, in which everything must run
	busyLoss  = rate / 2        // in place of lossBound where only correctness is judged
	busySlack = 5 * time.Second // then added to what bounds a time
	before    = 1500 * time.Millisecond
	after     = 2500 * time.Millisecond
)

// Case is one interaction of a stack with Roam.
type Case struct {
	Name string // such as soft-roam-out
	Says string
	Core bool // required of every stack: set-up, soft moves, reboots

	options string // of the target's hosts line
	duality bool
	plain   bool // plain IPv6 is the expected result
	run     func(context.Context, *trial) error
}

// trial is a case that runs.
type trial struct {
	*world
	Case
	metrics map[string]float64
	values  []string
	faults  []string
	mayLose int           // datagrams of a flow, after its first second
	slack   time.Duration // what a busy machine may add to a time
}

func newTrial(w *world, c Case, busy bool) *trial {
	t := &trial{world: w, Case: c, metrics: map[string]float64{}, mayLose: lossBound}
	if busy {
		t.mayLose, t.slack = busyLoss, busySlack
	}
	return t
}

// note records a figure; value is its form for readers.
func (t *trial) note(metric string, v float64, value string) {
	t.metrics[metric] = v
	t.values = append(t.values, value)
}

func (t *trial) fault(format string, args ...any) {
	t.faults = append(t.faults, fmt.Sprintf(format, args...))
}

// Cases lists all of them in the order of a table.
func Cases() []Case {
	return []Case{
		{Name: "tcp-roam", Says: "Roam begins TCP", Core: true, run: tcpFromRoam},
		{Name: "tcp-target", Says: "the target begins TCP, and fetches", Core: true, run: tcpFromTarget},
		{Name: "udp-roam", Says: "Roam begins UDP", Core: true, run: udpFromRoam},
		{Name: "udp-target", Says: "the target begins UDP", Core: true, run: udpFromTarget},
		{Name: "ping-roam", Says: "Roam's host pings", run: pingFromRoam},
		{Name: "ping-target", Says: "the target pings", run: pingFromTarget},
		{Name: "rule-ipv6", Says: "ordinary checksums by configuration", options: "checksum=ipv6", run: rule},
		{Name: "rule-rfc6741", Says: "checksums over NIDs by configuration", options: "checksum=rfc6741", run: rule},
		{Name: "soft-roam-out", Says: "Roam moves softly, Roam began", Core: true, run: moves(true, false, false, false)},
		{Name: "soft-roam-in", Says: "Roam moves softly, the target began", Core: true, run: moves(true, false, false, true)},
		{Name: "soft-target-out", Says: "the target moves softly, Roam began", Core: true,
			run: moves(false, true, false, false)},
		{Name: "soft-target-in", Says: "the target moves softly, it began", Core: true, run: moves(false, true, false, true)},
		{Name: "soft-both-out", Says: "both move softly at once, Roam began", Core: true,
			run: moves(true, true, false, false)},
		{Name: "soft-both-in", Says: "both move softly at once, the target began", Core: true,
			run: moves(true, true, false, true)},
		{Name: "hard-roam", Says: "Roam's link is cut before the next one comes", run: moves(true, false, true, false)},
		{Name: "hard-target", Says: "the target leaves its locator before it has the next", Core: true,
			run: moves(false, true, true, false)},
		{Name: "duality", Says: "Roam uses two links, and loses the first", duality: true, run: duality(0)},
		{Name: "duality-second", Says: "Roam uses two links, and loses the second", Core: true, duality: true,
			run: duality(1)},
		{Name: "reboot-roam-out", Says: "Roam's host reboots and calls", Core: true, run: rebootRoamCalls},
		{Name: "reboot-roam-in", Says: "Roam's host reboots while the target goes on", Core: true, run: rebootTargetGoesOn},
		{Name: "reboot-target-out", Says: "the target reboots while Roam goes on", Core: true, run: targetRebootsRoamGoesOn},
		{Name: "reboot-target-in", Says: "the target reboots and calls", Core: true, run: targetRebootsAndCalls},
		{Name: "disabled-roam", Says: "ILNP is off at the target, Roam begins", plain: true, run: disabledRoamBegins},
		{Name: "disabled-target", Says: "ILNP is off at the target, it begins", plain: true, run: disabledTargetBegins},
	}
}

func tcpFromRoam(ctx context.Context, t *trial) error {
	c, took, err := t.connect(ctx, handshakes)
	if err != nil {
		return err
	}
	defer c.Close()
	t.note("connect_ms", ms(took), fmt.Sprintf("connected after %.0f ms", ms(took)))
	return echo(c, pattern(echoSize), handshakes)
}

func tcpFromTarget(ctx context.Context, t *trial) error {
	t.target.open(t.world)
	began := time.Now()
	if err := t.target.echoTCP(ctx, turnSize); err != nil {
		return err
	}
	took := time.Since(began)
	t.note("echo_ms", ms(took), fmt.Sprintf("first echo after %.0f ms", ms(took)))
	if err := t.target.echoTCP(ctx, echoSize); err != nil {
		return err
	}
	return t.target.fetchTCP(ctx, fetchSize)
}

func udpFromRoam(ctx context.Context, t *trial) error {
	f, err := t.callUDP(ctx)
	if err != nil {
		return err
	}
	lost, err := lostOf(ctx, f, 4*rate)
	t.judgeLoss(lost)
	if first := f.firstAnswer(f.began()); first >= 0 {
		t.note("first_answer_ms", ms(first), fmt.Sprintf("first answer after %.0f ms", ms(first)))
	}
	return err
}

func udpFromTarget(ctx context.Context, t *trial) error {
	t.target.open(t.world)
	lost, err := t.target.echoUDP(ctx, 4*rate)
	if err == nil {
		t.judgeLoss(lost)
	}
	return err
}

// judgeLoss takes how many datagrams were lost after the first second.
func (t *trial) judgeLoss(lost losses) {
	t.note("udp_lost", float64(lost.count), fmt.Sprintf("%d datagrams lost", lost.count))
	if excused := min(lost.late, int(t.slack.Seconds()*rate)); lost.count-excused > t.mayLose {
		t.fault("more than %d datagrams lost after the first second %s", t.mayLose, lost.when)
	}
}

const pings = 8

func pingFromRoam(ctx context.Context, t *trial) error {
	if !t.target.answersEcho() {
		return fmt.Errorf("%w: the target answers no echo request", errUnmeasured)
	}
	lost, err := t.world.ping(ctx, pings)
	return t.judgePings(lost, err)
}

func pingFromTarget(ctx context.Context, t *trial) error {
	t.target.open(t.world)
	lost, err := t.target.ping(ctx, pings)
	return t.judgePings(lost, err)
}

// judgePings allows losses in the first second.
func (t *trial) judgePings(lost int, err error) error {
	if err != nil {
		return err
	}
	t.note("lost", float64(lost), fmt.Sprintf("%d of %d lost", lost, pings))
	if lost > pings/2 {
		t.fault("more than half lost")
	}
	return nil
}

// rule measures whether the target accepts the checksums that the hosts line names. If not,
// that is no fault: the target has only one rule.
func rule(ctx context.Context, t *trial) error {
	c, _, err := t.connect(ctx, handshakes)
	switch {
	case err == nil && t.world.plain(ctx) == "":
		t.note("taken", 1, "taken")
	default:
		t.note("taken", 0, "not taken")
		t.Case.plain = true
	}
	if err == nil {
		_ = c.Close()
	}
	return nil
}

// flows are a connection and a flow of datagrams through an event.
type flows struct {
	tcp *turns
	udp *datagrams
}

// call starts both flows, from the target with in.
func (t *trial) call(ctx context.Context, in bool) (f flows, err error) {
	if !in {
		if f.tcp, err = t.callTCP(ctx); err == nil {
			f.udp, err = t.callUDP(ctx)
		}
		return f, err
	}
	t.target.open(t.world)
	if f.tcp, err = t.target.callTCP(ctx); err == nil {
		f.udp, err = t.target.callUDP(ctx)
	}
	return f, err
}

// moves makes a case in which the flows of one side live through moves.
func moves(roam, target, hard, in bool) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		f, err := t.call(ctx, in)
		if err != nil {
			return err
		}
		if err := idle(ctx, before); err != nil {
			return err
		}
		if target {
			err = t.target.move(ctx, hard)
		}
		if roam && err == nil {
			err = t.world.move(ctx, hard)
		}
		if err == nil {
			err = idle(ctx, after)
		}
		if err == nil && roam && !hard {
			// Under load the target may not have answered yet: that is a matter of time.
			_ = within(ctx, t.slack, "acknowledgement", func() bool { return t.acknowledged(ctx) })
			err = errors.Join(t.cut(0), idle(ctx, after))
		}
		if err != nil {
			return err
		}
		t.judge(ctx, f, hard)
		return nil
	}
}

// judge ends the flows. After a hard event they need only have recovered.
func (t *trial) judge(ctx context.Context, f flows, hard bool) {
	turns := f.tcp.count()
	_ = within(ctx, t.slack, "another echo", func() bool { return f.tcp.count() > turns })
	gap, err := f.tcp.end()
	f.udp.end(ctx)
	t.note("tcp_gap_ms", ms(gap), fmt.Sprintf("TCP gap %.2f s", gap.Seconds()))
	bound := gapBound
	if hard {
		bound = backBound
	}
	switch {
	case err != nil:
		t.fault("TCP: %v", err)
	case gap > bound+t.slack:
		t.fault("TCP: no echo for more than %v", bound)
	}
	lost := f.udp.losses(f.udp.began())
	if !hard {
		t.judgeLoss(lost)
		return
	}
	t.note("udp_lost", float64(lost.count), fmt.Sprintf("%d datagrams lost", lost.count))
	if late := f.udp.lostSince(time.Now().Add(-lastPart - answerWithin)); late > t.mayLose {
		t.fault("UDP: %d datagrams of the last second lost", late)
	}
}

// duality makes a case in which Roam's host loses one of two links.
func duality(link int) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		f, err := t.call(ctx, false)
		if err == nil {
			err = idle(ctx, before)
		}
		if err == nil {
			err = t.cut(link)
		}
		if err == nil {
			err = idle(ctx, after)
		}
		if err == nil {
			t.judge(ctx, f, true)
		}
		return err
	}
}

// callAgain judges new flows of Roam's host.
func (t *trial) callAgain(ctx context.Context) error {
	c, took, err := t.connect(ctx, handshakes)
	if err != nil {
		return err
	}
	defer c.Close()
	t.note("connect_ms", ms(took), fmt.Sprintf("connected after %.0f ms", ms(took)))
	if took > backBound+t.slack {
		t.fault("TCP: no connection for %v", backBound)
	}
	if err := echo(c, pattern(turnSize), handshakes); err != nil {
		return err
	}
	return udpFromRoam(ctx, t)
}

func rebootRoamCalls(ctx context.Context, t *trial) error {
	f, err := t.call(ctx, false)
	if err == nil {
		err = idle(ctx, before)
	}
	if err != nil {
		return err
	}
	f.udp.end(ctx)
	_, _ = f.tcp.end() // the reboot ends it
	if _, err := t.world.reboot(ctx); err != nil {
		return err
	}
	return t.callAgain(ctx)
}

// rebootTargetGoesOn has the target send datagrams through the reboot.
func rebootTargetGoesOn(ctx context.Context, t *trial) error {
	t.target.open(t.world)
	f, err := t.target.callUDP(ctx)
	if err == nil {
		err = idle(ctx, before)
	}
	if err != nil {
		return err
	}
	up, err := t.world.reboot(ctx)
	if err == nil {
		err = idle(ctx, after)
	}
	if err != nil {
		return err
	}
	t.judgeReturn(ctx, f, up)
	return t.target.echoTCP(ctx, turnSize)
}

// judgeReturn ends a flow, and requires that it is answered again soon, and without loss from a second
// later on.
func (t *trial) judgeReturn(ctx context.Context, f *datagrams, since time.Time) {
	_ = within(ctx, t.slack, "an answer", func() bool { return f.firstAnswer(since) >= 0 })
	f.end(ctx)
	first := f.firstAnswer(since)
	if first < 0 {
		t.fault("UDP: no answer within %v", after)
		return
	}
	t.note("first_answer_ms", ms(first), fmt.Sprintf("answered after %.0f ms", ms(first)))
	t.judgeLoss(f.losses(since))
}

func targetRebootsRoamGoesOn(ctx context.Context, t *trial) error {
	f, err := t.callUDP(ctx)
	if err == nil {
		err = idle(ctx, before)
	}
	if err == nil {
		err = t.target.reboot(ctx)
	}
	back := time.Now()
	if err == nil {
		err = idle(ctx, after)
	}
	if err != nil {
		return err
	}
	t.judgeReturn(ctx, f, back)
	return t.callAgain(ctx)
}

func targetRebootsAndCalls(ctx context.Context, t *trial) error {
	t.target.open(t.world)
	if err := t.target.echoTCP(ctx, turnSize); err != nil {
		return err
	}
	if err := t.target.reboot(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := t.target.echoTCP(ctx, turnSize); err != nil {
		return err
	}
	took := time.Since(began)
	t.note("echo_ms", ms(took), fmt.Sprintf("echo after %.0f ms", ms(took)))
	lost, err := t.target.echoUDP(ctx, 3*rate)
	if err == nil {
		t.judgeLoss(lost)
	}
	return err
}

func disabledRoamBegins(ctx context.Context, t *trial) error {
	if err := t.target.disable(ctx); err != nil {
		return err
	}
	return t.callAgain(ctx)
}

func disabledTargetBegins(ctx context.Context, t *trial) error {
	t.target.open(t.world)
	if err := t.target.disable(ctx); err != nil {
		return err
	}
	if err := t.target.echoTCP(ctx, turnSize); err != nil {
		return err
	}
	lost, err := t.target.echoUDP(ctx, 3*rate)
	if err == nil {
		t.judgeLoss(lost)
	}
	return err
}

// idle lets traffic run for a while.
func idle(ctx context.Context, d time.Duration) error {
	end := time.NewTimer(d)
	defer end.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("let traffic flow: %w", ctx.Err())
	case <-end.C:
		return nil
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// joined is the text of a table's field.
func joined(parts []string) string {
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}
