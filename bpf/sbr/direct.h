/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Sends packets of flows that come in to the inside without the stack: by the hardware address
 * that the kernel's own look-up gave for the flow. Only where the stack would do nothing else
 * with them: the daemon says so (../lib/hooks.bpf.c).
 */
#ifndef ROAM_SBR_DIRECT_H
#define ROAM_SBR_DIRECT_H

#include "send.h"

struct net_device {
	void *nf_hooks_ingress;
} __attribute__((preserve_access_index));

struct sk_buff___dev {
	struct net_device *dev;
} __attribute__((preserve_access_index));

/* Are there rules of the netdev family at the ingress of the packet's link? */
static __always_inline int has_ingress_rules(struct __sk_buff *skb)
{
	const struct sk_buff___dev *kernel = bpf_cast_to_kern_ctx ? bpf_cast_to_kern_ctx(skb) : (void *)skb;
	struct net_device *dev = 0;
	void *hooks = 0;

	if (!bpf_core_field_exists(dev->nf_hooks_ingress))
		return 0; /* the kernel has no such hook */
	return bpf_core_read(&dev, sizeof(dev), &kernel->dev) ||
	       bpf_core_read(&hooks, sizeof(hooks), &dev->nf_hooks_ingress) || hooks;
}

/* Where this processor notes the way to an inside node at a locator from a link. */
static __always_inline struct way *way_to(union half nid, union half internal, __u32 from)
{
	__u32 n = (hash_of(nid) + hash_of(internal) + from) & (WAYS - 1);

	return bpf_map_lookup_elem(&ways, &n);
}

/* Is it that from that link to that node at that locator, and was the kernel asked within HOP_CHECK? */
static __always_inline int is_fresh(const struct way *w, union half nid, union half internal, __u32 from, __u64 now)
{
	return w->nid.v == nid.v && w->internal.v == internal.v && w->from == from && now - w->asked_at < HOP_CHECK;
}

/* Asks the kernel where a packet to the inside node of a flow goes, and notes the answer. That
 * is none if the neighbour is not known, or the packet would not be forwarded. Of a flow whose
 * packets came from another link than that to which the answer leads nothing is noted: the stack has
 * its packets, and others of the node keep their way.
 */
__noinline int ask_way(struct __sk_buff *skb, const struct crossing *x, const struct addr *to, struct way *w)
{
	struct bpf_fib_lookup fib = {.family = AF_INET6, .tot_len = IP6_LEN};
	const struct flow_nonces *nonces;
	int found;

	if (!x || !to || !w)
		return 0;
	__builtin_memcpy(fib.ipv6_src, &x->ip.src, sizeof(fib.ipv6_src));
	__builtin_memcpy(fib.ipv6_dst, to, sizeof(fib.ipv6_dst));
	fib.ifindex = skb->ifindex;
	fib.l4_protocol = x->c.proto;
	found = !has_ingress_rules(skb) && bpf_fib_lookup(skb, &fib, sizeof(fib), 0) == BPF_FIB_LKUP_RET_SUCCESS;
	nonces = found ? known_whole(&x->key).nonces : 0;
	if (found && (!nonces || fib.ifindex != nonces->ifindex))
		return 0;
	__builtin_memcpy(w->macs, fib.dmac, 6);
	__builtin_memcpy(w->macs + 6, fib.smac, 6);
	w->dev = fib.ifindex;
	w->mtu = found ? fib.tot_len : 0; /* the kernel's answer is the MTU of the route */
	w->nid = to->nid;
	w->internal = to->l64;
	w->from = skb->ifindex;
	w->asked_at = x->now;
	return 0;
}

/* Makes a packet of a flow, rewritten for the inside node at that locator, ready to be redirected;
 * null: it takes the stack. One packet to each node from each link and processor does so every 100 ms,
 * so that the kernel checks that the neighbour is still there (RFC 4861 §7.3).
 */
static __always_inline const struct way *direct_way(struct __sk_buff *skb, const struct crossing *x,
						    union half internal, const struct border *b)
{
	struct addr to = {.l64 = internal, .nid = x->ip.dst.nid};
	struct way *w;

	if (!b->direct || x->now > b->macs_until || x->l3 != ETH_LEN || x->ip.hop_limit <= 1)
		return 0;
	w = way_to(to.nid, internal, skb->ifindex);
	if (!w)
		return 0;
	if (!is_fresh(w, to.nid, internal, skb->ifindex, x->now)) {
		ask_way(skb, x, &to, w);
		return 0;
	}
	return (skb->gso_size ? longest(skb, x) : skb->len - x->l3) <= w->mtu &&
	       !lower_hop_limit(skb, x) && write_macs(skb, w->macs) ? w : 0;
}

#endif
