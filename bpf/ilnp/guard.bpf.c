// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Drops packets with a session address that arrive on links which may not deliver them.
 * Those that may are the uplinks, whose own programs refuse session addresses from
 * outside and translate before these programs see a packet, the session device and the
 * loopback.
 *
 * ilnp_guard covers all links of a network namespace, and later ones from their first
 * packet on. It needs Linux 6.4. On older kernels ilnp_link_guard is attached to each
 * link that appears. The structs name only the members that are used; their offsets come
 * from the BTF of the running kernel.
 */
#include "foreign.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define KERNEL __attribute__((preserve_access_index))
#define ETH_LEN 14
#define ETH_P_IPV6 0x86dd
#define IP6_LEN 40
#define NF_DROP 0
#define NF_ACCEPT 1
#define MAX_LINKS 63
#define TYPE_ID_IN_KERNEL 1 /* BPF_TYPE_ID_TARGET */

/* Set by the loader, in network order. */
const volatile __u64 session_prefix = 0;

/* Interfaces by index. A link keeps its place; 0: the place is free. */
struct link_list {
	__u32 used; /* places beyond are free */
	__u32 ifindex[MAX_LINKS];
};

struct {
	/* Which links may deliver packets with session addresses? */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* begins on a page: the first 15 links are in one cache line */
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct link_list);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} session_links SEC(".maps");

struct sk_buff {
	unsigned char *data;
} KERNEL;

struct net_device {
	int ifindex;
} KERNEL;

struct nf_hook_state {
	struct net_device *in;
} KERNEL;

struct bpf_nf_ctx {
	const struct nf_hook_state *state;
	struct sk_buff *skb;
} KERNEL;

struct ipv6hdr {
	__u8 nexthdr;
	struct in6_addr saddr;
	struct in6_addr daddr;
} KERNEL;

/* The part of the IPv6 header from the next header on. */
struct ends {
	__u8 next;
	__u8 hop_limit;
	__u8 addrs[32];
} __attribute__((packed));

#define ENDS_AT 6

/* Costs nothing, as the loads that follow may fail; other ways to the bytes of a packet
 * need two calls.
 */
extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym;

/* Is one of the two a session address? */
static __always_inline int of_sessions(const struct addr ends[2])
{
	return ends[0].l64.v == session_prefix || ends[1].l64.v == session_prefix;
}

static __always_inline int may_deliver(__u32 ifindex)
{
	__u32 zero = 0;
	struct link_list *l = bpf_map_lookup_elem(&session_links, &zero);

	if (!l)
		return 0;
	for (int i = 0; i < MAX_LINKS && i < l->used; i++) {
		if (l->ifindex[i] == ifindex)
			return 1;
	}
	return 0;
}

static __always_inline __u64 upper_half(const struct in6_addr *a)
{
	return (__u64)a->in6_u.u6_addr32[1] << 32 | a->in6_u.u6_addr32[0];
}

static __always_inline __u64 lower_half(const struct in6_addr *a)
{
	return (__u64)a->in6_u.u6_addr32[3] << 32 | a->in6_u.u6_addr32[2];
}

/* Hook NF_INET_PRE_ROUTING, before connection tracking: all packets that the stack takes
 * from a link pass it before they are routed. The IPv6 header is at the beginning of the
 * packet and in one piece by then.
 */
SEC("netfilter")
int ilnp_guard(struct bpf_nf_ctx *ctx)
{
	struct ipv6hdr *ip = bpf_rdonly_cast(ctx->skb->data, __builtin_btf_type_id(*(struct ipv6hdr *)0, TYPE_ID_IN_KERNEL));
	struct net_device *in;
	struct addr addrs[2];
	__u32 ifindex;

	addrs[0].l64.v = upper_half(&ip->saddr);
	/* Each load has a test before it, so the destination is loaded only if it decides. */
	if (addrs[0].l64.v != session_prefix && upper_half(&ip->daddr) != session_prefix)
		return NF_ACCEPT;
	in = ctx->state->in;
	ifindex = in ? in->ifindex : 0;
	if (may_deliver(ifindex))
		return NF_ACCEPT;
	addrs[0].nid.v = lower_half(&ip->saddr);
	addrs[1].l64.v = upper_half(&ip->daddr);
	addrs[1].nid.v = lower_half(&ip->daddr);
	refuse_foreign(DROP_SESSION_LINK, addrs, ifindex, ip->nexthdr);
	return NF_DROP;
}

static __always_inline int guard_link(struct __sk_buff *skb, __u32 l3)
{
	struct addr addrs[2];
	struct ends ends;

	if (skb->protocol != bpf_htons(ETH_P_IPV6) || bpf_skb_load_bytes(skb, l3 + ENDS_AT, &ends, sizeof(ends)))
		return PASS_ON;
	__builtin_memcpy(addrs, ends.addrs, sizeof(addrs));
	if (!of_sessions(addrs))
		return PASS_ON;
	return refuse_foreign(DROP_SESSION_LINK, addrs, skb->ifindex, ends.next);
}

/* The same for one link, on its ingress, for kernels without programs on the hooks of
 * netfilter: packets that arrive before the program is attached pass unseen.
 */
SEC("tc")
int ilnp_link_guard(struct __sk_buff *skb)
{
	return guard_link(skb, ETH_LEN);
}

SEC("tc")
int ilnp_rawlink_guard(struct __sk_buff *skb)
{
	return guard_link(skb, 0);
}
