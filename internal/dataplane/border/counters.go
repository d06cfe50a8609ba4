package border

import "roam/internal/dataplane"

var counterTable = [bpfCounterCOUNTERS]dataplane.Label{
	bpfCounterTX_FLOW:            {"tx_flow", "packets of flows, rewritten and sent outside"},
	bpfCounterTX_FALLBACK:        {"tx_fallback", "packets of no flow, sent outside from the preferred locator"},
	bpfCounterTX_HAIRPIN:         {"tx_hairpin", "packets between inside nodes that used a site locator"},
	bpfCounterTX_PROBE_REPLY:     {"tx_probe_reply", "answers to probes, sent from the locator to which these came"},
	bpfCounterTX_KERNEL_HOP:      {"tx_kernel_hop", "of those sent outside, by the kernel's way to the next hop"},
	bpfCounterTX_XDP:             {"tx_xdp", "of packets of flows sent outside, by XDP"},
	bpfCounterRX_FLOW:            {"rx_flow", "packets of flows, rewritten for inside"},
	bpfCounterRX_FALLBACK:        {"rx_fallback", "packets of no flow, rewritten for inside"},
	bpfCounterRX_DIRECT:          {"rx_direct", "of packets of flows from outside, without the stack"},
	bpfCounterRX_XDP:             {"rx_xdp", "of these, by XDP"},
	bpfCounterRX_DELIVERED:       {"rx_delivered", "packets that left by a link to the inside"},
	bpfCounterPASS_FALLBACK:      {"pass_fallback", "packets of no flow, forwarded as they are (border.fallback)"},
	bpfCounterPASS_STACK:         {"pass_stack", "packets left to this host's stack, which answers"},
	bpfCounterPASS_OTHER_LINK:    {"pass_other_link", "of a VLAN, or to another hardware address: left alone"},
	bpfCounterFLOW_CONFIRMED:     {"flow_confirmed", "flows of which both nodes have sent a nonce"},
	bpfCounterFLOW_TABLE_FULL:    {"flow_table_full", "flows for which there was no space"},
	bpfCounterDROP_HANDED_OVER:   {"handed_over", "updates, errors and packets that are too big, given to the daemon"},
	bpfCounterDROP_RING_FULL:     {"drop_ring_full", "the daemon did not keep up, or is not running"},
	bpfCounterDROP_RING_SHARE:    {"drop_ring_share", "updates, errors, reports and too big packets beyond the share of a flow"},
	bpfCounterDROP_TOO_LONG:      {"drop_too_long", "updates and errors too long for the daemon"},
	bpfCounterDROP_MALFORMED:     {"drop_malformed", "truncated or contradictory headers"},
	bpfCounterDROP_FALLBACK:      {"drop_fallback", "packets of no flow (border.fallback)"},
	bpfCounterDROP_NO_LINK:       {"drop_no_link", "no link of the group is up"},
	bpfCounterDROP_SPOOFED:       {"drop_spoofed", "an internal source came in from outside"},
	bpfCounterDROP_INTERNAL:      {"drop_internal", "an internal destination came in from outside"},
	bpfCounterDROP_FRAGMENT:      {"drop_fragment", "fragments of ICMPv6 messages that came before the first one"},
	bpfCounterDROP_LEAK:          {"drop_leak", "an internal locator was about to leave the site"},
	bpfCounterDROP_KERNEL_HELPER: {"drop_kernel_helper", "the kernel refused to change a packet"},
}

// FlowsRefused returns for how many flows there was no space.
func (p *Plane) FlowsRefused() (n uint64, err error) {
	list, err := p.Counters()
	if err == nil {
		n = list[bpfCounterFLOW_TABLE_FULL].Value
	}
	return n, err
}

// Counters reads all counters, in the order of enum counter.
func (p *Plane) Counters() ([]dataplane.Counter, error) {
	return dataplane.ReadCounters(p.objs.Counters, counterTable[:])
}
