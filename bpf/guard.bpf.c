// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Drops packets with a session address that arrive on any link but those that may
 * deliver them: the uplinks, whose own programs refuse session addresses from
 * outside and translate before these programs see a packet, the session device
 * and the loopback.
 *
 * ilnp_guard covers all links of a network namespace, links that appear later from
 * their first packet on. It takes Linux 6.4. On older kernels ilnp_link_guard is
 * attached to each link that appears. The structs name only the members that are
 * used; their places come from the running kernel's BTF.
 */
#include "lib/foreign.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define KERNEL __attribute__((preserve_access_index))
#define ETH_LEN 14
#define ETH_P_IPV6 0x86dd
#define IP6_LEN 40
#define NF_DROP 0
#define NF_ACCEPT 1
#define MAX_LINKS 4096

/* Set by the loader, as it lies in an address. */
const volatile __u64 session_prefix = 0;

struct {
	/* Which links may deliver packets with session addresses? */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_LINKS);
	__type(key, __u32); /* ifindex */
	__type(value, __u8);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} session_links SEC(".maps");

struct sk_buff;

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

/* The part of the IPv6 header from the next header on. */
struct ends {
	__u8 next;
	__u8 hop_limit;
	__u8 addrs[32];
} __attribute__((packed));

#define ENDS_AT 6

/* Kernels before 6.12 declare the packet as a struct sk_buff; the loader compares the
 * kinds of types, not their names.
 */
extern int bpf_dynptr_from_skb(struct __sk_buff *skb, __u64 flags, struct bpf_dynptr *ptr) __ksym;
extern void *bpf_dynptr_slice(const struct bpf_dynptr *ptr, __u32 offset, void *buffer, __u32 buffer__szk) __ksym;

/* Is one of the two a session address? */
static __always_inline int of_sessions(const struct addr ends[2])
{
	return ends[0].l64.v == session_prefix || ends[1].l64.v == session_prefix;
}

/* Hook NF_INET_PRE_ROUTING, before connection tracking: everything that the
 * stack takes from a link passes here, before it is routed.
 */
SEC("netfilter")
int ilnp_guard(struct bpf_nf_ctx *ctx)
{
	struct addr addrs[2];
	struct bpf_dynptr p;
	struct ends buffer, *ends;
	struct net_device *in;
	__u32 ifindex;

	if (bpf_dynptr_from_skb((struct __sk_buff *)ctx->skb, 0, &p))
		return NF_ACCEPT;
	ends = bpf_dynptr_slice(&p, ENDS_AT, &buffer, sizeof(buffer));
	if (!ends)
		return NF_ACCEPT; /* shorter than a header: the stack drops it */
	__builtin_memcpy(addrs, ends->addrs, sizeof(addrs));
	if (!of_sessions(addrs))
		return NF_ACCEPT;
	in = ctx->state->in;
	ifindex = in ? in->ifindex : 0;
	if (bpf_map_lookup_elem(&session_links, &ifindex))
		return NF_ACCEPT;
	refuse_foreign(DROP_SESSION_LINK, addrs, ifindex, ends->next);
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

/* The same for one link, on its ingress, for kernels without programs on the
 * hooks of netfilter: its first packets may come before the program does.
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
