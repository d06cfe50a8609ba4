package ilnphost

import (
	"slices"
	"testing"

	"roam"
	"roam/flowrule"
	"roam/internal/config"
	"roam/internal/hostnet"
	"roam/naming"
)

// TestIdleRules: a link that is no uplink and a peer without a record may come, so a rule that names them is no fault.
func TestIdleRules(t *testing.T) {
	h, _ := newForgetful(t)
	h.engine.Links()[7] = hostnet.Uplink{Link: 7, Name: "eth0"}
	h.records = map[roam.NID]naming.Record{nodeA: {NID: nodeA, Names: []string{"server", "server.example"}}}
	h.publishNames()
	known := []string{"server.example", nodeA.String()}
	h.cfg.Rules = flowrule.Set{
		{Policy: flowrule.Failover, Links: []string{"eth0", "wlan0"}, Match: flowrule.Match{Peers: known}},
		{
			Name: "video", Policy: flowrule.Weighted, Shares: []flowrule.Share{{Link: "wwan0", PerCent: 100}},
			Match: flowrule.Match{Peers: []string{"sever", nodeB.String()}},
		},
	}
	want := []string{
		"rule 1 does without the link wlan0, which is no uplink at present",
		"rule 2 (video) does without the link wwan0, which is no uplink at present",
		"rule 2 (video) names the peer sever, of which there is no record",
		"rule 2 (video) names the peer 0001:0002:0003:0005, of which there is no record",
	}
	if amiss, absent := h.idleRules(); len(amiss) > 0 || !slices.Equal(absent, want) {
		t.Errorf("amiss %q, absent %q", amiss, absent)
	}
	h.cfg.Host.Accept = config.AcceptAny // so a node without a record may come
	if _, absent := h.idleRules(); !slices.Equal(absent, want[:3]) {
		t.Errorf("where any node may come: %q", absent)
	}
}
