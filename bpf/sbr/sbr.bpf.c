// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* A site border router: rewrites the locators of packets that cross the edge of a site.
 * Packets from inside get the source locator that the policy wants and leave by its link;
 * packets from outside get the internal locator of their destination, and the stack of this
 * host forwards them. What needs a decision once a flow goes to the daemon.
 */
#include "control.h"
#include "forget.h"
#include "plain.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* Finds what the policy says of a locator. Most of the others are told apart by a bit, for
 * less than a look-up.
 */
static __always_inline struct locator *locator_of(union half l64)
{
	const struct border *b = this_border();

	if (!b || !(b->locator_bits >> bit_of(l64) & 1))
		return 0;
	return bpf_map_lookup_elem(&locators, &l64);
}

/* Does a packet that came by a link belong to it? The tag of its priority is taken off, as the stack
 * does: it would leave with the packet.
 */
static __always_inline int came_by_link(struct __sk_buff *skb)
{
	if (skb->protocol != bpf_htons(ETH_P_IPV6))
		return 0;
	if (is_of_other_link(skb)) {
		count(PASS_OTHER_LINK);
		return 0;
	}
	return !skb->vlan_present || !bpf_skb_vlan_pop(skb);
}

/* Reads addresses; PASS_ON: no packet that may cross the border. 0: it may. */
static __always_inline int read_addresses(struct __sk_buff *skb, struct crossing *x)
{
	struct packet_facts facts;

	if (skb->protocol != bpf_htons(ETH_P_IPV6))
		return PASS_ON;
	facts = facts_of(skb);
	x->l3 = facts.l3;
	x->state = facts.ip_summed;
	if (read_ip6(skb, x->l3, &x->ip) || is_local(&x->ip.dst) || is_local(&x->ip.src))
		return PASS_ON;
	return 0;
}

/* Reads the headers behind; nonzero: they cannot be read, and the packet is dropped. */
static __always_inline int read_headers(struct __sk_buff *skb, struct crossing *x)
{
	__u32 body = x->l3 + IP6_LEN;

	return read_chain(skb, &x->c, body, x->ip.next) || open_encap(skb, &x->c, x->l3) || x->c.two_nonces ||
	       !length_holds(skb, &x->c, &x->ip, body);
}

/* Rewrites a packet between two inside nodes that uses a site locator, as if it had left and
 * come back (RFC 6748 §2.8). The stack forwards it. The source gets the locator of the destination's provider
 * where the policy has that for it, also while its link is down: the answer then comes from the address that
 * was asked. Between nodes of one internal locator both changes cancel in the checksum, whatever its rule. The
 * daemon translates the packet that an error quotes.
 */
__noinline int hairpin(struct __sk_buff *skb, struct crossing *x, const struct locator *from, __u32 to)
{
	struct site *s, *d;
	__u32 first;

	if (!x || !from)
		return drop(DROP_MALFORMED);
	if (x->c.fragment == WHOLE && x->c.proto == IPPROTO_ICMPV6 && x->c.type <= ICMP6_ERROR_LAST)
		return hand_over(skb, x, HAND_INSIDE, 0);
	s = d = bpf_map_lookup_elem(&sites, &to);
	if (d && d->behind.v != x->ip.src.l64.v && !(from->sites >> (to & (MAX_SITES - 1)) & 1)) {
		first = from->site[0];
		s = from->n ? bpf_map_lookup_elem(&sites, &first) : 0;
	}
	if (!s || !d)
		return refuse(skb, x, DROP_NO_LINK);
	if (rewrite(skb, x, SOURCE_AT, x->ip.src.l64, s->l64) ||
	    rewrite(skb, x, DESTINATION_AT, x->ip.dst.l64, d->behind))
		return refuse(skb, x, DROP_KERNEL_HELPER);
	count(TX_HAIRPIN);
	return PASS_ON;
}

/* Decides about a packet of no flow; 0: it is rewritten. One with a nonce, or with the mark that hosts
 * may give the packets of sessions, is for that (B. Simpson's dissertation, section 5.2.1).
 */
static __always_inline int fall_back(struct __sk_buff *skb, const struct border *b, const struct crossing *x,
				     int *verdict)
{
	if (x->c.nonce.len || (b->flow_label && x->ip.class_flow[0] & LABEL_BIT))
		return 0;
	if (b->fallback == FALLBACK_TRANSLATE)
		return 0;
	if (b->fallback == FALLBACK_FORWARD) {
		count(PASS_FALLBACK);
		*verdict = PASS_ON;
	} else {
		*verdict = refuse(skb, x, DROP_FALLBACK);
	}
	return 1;
}

/* Sends a packet from inside whose locators are those of the policy. */
static __always_inline int cross_outward(struct __sk_buff *skb, struct crossing *x, const struct locator *g)
{
	const struct border *b = this_border();
	enum control control;
	struct flow *f;
	int site, verdict;

	if (!b || !g->n)
		return refuse(skb, x, DROP_NO_LINK);
	f = flow_of(skb, x);
	control = control_of(skb, x);
	if (control)
		return take_control(skb, x, control, HAND_INSIDE, f ? f->came_to : 0);
	if (!f) {
		if (fall_back(skb, b, x, &verdict))
			return verdict;
		return send_from(skb, x, b, g->site[0], TX_FALLBACK);
	}
	if (x->c.proto == IPPROTO_ICMPV6) {
		if (hide_report(skb, x))
			return refuse(skb, x, DROP_KERNEL_HELPER);
		site = probe_site(skb, x);
		if (site >= 0)
			return send_from(skb, x, b, site, TX_PROBE_REPLY);
	}
	return send_from(skb, x, b, g->site[choose(skb, g, x, f, b) & (MAX_GROUP - 1)], TX_FLOW);
}

/* Is this an address of the border itself? It may have a locator of the policy. */
static __always_inline int is_own(const struct addr *a)
{
	const struct border *b = this_border();
	struct addr key = *a;

	if (!b || !(b->own_bits >> bit_of(a->nid) & 1))
		return 0;
	return bpf_map_lookup_elem(&own_addresses, &key) != 0;
}

/* Passes a packet from inside to the border itself: the answer to an echo request of the daemon is
 * for that.
 */
__noinline int pass_own(struct __sk_buff *skb, struct crossing *x)
{
	const struct border *b = this_border();

	if (!x || !b)
		return PASS_ON;
	if (x->ip.next == IPPROTO_ICMPV6 && !read_headers(skb, x) && has_probe_id(skb, x, b))
		return hand_over(skb, x, HAND_INSIDE, 0);
	return PASS_ON;
}

static __always_inline int full_outward(struct __sk_buff *skb)
{
	const struct border *b = this_border();
	struct crossing x = {};
	struct locator *from, *to;

	if (!b || !came_by_link(skb) || read_addresses(skb, &x))
		return PASS_ON;
	from = hinted_group(b, x.ip.src.l64);
	if (!from)
		from = locator_of(x.ip.src.l64);
	if (!from || from->kind != LOCATOR_INTERNAL)
		return PASS_ON;
	if (is_own(&x.ip.dst))
		return pass_own(skb, &x);
	to = locator_of(x.ip.dst.l64);
	if (to && to->kind == LOCATOR_INTERNAL)
		return PASS_ON;
	if (read_headers(skb, &x))
		return refuse(skb, &x, DROP_MALFORMED);
	if (x.ip.hop_limit <= 1) {
		count(PASS_STACK); /* which answers Time Exceeded */
		return PASS_ON;
	}
	if (to)
		return hairpin(skb, &x, from, to->site[0]);
	x.key.inside = x.ip.src.nid;
	x.key.outside = x.ip.dst.nid;
	return cross_outward(skb, &x, from);
}

SEC("tc")
int sbr_inside_ingress(struct __sk_buff *skb)
{
	int verdict = plain_outward(skb);

	return verdict == FULL_PATH ? full_outward(skb) : verdict;
}

/* The same for links whose driver has XDP: what passes here takes the program above. */
SEC("xdp")
int sbr_inside_xdp(struct xdp_md *ctx)
{
	struct plain p;
	struct leaving l = {};

	if (read_frame(ctx, &p) || find_leaving(&p, ctx->ingress_ifindex, &l))
		return XDP_PASS;
	if (bpf_redirect_map(&xdp_links, l.s->ifindex, XDP_PASS) != XDP_REDIRECT) {
		if (l.by_turn)
			give_back(l.g, l.member);
		return XDP_PASS;
	}
	leave(&p, &l);
	count(TX_XDP);
	return XDP_REDIRECT;
}

/* Passes a packet from outside, whose destination is the site locator of that index. */
static __always_inline int cross_inward(struct __sk_buff *skb, struct crossing *x, __u32 index)
{
	struct share *live = bpf_map_lookup_elem(&shares, &index);
	struct site *s = bpf_map_lookup_elem(&sites, &index);
	const struct border *b = this_border();
	enum control control;
	const struct way *way;
	union half to;
	struct flow *f;
	int verdict;

	if (!b || !s || !live)
		return refuse(skb, x, DROP_NO_LINK);
	if (is_own(&x->ip.dst))
		return PASS_ON;
	f = flow_of(skb, x);
	control = is_own_answer(skb, x, b) ? CONTROL : control_of(skb, x);
	if (control)
		return take_control(skb, x, control, HAND_OUTSIDE, 0);
	if (f && f->came_to != index + 1)
		f->came_to = index + 1;
	if (!f && fall_back(skb, b, x, &verdict))
		return verdict;
	to = f ? internal_of(&x->key, f) : s->behind;
	if (!to.v) /* the flow was removed meanwhile */
		to = s->behind;
	if (x->c.proto == IPPROTO_ICMPV6) {
		note_probe(skb, x, index);
		if (hide_report(skb, x))
			return refuse(skb, x, DROP_KERNEL_HELPER);
	}
	if (rewrite(skb, x, DESTINATION_AT, x->ip.dst.l64, to))
		return refuse(skb, x, DROP_KERNEL_HELPER);
	count(f ? RX_FLOW : RX_FALLBACK);
	count_share(skb, x, live, 1);
	way = f ? direct_way(skb, x, to, b) : 0;
	if (!way)
		return PASS_ON;
	count(RX_DIRECT);
	skb->tc_index = SENT_HERE;
	return bpf_redirect(way->dev, 0);
}

static __always_inline int full_inward(struct __sk_buff *skb)
{
	const struct border *b = this_border();
	struct crossing x = {.inward = 1};
	struct locator *from, *to;
	int index;

	if (!b || !came_by_link(skb) || read_addresses(skb, &x))
		return PASS_ON;
	from = locator_of(x.ip.src.l64);
	if (from && from->kind == LOCATOR_INTERNAL)
		return refuse(skb, &x, DROP_SPOOFED);
	index = hinted_site(b, x.ip.dst.l64);
	if (index < 0) {
		to = locator_of(x.ip.dst.l64);
		if (!to)
			return PASS_ON;
		if (to->kind == LOCATOR_INTERNAL)
			return refuse(skb, &x, DROP_INTERNAL);
		index = to->site[0];
	}
	if (read_headers(skb, &x))
		return refuse(skb, &x, DROP_MALFORMED);
	x.key.inside = x.ip.dst.nid;
	x.key.outside = x.ip.src.nid;
	return cross_inward(skb, &x, index);
}

SEC("tc")
int sbr_uplink_ingress(struct __sk_buff *skb)
{
	int verdict = plain_inward(skb);

	return verdict == FULL_PATH ? full_inward(skb) : verdict;
}

/* The same for links whose driver has XDP. */
SEC("xdp")
int sbr_uplink_xdp(struct xdp_md *ctx)
{
	struct plain p;
	struct share *live;

	if (read_frame(ctx, &p))
		return XDP_PASS;
	live = find_entering(&p, ctx->ingress_ifindex);
	if (!live || bpf_redirect_map(&xdp_links, p.way->dev, XDP_PASS) != XDP_REDIRECT)
		return XDP_PASS;
	enter(&p, live);
	count(RX_XDP);
	count(RX_DELIVERED);
	return XDP_REDIRECT;
}

/* Does an ICMPv6 error quote a packet with an internal destination? */
static __always_inline int quotes_internal(struct __sk_buff *skb, const struct crossing *x)
{
	struct locator *l;
	union half quoted;

	if (x->c.proto != IPPROTO_ICMPV6 || x->c.type > ICMP6_ERROR_LAST ||
	    bpf_skb_load_bytes(skb, x->c.at + 8 + DESTINATION_AT, &quoted, sizeof(quoted)))
		return 0;
	l = locator_of(quoted);
	return l && l->kind == LOCATOR_INTERNAL;
}

/* Lets no internal locator leave by a link to a provider. What the program at the inside has
 * sent bears that of the provider.
 */
SEC("tc")
int sbr_uplink_egress(struct __sk_buff *skb)
{
	const struct border *b;
	struct crossing x = {};
	struct locator *from;

	if (skb->tc_index == SENT_HERE) {
		skb->tc_index = 0;
		return PASS_ON;
	}
	b = this_border();
	if (!b || is_of_other_link(skb) || read_addresses(skb, &x))
		return PASS_ON;
	from = locator_of(x.ip.src.l64);
	if (from && from->kind == LOCATOR_INTERNAL && b->fallback != FALLBACK_FORWARD)
		return refuse(skb, &x, DROP_LEAK);
	if (x.ip.next != IPPROTO_ICMPV6 || read_headers(skb, &x) || !quotes_internal(skb, &x))
		return PASS_ON;
	return hand_over(skb, &x, HAND_OWN, 0);
}

/* Counts what reaches the inside. */
SEC("tc")
int sbr_inside_egress(struct __sk_buff *skb)
{
	struct crossing x = {};
	struct locator *to;

	if (skb->tc_index == SENT_HERE) {
		skb->tc_index = 0;
		count(RX_DELIVERED);
		return PASS_ON;
	}
	if (is_of_other_link(skb) || read_addresses(skb, &x))
		return PASS_ON;
	to = locator_of(x.ip.dst.l64);
	if (to && to->kind == LOCATOR_INTERNAL)
		count(RX_DELIVERED);
	return PASS_ON;
}

static __always_inline void withdraw(struct flow *f, const struct announcement *a)
{
	f->announced &= ~a->value;
	if (f->came_to && a->value >> ((f->came_to - 1) & (MAX_SITES - 1)) & 1)
		f->came_to = 0;
}

static long withdraw_flow(void *map, const void *key, void *value, void *ctx)
{
	struct whole_flow *w = value;

	withdraw(&w->flow, ctx);
	return 0;
}

static long withdraw_set(void *map, const void *key, void *value, void *ctx)
{
	struct flow_set *s = value;

	for (int i = 0; i < SET_FLOWS; i++)
		withdraw(&s->flow[i], ctx);
	return 0;
}

/* Gives a flow the nonces of nodes of which one has lost its state. Negative: its set is in use. */
static __always_inline int renew_flow(const struct announcement *a)
{
	__u32 n = set_of(&a->flow);
	struct nonce_set *rest = bpf_map_lookup_elem(&nonce_sets, &n);
	struct known f;
	int done;

	if (!rest || lock_set(rest))
		return -1;
	f = known_whole(&a->flow);
	done = f.flow && f.nonces;
	if (done) {
		f.nonces->inward = a->inward;
		f.nonces->outward = a->outward;
		f.flow->announced = 0;
		f.flow->sealed = 0;
	}
	unlock_set(rest);
	return done;
}

/* Writes what outside nodes have acknowledged into flows, beside which programs write. The daemon
 * runs it. 0: there is no such flow. Negative: it is to try again.
 */
SEC("syscall")
int sbr_announce(struct announcement *a)
{
	struct announcement copy = *a;
	struct flow *f;

	if (copy.what == WITHDRAWN_FROM_ALL)
		return bpf_for_each_map_elem(&flow_sets, withdraw_set, &copy, 0) >= 0 &&
		       bpf_for_each_map_elem(&flows, withdraw_flow, &copy, 0) >= 0;
	if (copy.what == RENEWED)
		return renew_flow(&copy);
	f = known_flow(&copy.flow);
	if (!f)
		return 0;
	if (copy.what == SEALED)
		f->sealed = copy.value;
	else
		f->announced = copy.value;
	return 1;
}

/* Removes a flow. The daemon runs it. Nonzero: it is to try again. */
SEC("syscall")
int sbr_forget(struct flow_key *k)
{
	struct flow_key key = *k;

	return remove_flow(&key) == SET_LOCKED;
}
