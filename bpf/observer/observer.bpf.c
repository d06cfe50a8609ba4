// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Counts IPv6 packets on each link, in both directions, as they are on the wire: by
 * upper-layer protocol, Nonce option, Locator Update and the state of their checksum. It
 * changes and drops no packet: every verdict is PASS_ON.
 */
#include "types.h"
#include "../lib/parse.h"
#include "../lib/verdict.h"
#include <bpf/bpf_core_read.h>

char _license[] SEC("license") = "Dual BSD/GPL";

/* The members that __sk_buff does not show. Their offsets come from the BTF of the running
 * kernel: the context of a tc program is the kernel's own sk_buff, and a load by
 * bpf_probe_read_kernel() is the only one that Linux 6.1 permits.
 */
struct sk_buff {
	__u16 network_header;
	__u16 mac_header;
	__u8 ip_summed : 2;
} __attribute__((preserve_access_index));

/* Adds a packet to its class. */
static __always_inline int observe(struct __sk_buff *skb, enum class_flags direction)
{
	const struct sk_buff *kernel = (const void *)skb;
	struct traffic_class class = {.link = skb->ifindex, .flags = direction}, other = {};
	struct traffic zero = {}, *t;
	struct chain c = {};
	struct ip6 ip = {};
	__u16 network = 0, mac = 0;
	__u32 l3, len;

	if (skb->protocol != bpf_htons(ETH_P_IPV6))
		return PASS_ON;
	/* The data of a tc program begins at the MAC header, where the link has one. */
	bpf_core_read(&network, sizeof(network), &kernel->network_header);
	bpf_core_read(&mac, sizeof(mac), &kernel->mac_header);
	l3 = (__u16)(network - mac) & 0xff; /* as the verifier wants a bound */
	if (read_ip6(skb, l3, &ip))
		return PASS_ON; /* shorter than its header: the stack drops it */
	class.checksum = BPF_CORE_READ_BITFIELD_PROBED(kernel, ip_summed);
	if (read_chain(skb, &c, l3 + IP6_LEN, ip.next)) {
		class.flags |= CLASS_UNREADABLE;
		c.proto = ip.next;
	} else if (c.type == ICMP6_LOCATOR_UPDATE) {
		class.flags |= CLASS_LOCATOR_UPDATE;
	}
	if (c.nonce.len)
		class.flags |= CLASS_NONCE;
	class.next = c.proto;
	len = IP6_LEN + ((__u32)ip.payload_len[0] << 8 | ip.payload_len[1]);
	if (len == IP6_LEN || len > skb->len - l3)
		len = skb->len - l3; /* otherwise the frame may end with padding */
	t = bpf_map_lookup_elem(&traffic, &class);
	if (!t) { /* another CPU may make it at the same time */
		bpf_map_update_elem(&traffic, &class, &zero, BPF_NOEXIST);
		t = bpf_map_lookup_elem(&traffic, &class);
	}
	if (!t)
		t = bpf_map_lookup_elem(&traffic, &other); /* the loader made it */
	if (t) {
		t->packets += skb->gso_segs ? skb->gso_segs : 1;
		t->bytes += len;
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
