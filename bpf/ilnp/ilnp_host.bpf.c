// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The data plane of an ILNPv6 host (RFC 6740, RFC 6741).
 *
 *   application - socket on session addresses - roam0 --egress--> uplinks
 *                                             \------------------egress-> one uplink
 *   application <- stack <------------------ ingress on each uplink
 *
 * Sockets see session addresses, session prefix + NID, which never change; the
 * wire sees locator + NID. These programs translate between the two.
 */
#include "foreign.h"
#include "inbound.h"
#include "outbound.h"
#include "plainipv6.h"
#include "plainflow.h"
#include "settledin.h"
#include "settledout.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* Keeps types in the debug information, for the generated Go types. */
const struct packet_event *unused_event __attribute__((unused));
const enum asked *unused_asked __attribute__((unused));
const enum settled_flags *unused_settled_flags __attribute__((unused));

/* Is the remote alias unknown here, and beyond the rate at which look-ups of unknown
 * aliases are reported?
 */
static __always_inline int is_missed_often(const struct session_key *key)
{
	union half remote = key->remote;

	return !bpf_map_lookup_elem(&known_nids, &remote) && exceeds_rate(RATE_MISSES, MISSES_MOST);
}

/* Fills an event with the place of a pending peer, and with our nonce towards it. */
static __always_inline int about_pending(struct event *about, struct pending_peer *e, const struct session_key *key)
{
	about->remote.nid = key->remote;
	about->remote.l64 = e->remote_l64;
	about->local.nid = key->local;
	about->local.l64 = e->local_l64;
	about->nonce = e->remote_nonce;
	about->ifindex = e->ifindex;
	about->encap = e->encap & PENDING_CAME;
	about->rule = e->rule;
	return pending_nonce(e, key, &about->own_nonce);
}

/* Adds to the number of packets that wait for the daemon, which sends what has waited for the session's
 * entry. By the daemon's one store that opens the line nobody waits any more, and it makes that only
 * while the line counts no packet but those that it has got: so none overtakes another. 0: it is open.
 */
static __always_inline int count_waiting(const struct session_entry *p, int more)
{
	struct session_live *l = live_of(p);

	for (int i = 0; l && i < 8; i++) {
		__u64 word = *(volatile __u64 *)&l->settled;

		if (word >> SETTLED_FLAGS & SETTLED_WRITTEN)
			return 0;
		if (__sync_val_compare_and_swap(&l->settled, word, word + more) == word)
			return 1;
	}
	return 0;
}

static __always_inline int is_cut_first(struct __sk_buff *skb)
{
	return skb->gso_size && this_segdev() && !is_segmented(skb);
}

static __always_inline int waits(struct __sk_buff *skb, const struct session_entry *p)
{
	if (!(p->flags & ENTRY_HELD) || skb->mark == HELD_MARK)
		return 0;
	return skb->mark == COPY_MARK || is_cut_first(skb) || count_waiting(p, 1);
}

/* Hands a packet over that needs a session. e: the packet exceeds the allowance of this
 * pending peer, which is about to get a session. p: it waits for its turn in that session. A GSO
 * packet is cut before: the daemon would send it again as one packet.
 */
__noinline int hand_over_miss(struct __sk_buff *skb, const struct session_key *key, struct pending_peer *e,
			      const struct session_entry *p)
{
	struct event about = {};

	if (!key)
		return drop(DROP_KERNEL_HELPER);
	if (is_cut_first(skb)) {
		count(TX_SEGDEV);
		return bpf_redirect(this_segdev(), 0);
	}
	about.key = *key;
	about.packets = !!p;
	if (e)
		about_pending(&about, e, key);
	if (!e && !p && is_missed_often(key))
		count(DROP_MISS_RATE);
	else if (!tell_packet(skb, ETH_LEN, EV_MISS, &about, RING_REQUESTS))
		count(DROP_MISS_HANDED_OVER);
	else if (p)
		count_waiting(p, -1);
	return drop_silently(skb);
}

/* Hands over an ICMPv6 error of our own stack about a packet of a session, or of a
 * pending peer, within its allowance.
 */
__noinline int hand_over_error(struct __sk_buff *skb, const struct session_key *key, struct pending_peer *e)
{
	struct event about = {};

	if (!key)
		return drop(DROP_KERNEL_HELPER);
	about.key = *key;
	if (e) {
		about_pending(&about, e, key);
		if (is_obstructed(&about.local.l64, &about.remote)) {
			count(DROP_OBSTRUCTED);
			return drop_silently(skb);
		}
		if (!pending_allows(e, skb->len - ETH_LEN)) {
			count(DROP_UNVALIDATED);
			return drop_silently(skb);
		}
	}
	if (!tell_packet(skb, ETH_LEN, EV_ERROR_OUT, &about, RING_URGENT))
		count(DROP_ERROR_HANDED_OVER);
	return drop_silently(skb);
}

/* Does the program run at the egress of an uplink? */
static __always_inline int is_on_uplink(const struct __sk_buff *skb, const struct host *h)
{
	return skb->ifindex != h->device && skb->ifindex != h->segdev_end;
}

/* Has another node sent this packet, so that this host forwards it? A packet of a socket
 * has arrived nowhere; tunnels of this host clear where the packets inside arrived.
 */
static __always_inline int is_forwarded(const struct __sk_buff *skb, const struct host *h)
{
	return skb->ingress_ifindex && (is_on_uplink(skb, h) || !is_segmented(skb));
}


/* Is a packet at the egress of an uplink, and none of a session? Looks at the linear part
 * only: all that leaves an uplink passes here.
 */
static __always_inline int is_ordinary(struct __sk_buff *skb, const struct host *h)
{
	const struct ip6 *ip;

	if (!is_on_uplink(skb, h))
		return 0;
	if (skb->protocol != bpf_htons(ETH_P_IPV6))
		return 1;
	ip = ip6_at(skb, ETH_LEN);
	return ip && ip->src.l64.v != h->session_prefix.v && ip->dst.l64.v != h->session_prefix.v;
}

/* The verdict on a packet whose addresses are not both of sessions: one may not leave an
 * uplink, and none may leave the session device.
 */
static __always_inline int refuse_ends(const struct __sk_buff *skb, const struct host *h, int one)
{
	if (!h || !is_on_uplink(skb, h))
		return drop(DROP_NOT_SESSION);
	return one ? drop(DROP_LEAK) : PASS_ON;
}

/* Egress of the session device, and of uplinks with a MAC header, one of which the direct
 * route names; and ingress of the far end of the segmentation device, a veth pair whose
 * near end has no offloads, so that the kernel has cut GSO packets and finished their
 * checksums before.
 */
SEC("tc")
int ilnp_session_egress(struct __sk_buff *skb)
{
	struct host *h;
	union { /* the stack is limited: the key overlaps the destination, whose identifier is its remote half */
		struct ip6 ip;
		struct {
			__u8 before[24];
			struct session_key key;
		};
	} u;
	struct session_entry *p;
	struct pending_peer *e;
	struct chain c;
	int verdict;

	verdict = compact ? send_settled(skb) : UNSETTLED;
	if (likely(verdict < UNSETTLED))
		return verdict;
	h = this_host();
	if (h && is_ordinary(skb, h))
		return PASS_ON;
	if (compact == COMPACT_ALONE)
		return verdict;
	__builtin_memset(&c, 0, sizeof(c));
	if (!h || skb->protocol != bpf_htons(ETH_P_IPV6) || read_ip6(skb, ETH_LEN, &u.ip))
		return refuse_ends(skb, h, 0);
	if (u.ip.dst.l64.v != h->session_prefix.v || u.ip.src.l64.v != h->session_prefix.v)
		return refuse_ends(skb, h, u.ip.dst.l64.v == h->session_prefix.v || u.ip.src.l64.v == h->session_prefix.v);
	if (is_forwarded(skb, h))
		return refuse_foreign(DROP_FORWARDED, &u.ip.src, skb->ingress_ifindex, u.ip.next);
	if (read_chain(skb, &c, ETH_LEN + IP6_LEN, u.ip.next) < 0 || c.two_nonces)
		return drop(DROP_MALFORMED);
	u.key.local = u.ip.src.nid;
	p = session_at(verdict == UNSETTLED ? find_place(&u.key) : verdict);
	e = p && !is_waiting(p) ? 0 : pending_of(&u.key);
	if (e)
		p = 0; /* it contacted us first */
	if (p ? waits(skb, p) : !e)
		return skb->mark == COPY_MARK ? drop(DROP_NOT_SESSION) : hand_over_miss(skb, &u.key, 0, p);
	if (c.proto == IPPROTO_ICMPV6 && c.type <= ICMP6_ERROR_LAST && c.fragment == WHOLE)
		return hand_over_error(skb, &u.key, e);
	if (p && has_plain_flows(p, &c)) {
		verdict = send_plain_flow(skb, p, &c);
		if (verdict != FLOW_ILNP)
			return verdict;
	}
	if (p)
		return send_in_session(skb, p, &c, u.ip.next);
	verdict = send_pending(skb, &u.key, e, &c, u.ip.next);
	return verdict == NOT_YET ? hand_over_miss(skb, &u.key, e, 0) : verdict;
}

/* Ingress of the other end of the session device: only packets that were CONSUMED get
 * here, and were counted there.
 */
SEC("tc")
int ilnp_session_sink(struct __sk_buff *skb)
{
	return SHOT;
}

/* Does a packet from outside claim an identifier of this host as its source? Only packets
 * that no router forwards may, as a host receives its own neighbour discovery where a
 * link repeats it.
 */
static __always_inline int claims_us(const struct inbound *in)
{
	struct host *h = this_host();

	return h && is_ours(h, in->src.nid);
}

/* Neighbour discovery and multicast listener messages never bear a nonce. */
static __always_inline int is_link_control(const struct chain *c)
{
	return (c->type >= ICMP6_MLD_FIRST && c->type <= ICMP6_ND_LAST) || c->type == ICMP6_MLDV2_REPORT;
}

/* Reads the headers of a packet to one of our locators. 0, or the verdict. Separate from
 * receive, so that the header leaves the stack, which is limited.
 */
static __always_inline int read_inbound(struct __sk_buff *skb, struct inbound *in, __u32 l3)
{
	struct host *h = this_host();
	struct ip6 ip;
	int err;

	if (!h || skb->protocol != bpf_htons(ETH_P_IPV6) || for_another_device(skb) ||
	    read_ip6(skb, l3, &ip))
		return PASS_ON;
	if (ip.next == IPPROTO_ICMPV6 && ip.hop_limit == ND_HOP_LIMIT)
		note_discovery(skb, l3);
	in->src = ip.src;
	in->dst = ip.dst;
	if (ip.dst.l64.v == h->session_prefix.v || ip.src.l64.v == h->session_prefix.v)
		return refuse(in, DROP_SESSION_OUTSIDE);
	if (!is_ours(h, ip.dst.nid) || !locator_on_wire(ip.dst.l64))
		return PASS_ON;
	err = 0;
	if (ip.next != NEXT_DEST_OPTIONS || !read_alone(skb, &in->c, l3 + IP6_LEN))
		err = read_chain(skb, &in->c, l3 + IP6_LEN, ip.next);
	if (!err && is_encap(skb, &in->c, l3 + IP6_LEN))
		err = open_encap(skb, &in->c, &in->encap);
	if (err || in->c.two_nonces)
		return refuse(in, err ? reason_of(err) : DROP_TWO_NONCES);
	return length_holds(skb, &in->c, &ip, l3 + IP6_LEN) ? 0 : drop(DROP_MALFORMED);
}

/* Are the identifiers still the NIDs, in a session that has an alias besides? */
static __always_inline int keeps_nids(const struct session_entry *p, const struct inbound *in)
{
	return p->flags & ENTRY_NAMED && in->src.nid.v == p->remote_nid.v;
}

/* result: that of the compact path. */
static __always_inline int receive(struct __sk_buff *skb, struct inbound *in, __u32 l3, __u32 result)
{
	struct session_entry *p;
	int verdict = read_inbound(skb, in, l3), real = 0, nids_only;

	if (verdict)
		return verdict;
	if (in->c.proto == IPPROTO_ICMPV6 && in->c.fragment != LATER_FRAGMENT) {
		if (is_link_control(&in->c))
			return PASS_ON;
		if (in->c.type >= 1 && in->c.type <= ICMP6_KNOWN_ERRORS)
			return receive_error(skb, in);
	}
	p = session_of(in, result);
	if (!p && claims_us(in)) /* no node with an identifier of ours gets a session */
		return refuse(in, DROP_OWN_NID);
	if (p && p->remote_nid.v != in->src.nid.v)
		return refuse(in, DROP_WRONG_NONCE); /* it claims an alias of this host as its NID */
	if (p && p->flags & ENTRY_REAL_SOCKETS)
		real = find_real(skb, p, in);
	if (real == REAL_HERE && !in->c.nonce.len) {
		count(RX_REAL_SOCKET);
		return PASS_ON;
	}
	if (!p && in->c.nonce.len) {
		real = find_real(skb, 0, in);
		in->plain = !!real;
	}
	verdict = p ? receive_in_session(skb, p, in) : FOR_PENDING;
	if (verdict == FOR_PENDING) {
		if (p || in->c.nonce.len || speaks_for_pending(skb, in))
			verdict = receive_pending(skb, in, p);
		else if (in->c.proto == IPPROTO_ICMPV6 && in->c.type == ICMP6_LOCATOR_UPDATE)
			return refuse(in, DROP_UPDATE_NO_NONCE);
		else if (in->c.proto == IPPROTO_TCP && lacks_session(skb, in->l3) && !real_socket(skb, in->l3, 0))
			return drop(DROP_SESSION_LOST);
		else
			return pass_plain(in);
	}
	if (verdict > FOR_STACK)
		return verdict;
	nids_only = in->c.proto == IPPROTO_ICMPV6 ? is_icmp_over_nids(skb, p, in) : verdict == FOR_STACK_6741;
	if (real)
		return deliver_real(skb, in, p, real, nids_only);
	return deliver(skb, in, p && !keeps_nids(p, in) ? sum_bytes(p->nid_delta) : 0, nids_only);
}

/* Receives a packet that the compact path has left, with that result, and offers a
 * connection to a server on a real address. A first segment of a correspondent has a nonce,
 * so only packets with one pay for that look-up.
 */
static __always_inline int receive_and_serve(struct __sk_buff *skb, __u32 l3, int verdict)
{
	struct inbound in;

	__builtin_memset(&in, 0, sizeof(in));
	in.l3 = l3;
	verdict = receive(skb, &in, l3, verdict);
	if (in.refused)
		note_refusal(skb, &in);
	if (verdict == PASS_ON && in.c.nonce.len && in.c.proto == IPPROTO_TCP)
		serve(skb, l3);
	return verdict;
}

SEC("tc")
int ilnp_uplink_ingress(struct __sk_buff *skb)
{
	int verdict = compact ? receive_settled(skb) : UNSETTLED;

	if (likely(verdict < UNSETTLED))
		return verdict;
	if (compact == COMPACT_ALONE)
		return verdict;
	return receive_and_serve(skb, ETH_LEN, verdict);
}

/* The same for links without a MAC layer: modems in raw-IP mode, PPP, tun. */
SEC("tc")
int ilnp_rawlink_ingress(struct __sk_buff *skb)
{
	int verdict = compact ? receive_settled_raw(skb) : UNSETTLED;

	if (likely(verdict < UNSETTLED))
		return verdict;
	if (compact == COMPACT_ALONE)
		return verdict;
	return receive_and_serve(skb, 0, verdict);
}

/* Drops packets that would leave a link without a MAC layer with session addresses: these
 * leave by roam0.
 */
SEC("tc")
int ilnp_rawlink_egress(struct __sk_buff *skb)
{
	struct host *h = this_host();
	struct ip6 ip;

	if (!h || skb->protocol != bpf_htons(ETH_P_IPV6) || read_ip6(skb, 0, &ip))
		return PASS_ON;
	if (ip.src.l64.v == h->session_prefix.v || ip.dst.l64.v == h->session_prefix.v)
		return drop(DROP_LEAK);
	return PASS_ON;
}
