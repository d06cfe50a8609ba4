package cc

import (
	"math"
	"time"
)

// State is the input of a congestion control. Windows are in packets.
type State struct {
	Window    float64
	Threshold float64       // slow start below it
	RTT       time.Duration // smoothed
	Base      time.Duration // least since the last loss; 0: none yet
}

// Model is a congestion control as its paper gives it, in real numbers.
type Model struct {
	// Gain is by how much the window grows for one acknowledged packet.
	Gain func(State) float64
	// Loss is the threshold after a loss.
	Loss func(State) float64
}

// Models are the ones of this package's BPF programs.
var Models = map[string]Model{
	"hybla": {Gain: hyblaGain, Loss: halve},
	"veno":  {Gain: venoGain, Loss: venoLoss},
}

// reference is the round-trip time of the connection that Hybla equals
// (Caini and Firrincieli 2004, RTT0), and rhoMost bounds rho as the program does.
const (
	reference = 25 * time.Millisecond
	rhoMost   = 16
)

// rho is the normalised round-trip time (Caini and Firrincieli 2004).
func rho(rtt time.Duration) float64 {
	return min(rhoMost, max(1, float64(rtt)/float64(reference)))
}

// hyblaGain is 2^rho - 1 in slow start, which ends at the threshold, and rho^2 / W in
// congestion avoidance.
func hyblaGain(s State) float64 {
	r := rho(s.RTT)
	if s.Window < s.Threshold {
		return min(math.Exp2(r)-1, s.Threshold-s.Window)
	}
	return r * r / s.Window
}

// halve is the reaction of Reno and Hybla to loss.
func halve(s State) float64 { return max(2, s.Window/2) }

// beta is the backlog in packets above which Veno assumes congestion.
const beta = 3

// Backlog is Veno's estimate of the packets in queues (Fu and Liew 2003: N = W (RTT - base)
// / RTT); 0 without a base.
func Backlog(s State) float64 {
	if s.Base == 0 || s.RTT <= s.Base {
		return 0
	}
	return s.Window * float64(s.RTT-s.Base) / float64(s.RTT)
}

// venoGain is Reno's, and half of it in congestion avoidance with a backlog:
// the paper skips every other acknowledgement.
func venoGain(s State) float64 {
	switch {
	case s.Window < s.Threshold:
		return min(1, s.Threshold-s.Window)
	case Backlog(s) >= beta:
		return 0.5 / s.Window
	}
	return 1 / s.Window
}

// venoLoss is 4/5 for a loss by chance, half for one by congestion.
func venoLoss(s State) float64 {
	if Backlog(s) >= beta {
		return max(2, s.Window/2)
	}
	return max(2, s.Window*4/5)
}
