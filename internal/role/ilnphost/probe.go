package ilnphost

import (
	"context"
	"slices"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/control"
	"roam/internal/rawio"
)

// A check of a correspondent's paths asks in so many rounds, and waits so long
// for the answers each time. One that has no session yet needs a round more:
// the first one opens it, on one path.
const (
	probeRounds = 4
	probeWait   = 700 * time.Millisecond
	echoWait    = 700 * time.Millisecond
)

// Probe asks on every path to a correspondent whether it works.
func (h *Host) Probe(ctx context.Context, peer roam.NID) (control.Probed, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// From before the first probe on: no answer is missed.
	events, err := h.env.Hub.Subscribe(ctx)
	if err != nil {
		return control.Probed{}, err
	}
	q := inquiry{peer: peer}
	for range probeRounds {
		if err := h.do(ctx, func(now time.Time) { q.ask(h, now) }); err != nil {
			return control.Probed{}, err
		}
		if len(q.paths) == 0 {
			break
		}
		q.listen(ctx, events)
		if q.complete() {
			break
		}
	}
	return h.conclude(ctx, &q)
}

// inquiry is one check under way.
type inquiry struct {
	peer   roam.NID
	paths  []ilnp.Path
	found  []control.ProbedPath // of each path
	forms  bool                 // more than one is asked for
	final  bool                 // there is no use in asking again
	opened bool                 // a nonce has just come: all paths can be asked now
}

// ask sends a probe on each path that has not answered.
func (q *inquiry) ask(d *Host, now time.Time) {
	q.forms = d.cfg.ILNP.UDPPort != 0
	mtu := func(link roam.LinkID) int { return d.engine.Links()[link].MTU }
	paths := d.engine.Core().Check(now, q.peer, q.answered)
	if len(paths) == 0 {
		return
	}
	// What is no path any more was not silent: it is gone.
	found := make([]control.ProbedPath, len(paths))
	for i, p := range paths {
		found[i] = control.ProbedPath{Path: pathFrom(p, d.linkNames())}
		if k := slices.Index(q.paths, p); k >= 0 {
			found[i] = q.found[k]
		}
		if q.forms {
			found[i].Bytes = mtu(p.Local.Link)
		}
	}
	q.paths, q.found = paths, found
}

func (q *inquiry) complete() bool {
	return q.final || !slices.ContainsFunc(q.found, func(f control.ProbedPath) bool {
		return !f.Answered || q.forms && !(f.UDP && f.Padded && f.Full)
	})
}

// answered reports whether a probe of that form need not be retransmitted.
func (q *inquiry) answered(p ilnp.Path, form ilnp.ProbeForm) bool {
	k := slices.Index(q.paths, p)
	return k >= 0 && *answerOf(&q.found[k], formName(form))
}

// answerOf returns where the answer to a form is noted.
func answerOf(f *control.ProbedPath, form string) *bool {
	switch form {
	case formName(ilnp.FormUDP):
		return &f.UDP
	case formName(ilnp.FormPadded):
		return &f.Padded
	case formName(ilnp.FormFull):
		return &f.Full
	}
	return &f.Answered
}

// listen takes answers until all are there or the round is over.
func (q *inquiry) listen(ctx context.Context, events <-chan control.Event) {
	over := time.NewTimer(probeWait)
	defer over.Stop()
	q.opened = false
	for !q.complete() && !q.opened {
		select {
		case <-ctx.Done():
			return
		case <-over.C:
			return
		case e, ok := <-events:
			if !ok {
				return
			}
			q.hear(e)
		}
	}
}

func (q *inquiry) hear(e control.Event) {
	if e.Peer != q.peer {
		return
	}
	if e.Kind == kindName(ilnp.SessionEstablished) {
		q.opened = true
	}
	if e.Kind == kindName(ilnp.SessionFellBack) || e.Kind == kindName(ilnp.PlainRefused) {
		// Only a correspondent that is there tells that it has no ILNP.
		q.final = e.Reason == ilnp.WhyNoILNP
	}
	if e.Kind != kindName(ilnp.PathAnswered) || e.Path == nil {
		return
	}
	for i := range q.found {
		if f := &q.found[i]; f.Path == *e.Path {
			*answerOf(f, e.Form) = true
			f.Relabelled = f.Relabelled || e.Relabelled
			if f.RTTMS == 0 {
				f.RTTMS = e.RTTMS
			}
		}
	}
}

// conclude adds what the session has become, and asks plainly if it is plain.
func (h *Host) conclude(ctx context.Context, q *inquiry) (control.Probed, error) {
	out := control.Probed{Peer: q.peer, Paths: q.found}
	known := false
	err := h.do(ctx, func(now time.Time) {
		var named []ilnp.PeerState
		for _, local := range nidsOf(h) {
			named = append(named, h.engine.Core().Show(now, ilnp.SessionKey{Local: local, Remote: q.peer})...)
		}
		for _, p := range named {
			known = true
			s := sessionFrom(p, h.cfg.Host.SessionPrefix, shownNames{})
			out.State, out.WhyPlain, out.TooBig = s.State, s.WhyPlain, h.engine.TooBig(p.Key)
			out.Opened, out.Refused = h.engine.Opened(p.Key), refusalOf(p, h.records[p.NID])
		}
	})
	switch {
	case err != nil:
		return out, err
	case !known:
		return out, control.Errorf(control.CodeNotFound, "no correspondent has the identifier %v", q.peer).
			WithHint("`roam session show` lists them; `roam add LINE` makes one known")
	case out.State == sessionStateName(ilnp.Plain):
		out.Echo = h.plainEcho(ctx, q.peer)
	}
	return out, nil
}

// plainEcho pings the session address: of a session that is plain this goes
// out without a nonce.
func (h *Host) plainEcho(ctx context.Context, peer roam.NID) *control.PlainEcho {
	src := control.SessionAddr(h.cfg.Host.SessionPrefix, h.nid)
	dst := control.SessionAddr(h.cfg.Host.SessionPrefix, peer)
	out := &control.PlainEcho{}
	for range 2 { // one packet may be lost
		limited, cancel := context.WithTimeout(ctx, echoWait)
		rtt, err := rawio.Echo(limited, src, dst)
		cancel()
		if err == nil {
			out.Answered, out.RTTMS = true, control.Millis(rtt)
			break
		}
		h.log.Debug("plain echo request", "peer", peer, "err", err)
	}
	return out
}
