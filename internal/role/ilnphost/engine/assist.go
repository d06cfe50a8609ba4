package engine

import (
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/loop"
	"roam/multipath"
	"roam/tcpassist"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// list is a list of the host's TCP connections, or why there is none.
type list struct {
	all []dataplane.Connection
	err error
}

// windows are the congestion windows that were set, or why none was.
type windows struct {
	done []dataplane.Window
	err  error
}

// assistant helps TCP connections after moves.
type assistant struct {
	*base
	assist   *tcpassist.Machine[ilnp.SessionKey]
	lists    chan list // of connections; at most one is under way
	windows  chan windows
	runsRoam func(ilnp.SessionKey) bool
}

func newAssistant(b *base) assistant {
	return assistant{b, tcpassist.New[ilnp.SessionKey](), make(chan list, 1), make(chan windows, 1), b.core.RunsRoam}
}

// machine is the part of it that has deadlines.
func (a *assistant) machine() loop.Machine { return loop.Drive(a.assist, a.carryOut) }

// Opened returns how many connections of a session stood still after moves, though
// the correspondent was there, and had to be shown to firewalls; use it inside Do only.
func (a *assistant) Opened(k ilnp.SessionKey) int { return a.assist.Resynced(k) }

// pathsChanged has what helps TCP hear of a session whose paths are others. Only
// correspondents with Roam know a conntrack resync.
func (e *Engine) pathsChanged(now time.Time, o ilnp.PathsChanged) {
	p, made := e.entries[o.Key]
	if !made {
		return // nothing is sent on its paths
	}
	if e.pathMTUs.HandlePaths(now, o.Key, o.Why) {
		e.report("forget path MTU", e.cfg.Network.FlushPMTU(e.sessionAddr(o.Key.Remote).Addr()))
	}
	resync := e.cfg.Show && p.State == ilnp.Established
	e.assist.HandlePaths(now, tcpassist.Change[ilnp.SessionKey]{Key: o.Key, Why: o.Why, RTT: o.RTT, Resync: resync})
}

// assistTCP carries out what TCP connections need after moves.
func (a *assistant) assistTCP(now time.Time) {
	m := a.machine()
	m.HandleTimeout(now)
	m.Drain(now)
}

// carryOut carries out one thing that connections need. A list of them is made elsewhere:
// the kernel goes through every socket that there may be, 5 to 10 ms on a large machine,
// in which Locator Updates and their acknowledgements must not wait.
func (a *assistant) carryOut(now time.Time, o tcpassist.Output) {
	switch o := o.(type) {
	case tcpassist.ListConnections:
		a.list()
	case tcpassist.Inject:
		a.inject(o.Packet)
	case tcpassist.Resync[ilnp.SessionKey]:
		a.sendResync(o)
	case tcpassist.SetWindows:
		a.setWindows(o.All)
	case tcpassist.Stretched[ilnp.SessionKey]:
		seen := ilnp.Observation{Trigger: ilnp.SeenStretched, Key: o.Key}
		for _, c := range o.Connections {
			seen.Connections = append(seen.Connections, [2]uint16{c[0].Port(), c[1].Port()})
		}
		a.core.HandleObservation(now, seen)
	case tcpassist.Resynced[ilnp.SessionKey]:
		a.cfg.Log.Debug("conntrack resynced for a connection", "answer", o.Answer, "port", o.Local.Port())
	}
}

// list makes one.
func (a *assistant) list() {
	go func() {
		all, err := a.cfg.Plane.Connections(a.cfg.SessionPrefix)
		a.lists <- list{all, err}
	}()
}

// load has what lists connections loaded, and what sets their windows, one after the other: a tenth of a second of a
// processor, which connections would stand still for when a window is to follow.
func (a *assistant) load() {
	go func() {
		all, err := a.cfg.Plane.Connections(a.cfg.SessionPrefix)
		a.lists <- list{all, err} // one before this process may have left connections paced
		if _, err := a.cfg.Plane.SetWindows(nil); err != nil {
			a.cfg.Log.Debug("cannot set congestion windows", "err", err)
		}
	}()
}

// setWindows sets congestion windows elsewhere, too: it takes longer still.
func (a *assistant) setWindows(all []tcpassist.Window) {
	wanted := make([]dataplane.Window, len(all))
	for i, w := range all {
		wanted[i] = dataplane.Window(w)
	}
	go func() {
		done, err := a.cfg.Plane.SetWindows(wanted)
		a.windows <- windows{done, err}
	}()
}

// windowsSet takes which windows were set.
func (a *assistant) windowsSet(now time.Time, w windows) {
	if w.err != nil {
		a.cfg.Log.Debug("cannot set congestion windows", "err", w.err)
	}
	done := make([]tcpassist.Window, len(w.done))
	for i, d := range w.done {
		done[i] = tcpassist.Window(d)
	}
	a.assist.HandleWindows(now, done, w.err)
	a.assistTCP(now)
}

// listed takes the list that was asked for.
func (a *assistant) listed(now time.Time, l list) {
	if l.err != nil {
		a.cfg.Log.Debug("cannot look at connections", "err", l.err)
	}
	all := make([]tcpassist.Listed[ilnp.SessionKey], len(l.all))
	for i, c := range l.all {
		alias := ilnp.SessionKey{Local: roam.ILVFromAddr(c.Local.Addr()).NID, Remote: roam.ILVFromAddr(c.Remote.Addr()).NID}
		key := a.sessionKey(alias)
		p := a.entries[key]
		bucket := multipath.Bucket(uint64(p.LocalNID), uint64(p.RemoteNID), c.Local.Port(), c.Remote.Port())
		all[i] = tcpassist.Listed[ilnp.SessionKey]{
			Connection: tcpassist.Connection(c), Key: key, Resyncs: a.runsRoam(key), Bucket: uint8(bucket),
		}
	}
	a.assist.HandleConnections(now, all, l.err)
	a.assistTCP(now)
}

// resyncIn takes a packet of the data plane if it is a conntrack resync, which counts
// only with the nonce of the session.
func (a *assistant) resyncIn(now time.Time, ev dataplane.Event) bool {
	c, err := ip6.Walk(ev.Packet)
	if err != nil || c.Upper != ip6.TCP {
		return false
	}
	o, err := ilnpwire.ParseResync(ev.Packet[c.UpperOffset:c.End])
	p := a.entries[ev.Key]
	if err != nil || p.State != ilnp.Established || o.Nonce != p.RemoteNonce {
		a.refused["resync of a firewall without the session's nonce"]++
		return true
	}
	heard := tcpassist.Heard[ilnp.SessionKey]{Key: ev.Key, From: o.From, To: o.To, Seq: o.Seq, Answer: o.Answer}
	if !a.assist.HandleResync(now, heard) {
		a.refused["resync of a firewall beyond those that wait"]++
	}
	return true
}

// sendResync sends a conntrack resync of a connection with the nonce of its session.
func (a *assistant) sendResync(o tcpassist.Resync[ilnp.SessionKey]) {
	r := ilnpwire.Resync{From: o.Local.Port(), To: o.Remote.Port(), Seq: o.Seq, Ack: o.Ack, Answer: o.Answer, Nonce: a.entries[o.Key].LocalNonce}
	b, err := r.Build(roam.ILVFromAddr(o.Local.Addr()), roam.ILVFromAddr(o.Remote.Addr()))
	if err != nil {
		a.report("resync conntrack for a connection", err)
		return
	}
	a.resend(b)
}
