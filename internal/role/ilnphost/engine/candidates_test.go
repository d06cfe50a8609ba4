package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/hostnet"
)

// slowLinks is a data plane that takes its time over links that are to be prepared.
type slowLinks struct {
	table
	began              chan roam.LinkID
	done               chan error
	attached, released []roam.LinkID
}

func (p *slowLinks) PrepareUplink(l roam.LinkID) error {
	p.began <- l
	return <-p.done
}

func (p *slowLinks) ReleaseUplink(l roam.LinkID) error {
	p.released = append(p.released, l)
	return nil
}

func (p *slowLinks) AttachUplink(l roam.LinkID, _ bool) error {
	p.attached = append(p.attached, l)
	return nil
}

// preparing is an engine on such a data plane.
func preparing(t *testing.T) (*Engine, *slowLinks) {
	t.Helper()
	e, _ := withSession(t, ilnp.Established)
	p := &slowLinks{
		table: table{entries: make(map[ilnp.SessionKey]ilnp.Entry)},
		began: make(chan roam.LinkID, 1), done: make(chan error),
	}
	e.cfg.Plane = p
	return e, p
}

func (e *Engine) candidate(l roam.LinkID, still bool) {
	e.handleNetwork(time.Now(), hostnet.Candidate{Link: l, Name: fmt.Sprint("net", l), Still: still})
}

// next ends the preparation that is under way, and returns the link whose begins; 0: none.
func (p *slowLinks) next(e *Engine, result error) roam.LinkID {
	p.done <- result
	e.prepareNext(<-e.prepared)
	if e.underWay == 0 {
		return 0
	}
	return <-p.began
}

// Links are prepared one at a time, and the engine does not wait; those that have become
// uplinks or are none of its links any more by then are left out, and released where they
// were under way. An error is no trouble: it ends in AttachUplink.
func TestCandidatesArePrepared(t *testing.T) {
	e, p := preparing(t)
	for l := roam.LinkID(11); l <= 15; l++ {
		e.candidate(l, true)
		e.candidate(l, true) // told once more: once is enough
	}
	if l := <-p.began; l != 11 {
		t.Fatalf("link %d first", l)
	}
	e.handleNetwork(time.Now(), hostnet.UplinkChanged{Uplink: hostnet.Uplink{Link: 12, Name: "net12"}})
	e.candidate(11, false)
	e.candidate(13, false)
	if !slices.Equal(p.released, []roam.LinkID{13}) {
		t.Errorf("released %v at once, want 13 alone: to release 11 would wait", p.released)
	}
	p.released = nil
	if l := p.next(e, nil); l != 14 {
		t.Errorf("link %d is next, want 14", l)
	}
	if !slices.Equal(p.released, []roam.LinkID{11}) || !slices.Equal(p.attached, []roam.LinkID{12}) {
		t.Errorf("released %v, attached %v", p.released, p.attached)
	}
	e.handleNetwork(time.Now(), hostnet.UplinkChanged{Uplink: hostnet.Uplink{Link: 14, Name: "net14"}})
	if l := p.next(e, fmt.Errorf("no such device")); l != 15 {
		t.Errorf("link %d is next, want 15", l)
	}
	if l := p.next(e, nil); l != 0 || len(p.released) != 1 {
		t.Errorf("link %d is next, want none; released %v", l, p.released)
	}
	e.candidate(15, false)
	if !slices.Equal(p.released, []roam.LinkID{11, 15}) {
		t.Errorf("released %v", p.released)
	}
}

// What the user has turned off is not prepared, nor is more than a host can have uplinks,
// however many links appear.
func TestCandidatesAreBounded(t *testing.T) {
	e, p := preparing(t)
	e.disabled["net9"] = true
	e.candidate(9, true)
	const many = 10 * candidateMost
	for l := roam.LinkID(100); l < 100+many; l++ {
		e.candidate(l, true)
	}
	n := 1
	for l := <-p.began; l != 0; n++ {
		if l < 100 {
			t.Errorf("link %d is prepared", l)
		}
		l = p.next(e, nil)
	}
	if n-1 != candidateMost {
		t.Errorf("%d links are prepared, want %d", n-1, candidateMost)
	}
	// One that goes makes room for one that comes.
	e.candidate(100, false)
	e.candidate(100+many, true)
	if l := <-p.began; l != 100+many {
		t.Errorf("link %d is prepared", l)
	}
	p.next(e, nil)
}
