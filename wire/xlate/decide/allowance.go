package decide

import "roam"

// The allowance of an unvalidated locator, as in bpf/lib/amplification.h.
const (
	allowanceFactor  = 2
	allowancePackets = 10
	allowanceEach    = second
	allowanceBytes   = 1500
	allowanceAfresh  = 5 * second
	rateShift        = 8                     // a window has 2^8 ticks,
	rateWindow       = 1 << (20 + rateShift) // in ns
	slow             = 1024                  // bytes in a window, below which there is no rate
)

func packetsOf(n int) uint64 { return uint64(1 + n/allowanceBytes) }

// allowance returns the account of a locator, which restarts after a while.
func (t *step) allowance(p *Session, l roam.L64, given bool) *Allowance {
	k := AllowanceKey{l, p.Slot, p.Birth}
	a := t.s.Allowances[k]
	if a != nil && (given || t.now-a.Since < allowanceAfresh) {
		return a
	}
	a = &Allowance{Since: t.now}
	t.s.Allowances[k] = a
	return a
}

func (a *Allowance) charge(n int) {
	a.TxPackets += packetsOf(n)
	a.TxBytes += uint64(n)
}

// permits reports whether this packet may leave to an unvalidated locator, and counts it if
// so. With rate the looser rule applies, that of a session without any validated locator;
// given: a record lists the locator.
func (t *step) permits(p *Session, l *Live, to roam.L64, rate, given bool) bool {
	a, n := t.allowance(p, to, given), t.k.Len
	elapsed := t.now - a.Since
	switch {
	case given && a.TxPackets < allowancePackets+elapsed/allowanceEach:
	case a.TxBytes+uint64(n) <= allowanceFactor*a.RxBytes && a.TxPackets+packetsOf(n) <= allowanceFactor*a.RxPackets:
	case !rate || elapsed >= uint64(p.Grace) || a.RxPackets == 0 && !given:
		return false
	case a.TxBytes+uint64(n) > uint64(max(l.RateLast, slow))*(elapsed+rateWindow)/rateWindow:
		return false
	}
	a.charge(n)
	return true
}

// noteTx counts a packet that is sent, or without bytes one that does not leave. The first
// one of a window shows how many bytes the window before had; there is no rate after a pause,
// nor of less than so many bytes. Those of several such windows are in one number, so of the
// first window with a rate as many are not counted.
func (l *Live) noteTx(now uint32, n int) {
	if (now^l.LastTx)>>rateShift != 0 && (l.Rated || l.RateNow >= slow) {
		rate, paused := l.RateNow, now-l.LastTx >= 2<<rateShift
		rated := rate >= slow && !paused
		if !l.Rated {
			rate -= min(rate, slow)
		}
		if rate < slow || paused {
			rate = 0
		}
		l.RateLast, l.RateNow, l.Rated = uint32(min(rate, 0xffffffff)), 0, rated
	}
	l.LastTx = now
	if n > 0 {
		l.TxPackets++
		l.TxBytes += uint64(n)
		l.RateNow += uint64(n)
	}
}

// allows applies the allowance of a pending peer, none of whose locators is validated.
func (e *Pending) allows(n int) bool {
	if !(e.Given && e.TxPackets < allowancePackets) &&
		(e.TxBytes+uint64(n) > allowanceFactor*e.RxBytes || e.TxPackets+packetsOf(n) > allowanceFactor*e.RxPackets) {
		return false
	}
	e.TxPackets += packetsOf(n)
	e.TxBytes += uint64(n)
	return true
}
