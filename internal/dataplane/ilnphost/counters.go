package ilnphost

import "roam/internal/dataplane"

// Counter is one counter of the data plane.
type Counter = dataplane.Counter

// NotAdmitted is the counter of packets of nodes that may not open sessions; LastRefused
// has one of them.
const NotAdmitted = "rx_not_admitted"

var counterTable = [bpfCounterCOUNTERS_MAX]dataplane.Label{
	bpfCounterTX_PACKETS:         {"tx_packets", "translated and sent"},
	bpfCounterTX_PLAIN:           {"tx_plain", "of those, as plain IPv6"},
	bpfCounterTX_PENDING:         {"tx_pending", "of those, to correspondents without a session yet"},
	bpfCounterTX_NONCE:           {"tx_nonce", "of those, with a nonce"},
	bpfCounterTX_NONCE_LEFT_OUT:  {"tx_nonce_left_out", "a nonce was due, but segmentation, MTU or header order forbade it"},
	bpfCounterTX_SEGDEV:          {"tx_segdev", "packets sent round to be cut before translation: policy nonce=always, or checksums over identifiers"},
	bpfCounterTX_PROBE_COPY_MOOT: {"tx_probe_copy_moot", "not lost: copies of first packets under the other checksum rule that were not needed any more"},
	bpfCounterTX_PROBE_COPY:      {"tx_probe_copy", "packets sent under the other checksum rule as well, since no answer shows which"},
	bpfCounterTX_ENCAP:           {"tx_encap", "ICMPv6 messages of sessions that went in UDP, as the path drops options or ICMPv6"},
	bpfCounterTX_RETRIED:         {"tx_retried", "first segments retransmitted as plain IPv6 at once, as the correspondent refused their nonce"},
	bpfCounterRX_PACKETS:         {"rx_packets", "translated and delivered"},
	bpfCounterRX_NONCE:           {"rx_nonce", "of those, with a nonce that was stripped"},
	bpfCounterRX_PLAIN:           {"rx_plain", "of those, of sessions that fell back to plain IPv6"},
	bpfCounterRX_ENCAP:           {"rx_encap", "control messages that came in UDP"},
	bpfCounterRX_STALE_LOCATOR:   {"rx_stale_locator", "accepted from a locator that the correspondent has withdrawn, within its grace; later ones are drop_unknown_locator"},
	bpfCounterRX_HELD:            {"rx_held", "packets of peers at a place where no record has them, given to the daemon until these are validated, not lost"},
	bpfCounterRX_NOT_ADMITTED:    {NotAdmitted, "packets with a nonce from nodes that nobody knows here (accept = known), left to the stack, which refuses them"},
	bpfCounterRX_PENDING_UNREPORTED: {"rx_pending_unreported",
		"first packets of pending peers that were answered but not reported to the daemon, since there were too many"},
	bpfCounterRX_ECHO_REFLECTED:        {"rx_echo_reflected", "echo requests answered by the data plane"},
	bpfCounterRX_LISTENER:              {"rx_listener", "connections given to a server that is bound to one real address"},
	bpfCounterRX_ECHO_FORGOTTEN:        {"rx_echo_forgotten", "segments of TCP whose echoed time stamp was taken out, as it may be older than an outage"},
	bpfCounterRX_REAL_SOCKET:           {"rx_real_socket", "of plain IPv6 between nodes that have a session, left to its own sockets"},
	bpfCounterRX_UPDATE_FOLLOWED:       {"rx_update_followed", "locator updates with a right MAC that were followed"},
	bpfCounterDROP_NOT_SESSION:         {"drop_not_session", "sent to the session device, but not between session addresses"},
	bpfCounterDROP_MISS_HANDED_OVER:    {"miss_handed_over", "first packets given to the daemon, not lost"},
	bpfCounterDROP_ERROR_HANDED_OVER:   {"error_handed_over", "ICMPv6 errors given to the daemon, not lost"},
	bpfCounterDROP_CONTROL_HANDED_OVER: {"control_handed_over", "control messages given to the daemon, not lost"},
	bpfCounterDROP_MISS_TOO_BIG:        {"drop_too_big", "packets for the daemon that are too large to be handed over"},
	bpfCounterDROP_MISS_RATE:           {"drop_miss_rate", "first packets of local programs to identifiers that nobody knows, more than 1,000 a second"},
	bpfCounterDROP_RING_FULL:           {"drop_ring_full", "the daemon did not keep up, or is not running"},
	bpfCounterDROP_RING_SHARE:          {"drop_ring_share", "control messages and new locators of one correspondent, more than the daemon listens to"},
	bpfCounterDROP_NO_PATH_SILENT:      {"drop_no_path", "no usable path; the sender is left to its timers"},
	bpfCounterDROP_NO_PATH_RETRY:       {"drop_no_path_retry", "no usable path; TCP tries again within 500 ms"},
	bpfCounterDROP_OBSTRUCTED:          {"drop_obstructed", "an answer would go around a policy of IPsec or routing: not sent"},
	bpfCounterDROP_LEAK:                {"drop_leak", "a session address was about to leave untranslated"},
	bpfCounterDROP_SESSION_OUTSIDE:     {"drop_session_outside", "a session address came in from outside"},
	bpfCounterDROP_OWN_NID:             {"drop_own_nid", "a packet from outside that claims an identifier of this host"},
	bpfCounterDROP_SESSION_LINK:        {"drop_session_link", "a session address came in on a link that is no uplink, such as a container's"},
	bpfCounterDROP_FORWARDED:           {"drop_forwarded", "a session address, sent by another node and forwarded by this host"},
	bpfCounterDROP_MALFORMED:           {"drop_malformed", "truncated or contradictory headers"},
	bpfCounterDROP_TWO_NONCES:          {"drop_two_nonces", "more than one nonce in a packet (RFC 6744 §2)"},
	bpfCounterDROP_NONCE_LENGTH:        {"drop_nonce_length", "a nonce of neither 4 nor 12 bytes"},
	bpfCounterDROP_UNKNOWN_LOCATOR:     {"drop_unknown_locator", "no nonce, from a locator that the correspondent does not have"},
	bpfCounterDROP_SESSION_LOST:        {"drop_session_lost", "no nonce and no session, of a connection that is one of a session; plain IPv6 would reset it"},
	bpfCounterDROP_NO_NONCE_YET:        {"drop_no_nonce_yet", "a packet without nonce while a session is being set up"},
	bpfCounterDROP_WRONG_NONCE:         {"drop_wrong_nonce", "another nonce than the session's (RFC 6741 §5.4)"},
	bpfCounterDROP_ICMP_NO_NONCE:       {"drop_icmp_no_nonce", "an ICMPv6 message of a session without nonce (RFC 6744 §7)"},
	bpfCounterDROP_UPDATE_NO_NONCE:     {"drop_update_no_nonce", "a Locator Update without nonce (RFC 6743 §6)"},
	bpfCounterDROP_UPDATE_NO_SESSION:   {"drop_update_no_session", "a Locator Update from someone without a session"},
	bpfCounterDROP_UNVALIDATED:         {"drop_unvalidated", "more than the allowance of a locator that is not validated"},
	bpfCounterDROP_NOT_HELD:            {"drop_not_held", "packets of peers at a place where no record has them, more than can be held until these are validated"},
	bpfCounterDROP_KERNEL_HELPER:       {"drop_kernel_helper", "the kernel refused to rewrite a packet"},
}

// Counters reads all counters, in the order of enum counter.
func (p *Plane) Counters() ([]Counter, error) {
	return dataplane.ReadCounters(p.objs.Counters, counterTable[:])
}
