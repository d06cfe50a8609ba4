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

/* Asks the kernel where a packet to the inside node of a flow goes, and notes the answer. That
 * is none if the neighbour is not known, or the packet would not be forwarded.
 */
__noinline int ask_way(struct __sk_buff *skb, const struct crossing *x, struct flow *f)
{
	struct bpf_fib_lookup way = {.family = AF_INET6, .tot_len = IP6_LEN};
	const struct flow_nonces *nonces;
	struct addr to = {};

	if (!x || !f)
		return 0;
	f->direct_dev = 0;
	f->direct_at = x->now;
	to.l64 = f->internal;
	to.nid = x->ip.dst.nid;
	__builtin_memcpy(way.ipv6_src, &x->ip.src, sizeof(way.ipv6_src));
	__builtin_memcpy(way.ipv6_dst, &to, sizeof(way.ipv6_dst));
	way.ifindex = skb->ifindex;
	way.l4_protocol = x->c.proto;
	if (has_ingress_rules(skb) || bpf_fib_lookup(skb, &way, sizeof(way), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return 0;
	__builtin_memcpy(f->direct_macs, way.dmac, 6);
	__builtin_memcpy(f->direct_macs + 6, way.smac, 6);
	f->direct_mtu = way.tot_len; /* the kernel's answer is the MTU of the route */
	nonces = known_whole(&x->key).nonces;
	if (nonces && way.ifindex == nonces->ifindex) /* else a link to another place than that its packets come from */
		f->direct_dev = way.ifindex;
	return 0;
}

/* Makes a packet of a flow, rewritten for inside, ready to be redirected; 0: it takes the stack.
 * One packet of each flow does so every 100 ms, so that the kernel checks that the neighbour is
 * still there (RFC 4861 §7.3).
 */
static __always_inline int goes_direct(struct __sk_buff *skb, const struct crossing *x, struct flow *f,
				       const struct border *b)
{
	if (!b->direct || x->now > b->macs_until || x->l3 != ETH_LEN || x->ip.hop_limit <= 1)
		return 0;
	if (x->now - f->direct_at >= HOP_CHECK) {
		ask_way(skb, x, f);
		return 0;
	}
	return f->direct_dev && (skb->gso_size ? longest(skb, x) : skb->len - x->l3) <= f->direct_mtu &&
	       !lower_hop_limit(skb, x) && write_macs(skb, f->direct_macs);
}

#endif
