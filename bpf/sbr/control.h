/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Which packets are control messages for the daemon: Locator Updates and ICMPv6 errors, also in
 * fragments.
 */
#ifndef ROAM_SBR_CONTROL_H
#define ROAM_SBR_CONTROL_H

#include "send.h"

/* Names the message that a packet is a fragment of; nonzero: its headers cannot be read. */
static __always_inline int name_message(struct __sk_buff *skb, const struct crossing *x, struct message *m)
{
	__u32 at = x->l3 + IP6_LEN;
	__u8 next = x->ip.next, h[8];

	m->src = x->ip.src;
	m->dst = x->ip.dst;
	for (int i = 0; i < MAX_HEADERS; i++) {
		if (bpf_skb_load_bytes(skb, at, h, sizeof(h)))
			return -1;
		if (next == NEXT_FRAGMENT) {
			__builtin_memcpy(&m->id, h + 4, sizeof(m->id));
			return 0;
		}
		next = h[0];
		at += 8 + 8 * (__u32)h[1];
	}
	return -1;
}

enum control {
	NO_CONTROL,
	CONTROL,         /* a Locator Update, an error about another packet, or a fragment of one */
	UNKNOWN_CONTROL, /* a later fragment that may be one: the first has not come */
};

/* Is a fragment one of a control message? The first one, or the only one, says so for the later
 * ones, in which no header does. A later one of an ICMPv6 message with a nonce may have a list of
 * internal locators, so it does not pass before the first one.
 */
__noinline int control_fragment(struct __sk_buff *skb, const struct crossing *x)
{
	struct message m = {};
	__u8 *known, is;

	if (!x || name_message(skb, x, &m))
		return NO_CONTROL;
	if (x->c.fragment == LATER_FRAGMENT) {
		known = bpf_map_lookup_elem(&split_control, &m);
		if (known)
			return *known ? CONTROL : NO_CONTROL;
		return x->c.nonce.len && x->c.proto == IPPROTO_ICMPV6 ? UNKNOWN_CONTROL : NO_CONTROL;
	}
	if (x->c.proto != IPPROTO_ICMPV6)
		return NO_CONTROL;
	is = x->c.type == ICMP6_LOCATOR_UPDATE || x->c.type <= ICMP6_ERROR_LAST;
	if (is || x->c.nonce.len)
		bpf_map_update_elem(&split_control, &m, &is, BPF_ANY); /* else it will not come together */
	return is ? CONTROL : NO_CONTROL;
}

/* Is this for the daemon? */
static __always_inline enum control control_of(struct __sk_buff *skb, const struct crossing *x)
{
	if (x->c.fragment != WHOLE)
		return control_fragment(skb, x);
	return x->c.proto == IPPROTO_ICMPV6 &&
			       (x->c.type == ICMP6_LOCATOR_UPDATE || x->c.type <= ICMP6_ERROR_LAST) ?
		       CONTROL :
		       NO_CONTROL;
}

/* Gives the daemon a control message. came_to: 1 more than the index of the site locator to which
 * the flow's latest packet from outside came.
 */
static __always_inline int take_control(struct __sk_buff *skb, const struct crossing *x, enum control control,
					enum handover_kind kind, __u32 came_to)
{
	if (control == UNKNOWN_CONTROL)
		return refuse(skb, x, DROP_FRAGMENT);
	return hand_over(skb, x, kind, came_to);
}

#endif
