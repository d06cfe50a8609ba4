package hostile

import (
	"cmp"
	"fmt"
	"strings"

	"roam/lab/exp"
	"roam/lab/result"
)

// answered reports whether Roam reacted to the network as it should.
func (r reaction) answered(n network) bool {
	switch {
	case !r.ILNP:
		return false
	case n.duality:
		return !r.Changed.IsZero() && r.Spread == [2]string{"flow", "flow"}
	case n.late:
		return r.InUse == "net1" // the direction that lives stays in use
	case n.acked && r.Acked != "udp" || n.name == "clean" && r.Acked != "options":
		return false
	}
	return r.UsedUDP == n.udp && r.InUse == "net1"
}

// answered sets whether Roam reacted as it should, and whether it says so. In duality the claim
// is that the change is told of, too. The daemon of the mobile host does not know where its correspondent sends.
func (o outcome) answered(r *result.Result, n network) {
	r.SetBool("daemon_"+n.name+"_answer", o.Daemon.answered(n))
	if o.Missed > 0 {
		missed := []string{"_setup", "_answer"}
		if n.late {
			missed = append(missed, "_lost_after")
		}
		for _, m := range missed {
			r.Miss(n.name+m, fmt.Sprintf("the captures lost %d packets", o.Missed))
		}
		return
	}
	r.SetBool(n.name+"_setup", o.ILNP && o.SetupMs > 0)
	r.SetBool(n.name+"_answer", o.Wire.answered(n) && (!n.duality || !o.Daemon.Changed.IsZero()) &&
		(!n.late || o.Wire.To == "net2"))
	if o.After != nil {
		r.Set(n.name+"_lost_after", float64(o.After.Roam()))
	}
}

// report puts the outcomes into the result: metrics for the claims, and a table.
func report(env *exp.Env, list []network, outcomes []outcome) {
	ran := map[string]bool{}
	table := result.Table{
		Title: "Networks and what became of the sessions", Columns: []string{"network", "what it does", "set-up", "TCP",
			"UDP", "gap up / down", "lost", "control", "update acknowledged", "in use"},
		Note: "Gaps and losses are those of the handoff into the network; with several cells at a time they include the " +
			"machine's own.",
	}
	said := result.Table{Title: "What roam doctor said in there", Columns: []string{"network", "findings"}}
	whole := result.Table{Title: "TCP and datagrams over two paths that track connections",
		Columns: []string{"network", "longest gap over one path", "longest over two", "TCP spread", "long gaps after that",
			"datagrams on each path after that"}}
	for i, o := range outcomes {
		n := list[i]
		ran[n.name] = true
		r := env.Result
		o.answered(r, n)
		r.SetBool(n.name+"_survives", o.TCP && o.UDP)
		if n.told != "" {
			r.SetBool(n.name+"_told", o.Told)
		}
		r.Set(n.name+"_setup_ms", o.SetupMs)
		r.Set(n.name+"_gap_up_ms", o.GapUp)
		r.Set(n.name+"_gap_down_ms", o.GapDown)
		r.Set(n.name+"_lost", float64(o.Lost))
		if o.After != nil {
			r.AddLoss(*o.After)
		}
		if o.Whole != nil {
			r.AddLoss(o.Owned)
			o.Whole.report(r, n.name, o.Owned.Roam())
			whole.Rows = append(whole.Rows, o.Whole.row(n.name))
		}
		control := "options"
		if o.Wire.UsedUDP {
			control = "UDP"
		}
		used := o.Wire.InUse
		if n.late {
			used = fmt.Sprintf("%s out, %s in", cmp.Or(used, "several"), cmp.Or(o.Wire.To, "several"))
		}
		table.Rows = append(table.Rows, []string{n.name, n.says, fmt.Sprintf("%.0f ms", o.SetupMs),
			lived(o.TCP), lived(o.UDP),
			fmt.Sprintf("%.0f / %.0f ms", o.GapUp, o.GapDown), fmt.Sprint(o.Lost), control, o.Wire.Acked, used})
		said.Rows = append(said.Rows, []string{n.name, strings.Join(o.Doctor, "\n")})
		if o.Why != "" {
			env.View.Logf("%s: %s", n.name, o.Why)
		}
	}
	for _, n := range networks {
		if ran[n.name] {
			continue
		}
		for _, m := range []string{"_setup", "_survives", "_answer", "_told", "_tcp_stall_ms", "_tcp_gaps",
			"_udp_lost", "_udp_share_off", "_lost_after"} {
			env.Result.Miss(n.name+m, "this network was not asked for")
		}
	}
	env.Result.Tables = append(env.Result.Tables, table, whole, said)
}

func lived(yes bool) string {
	if yes {
		return "lives"
	}
	return "dead"
}

// reportAttacks adds the packets that reached the victim to the result.
func reportAttacks(env *exp.Env, list []attack) {
	table := result.Table{Title: "What a lying correspondent had sent to its victim",
		Columns: []string{"case", "before, per second", "came from there", "went there", "allowed", "packets"}}
	for _, a := range list {
		env.Result.Set(a.Name+"_bytes", float64(a.Sent))
		env.Result.Set(a.Name+"_allowed_bytes", a.allowed())
		env.Result.Set(a.Name+"_share", float64(a.Sent)/a.allowed())
		table.Rows = append(table.Rows, []string{a.Name, fmt.Sprintf("%.0f bytes", a.Rate),
			fmt.Sprintf("%d bytes", a.Received),
			fmt.Sprintf("%d bytes", a.Sent), fmt.Sprintf("%.0f bytes", a.allowed()), fmt.Sprint(a.Packets)})
	}
	env.Result.Tables = append(env.Result.Tables, table)
}
