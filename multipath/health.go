package multipath

import (
	"math"
	"slices"
	"time"
)

// Level is how soon a path that falls silent is suspected.
type Level uint8

// The levels.
const (
	Normal  Level = iota // 0.5 s
	Fast                 // 0.15 s, at the price of more probes
	Relaxed              // some seconds, for links on which each probe is dear
)

// Timing is what a Level means.
type Timing struct {
	Silence time.Duration // of a correspondent that is sent to, before the paths in use are probed
	Every   time.Duration // between probes of each of several paths that carry traffic
	Least   time.Duration // wait for an answer, at least
	Most    time.Duration // and at most
	Vary    time.Duration // the least mean deviation of round trips that is counted with
	Step    time.Duration // between the probes that decide, at least
	Doubt   time.Duration // of one of several paths in use, at least, before it is avoided: the others carry data
	Sure    time.Duration // without any answer, before a path that is avoided is left for good
}

// Timing returns the level's values. Relaxed has those of a session that nobody hurries:
// the silence that the programs reported before there were levels.
func (l Level) Timing() Timing {
	const ms = time.Millisecond
	switch l {
	case Fast:
		return Timing{
			Silence: 40 * ms, Every: 50 * ms, Least: 20 * ms, Most: 8 * time.Second,
			Vary: ms, Step: 5 * ms, Doubt: 100 * ms, Sure: 3 * time.Second,
		}
	case Relaxed:
		return Timing{
			Silence: 2 * time.Second, Every: time.Second, Least: 500 * ms, Most: 15 * time.Second,
			Vary: 20 * ms, Step: 50 * ms, Doubt: 2 * time.Second, Sure: 6 * time.Second,
		}
	}
	return Timing{
		Silence: 150 * ms, Every: 150 * ms, Least: 60 * ms, Most: 8 * time.Second,
		Vary: 5 * ms, Step: 15 * ms, Doubt: 450 * ms, Sure: 3 * time.Second,
	}
}

// Bounds of Health.
const (
	deviations  = 4    // of the mean deviation, beyond the mean round trip (RFC 6298 §2)
	lastAnswers = 16   // of one more, one is the latest: so often an answer is later than all of those before
	mistake     = 1e-6 // chance that a working path leaves all probes of a suspicion without an answer
	leastMisses = 0.02 // the share of probes without an answer in time that is counted with at least,
	mostMisses  = 0.5  // and at most
	lossyFrom   = 0.4  // the share from which a path is left for one
	cleanBelow  = 0.1  // with a share below this
	missWeight  = 16   // probes over which that share is averaged
	lateLasts   = time.Second
	holdFirst   = 500 * time.Millisecond
	holdMost    = time.Minute
	steadyFor   = 10 // times the last hold without another flap end the series
	flapsMost   = 12
)

// Health is what is known of one path: how long its round trips take, how many probes
// stay without an answer in time, and how often it was given up of late. The zero
// value knows nothing.
type Health struct {
	mean, vary   time.Duration
	late         time.Duration              // longest round trip of late that those before did not let expect,
	lateAt       time.Time                  // and when one last came
	last         [lastAnswers]time.Duration // round trips,
	answers      int                        // of so many in all
	misses       float64
	sure         float64   // misses when an answer last came: those since may show that the path has died
	heard, again time.Time // the last two answers
	flaps        int
	left         time.Time
}

// Answer takes an answer to a probe, however late. It comes from a working path.
func (h *Health) Answer(now, sent time.Time) {
	h.again, h.heard, h.sure = h.heard, now, h.misses
	rtt := max(now.Sub(sent), 0)
	h.last[h.answers%lastAnswers] = rtt
	h.answers++
	if h.mean > 0 && rtt > h.mean+deviations*max(h.vary, Normal.Timing().Vary) {
		if now.Sub(h.lateAt) > lateLasts {
			h.late = 0
		}
		h.late, h.lateAt = max(h.late, rtt), now
	}
	switch {
	case h.mean == 0:
		h.mean, h.vary = max(rtt, 1), rtt/2
	default:
		h.vary += ((rtt - h.mean).Abs() - h.vary) / 4
		h.mean += (rtt - h.mean) / 8
	}
}

// Recall takes when an answer last came to a predecessor. Its round trip is not known.
func (h *Health) Recall(at time.Time) { h.heard = at }

// Met takes that a probe was answered in time, or was not.
func (h *Health) Met(in bool) {
	miss := 1.0
	if in {
		miss = 0
	}
	h.misses += (miss - h.misses) / missWeight
}

// Mean returns the mean round-trip time; 0: it is not known.
func (h *Health) Mean() time.Duration { return h.mean }

// Late returns the longest round trip that took longer than those before let expect, if one came of late; else 0.
// The mean adapts to such round trips before it shows that a path has become uneven.
func (h *Health) Late(now time.Time) time.Duration {
	if now.Sub(h.lateAt) > lateLasts {
		return 0
	}
	return h.late
}

// Heard returns when an answer last came; zero: none has.
func (h *Health) Heard() time.Time { return h.heard }

// HeardTwice returns when the answer before the last one came; zero: there was none.
func (h *Health) HeardTwice() time.Time { return h.again }

// Wait returns how long an answer is waited for: the mean round trip and four mean
// deviations (RFC 6298), within the bounds of the level. guess is the round trip of a path
// that has answered nothing so far; 0: unknown.
func (h *Health) Wait(t Timing, guess time.Duration) time.Duration {
	mean, vary := h.mean, h.vary
	if mean == 0 {
		mean, vary = guess, guess/2
	}
	if mean == 0 {
		return min(max(200*time.Millisecond, t.Least), t.Most)
	}
	return min(max(mean+deviations*max(vary, t.Vary), t.Least), t.Most)
}

// Early is Wait with a quarter of the deviations and half the least: after it an answer is late enough to
// ask again where silence is known otherwise. It does not decide: behind a long queue it would be wrong.
func (h *Health) Early(t Timing, guess time.Duration) time.Duration {
	return h.early(t, guess, deviations/4)
}

// EarlyComplaint is Early with half of the deviations: after it an answer is late enough to complain as well, and to
// ask other paths.
func (h *Health) EarlyComplaint(t Timing, guess time.Duration) time.Duration {
	return h.early(t, guess, deviations/2)
}

func (h *Health) early(t Timing, guess time.Duration, n time.Duration) time.Duration {
	wait := h.Wait(t, guess)
	if h.mean == 0 {
		return wait
	}
	return min(max(h.mean+n*max(h.vary, t.Vary), t.Least/2), wait)
}

// Last is Wait for the last of Tries probes: no longer than the longest of the last round trips took, if the chance
// of a mistake stays what Tries says.
func (h *Health) Last(t Timing, guess time.Duration) time.Duration {
	wait := h.Wait(t, guess)
	if h.answers < lastAnswers || math.Pow(h.chance(), float64(h.Tries()-1))/(lastAnswers+1) > mistake {
		return wait
	}
	return min(max(slices.Max(h.last[:]), t.Least), wait)
}

// Tries returns how many probes in a row must stay without an answer before the path is
// suspected: as many as chance loses together once in a million, at the share of misses that the
// path had while it answered.
func (h *Health) Tries() int {
	return int(math.Ceil(math.Log(mistake) / math.Log(h.chance())))
}

// chance is that with which a working path leaves one probe without an answer in time.
func (h *Health) chance() float64 { return min(max(h.sure, leastMisses), mostMisses) }

// IsLossy reports whether so many probes stay without an answer that another path which
// answers is better, although this one answers some: it may pass and drop packets in turn.
func (h *Health) IsLossy() bool { return h.misses >= lossyFrom }

// IsClean reports whether hardly any probe has stayed without an answer in time.
func (h *Health) IsClean() bool { return h.misses < cleanBelow }

// Leave takes that the path is given up. What was missed since its last answer shows no loss.
func (h *Health) Leave(now time.Time) {
	if h.flaps > 0 && now.Sub(h.left) > steadyFor*h.Hold() {
		h.flaps = 0
	}
	h.flaps, h.left, h.misses = min(h.flaps+1, flapsMost), now, h.sure
}

// Stay takes back a Leave: the path works after all.
func (h *Health) Stay() { h.flaps = max(h.flaps-1, 0) }

// Hold returns for how long a path that was given up has to answer before it is used
// again: twice as long with each flap.
func (h *Health) Hold() time.Duration { return min(holdFirst<<max(h.flaps-1, 0), holdMost) }

// Ready reports whether a path that was given up and answers again may be used: its hold
// has passed.
func (h *Health) Ready(now time.Time) bool { return h.flaps == 0 || now.Sub(h.left) >= h.Hold() }
