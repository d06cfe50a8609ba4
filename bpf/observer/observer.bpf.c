// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Counts IPv6 packets on each link, in both directions, as they are on the wire: by
 * upper-layer protocol, Nonce option, Locator Update and the state of their checksum. It
 * changes and drops no packet: every verdict is PASS_ON.
 */
#include "types.h"
#include "../lib/parse.h"
#include "../lib/skbuff.h"
#include "../lib/verdict.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* Adds a packet to its class. */
static __always_inline int observe(struct __sk_buff *skb, enum class_flags direction)
{
	struct traffic_class class = {.link = skb->ifindex, .flags = direction}, other = {};
	struct traffic zero = {}, *t;
	struct chain c = {};
	struct ip6 ip = {};
	struct packet_facts is;

	if (skb->protocol != bpf_htons(ETH_P_IPV6))
		return PASS_ON;
	is = facts_of(skb);
	if (read_ip6(skb, is.l3, &ip))
		return PASS_ON; /* shorter than its header: the stack drops it */
	class.checksum = is.ip_summed;
	if (read_chain(skb, &c, is.l3 + IP6_LEN, ip.next)) {
		class.flags |= CLASS_UNREADABLE;
		c.proto = ip.next;
	} else if (c.type == ICMP6_LOCATOR_UPDATE) {
		class.flags |= CLASS_LOCATOR_UPDATE;
	}
	class.flags |= c.nonce.len ? CLASS_NONCE : 0;
	class.next = c.proto;
	t = bpf_map_lookup_elem(&traffic, &class);
	if (!t) { /* another CPU may make it at the same time */
		bpf_map_update_elem(&traffic, &class, &zero, BPF_NOEXIST);
		t = bpf_map_lookup_elem(&traffic, &class);
	}
	if (!t)
		t = bpf_map_lookup_elem(&traffic, &other); /* the loader made it */
	if (t) {
		t->packets += skb->gso_segs ? skb->gso_segs : 1;
		t->bytes += ip6_bytes(skb, is.l3, &ip);
	}
	return PASS_ON;
}

SEC("tc")
int observer_ingress(struct __sk_buff *skb)
{
	return observe(skb, 0);
}

SEC("tc")
int observer_egress(struct __sk_buff *skb)
{
	return observe(skb, CLASS_EGRESS);
}
