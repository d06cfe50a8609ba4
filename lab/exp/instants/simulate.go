package instants

import (
	"encoding/binary"

	"roam/lab/exp"
	"roam/lab/packets"
	"roam/lab/scene"
	"roam/lab/virtual"
	"roam/lab/workload/udpflow"
)

// port is of UDP at the correspondent.
const port = 7001

// simulate executes the schedule on the engine sim, with UDP only.
func simulate(env *exp.Env, cfg scene.Config) error {
	rate := env.Params.Float("udp_rate")
	pass, err := virtual.Run(cfg, plan(env.Params), []virtual.Flow{{Port: port, Rate: rate, Size: 64},
		{Port: port, Rate: rate, Size: 64, In: true}})
	if err != nil {
		return err
	}
	t := &seen{Trace: pass.Trace}
	t.up = flow(pass.Mobile, pass.Peer, func(p packets.Packet) bool { return p.DstPort == port })
	t.down = flow(pass.Peer, pass.Mobile, func(p packets.Packet) bool { return p.SrcPort == port })
	t.judge(env)
	return nil
}

// flow converts two captures to the log of the probe.
func flow(sender, receiver []packets.Packet, which func(packets.Packet) bool) *udpflow.Flow {
	var sent []udpflow.Sent
	var got []udpflow.Got
	first := uint32(0) // datagrams sent before the capture have lower numbers
	for i, p := range packets.Select(sender, data(which)) {
		if i == 0 {
			first = number(p)
		}
		sent = append(sent, udpflow.Sent{At: p.At.UnixNano()})
	}
	for _, p := range packets.Select(receiver, data(which)) {
		if n := number(p); n >= first {
			got = append(got, udpflow.Got{Seq: uint64(n - first), Sent: sent[n-first].At, At: p.At.UnixNano()})
		}
	}
	return udpflow.New(sent, got)
}

func data(which func(packets.Packet) bool) func(packets.Packet) bool {
	return func(p packets.Packet) bool { return p.Proto == packets.UDP && p.Payload > 0 && which(p) }
}

func number(p packets.Packet) uint32 { return binary.BigEndian.Uint32(p.Data[virtual.NumberAt:]) }
