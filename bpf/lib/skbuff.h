/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the kernel knows of a packet and __sk_buff does not show. The context of a tc
 * program is the kernel's own sk_buff; the offsets of its members come from the BTF of the
 * running kernel.
 */
#ifndef ROAM_SKBUFF_H
#define ROAM_SKBUFF_H

#include "addr.h"
#include <bpf/bpf_core_read.h>

struct sk_buff {
	__u16 network_header;
	__u16 mac_header;
	__u8 ip_summed : 2;
} __attribute__((preserve_access_index));

/* Returns the context as a pointer whose members a program may load. Since Linux 6.2. */
extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym __weak;

struct packet_facts {
	__u32 l3;       /* offset of the network header from the data of a tc program, which begins
			 * at the MAC header where the link has one; at most 255 */
	__u8 ip_summed; /* CHECKSUM_NONE 0, _UNNECESSARY 1, _COMPLETE 2, _PARTIAL 3 */
};

/* Loads the facts, or copies each by a helper, which costs some 20 ns more. */
static __always_inline struct packet_facts facts_of(struct __sk_buff *skb)
{
	const struct sk_buff *kernel = (const void *)skb;
	struct packet_facts facts = {};
	__u16 network = 0, mac = 0;

	if (bpf_cast_to_kern_ctx) {
		kernel = bpf_cast_to_kern_ctx(skb);
		network = kernel->network_header;
		mac = kernel->mac_header;
		facts.ip_summed = BPF_CORE_READ_BITFIELD(kernel, ip_summed);
	} else {
		bpf_core_read(&network, sizeof(network), &kernel->network_header);
		bpf_core_read(&mac, sizeof(mac), &kernel->mac_header);
		facts.ip_summed = BPF_CORE_READ_BITFIELD_PROBED(kernel, ip_summed);
	}
	facts.l3 = (__u16)(network - mac) & 0xff; /* as the verifier wants a bound */
	return facts;
}

#endif
