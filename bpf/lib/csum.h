/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* One's-complement arithmetic. Sums are taken over 16-bit words as they lie in
 * memory, which is how the kernel takes them too.
 */
#ifndef ROAM_CSUM_H
#define ROAM_CSUM_H

#include "config.h"

#define TCP_CSUM_AT 16
#define UDP_CSUM_AT 6
#define ICMP6_CSUM_AT 2

static __always_inline __u32 sum_fold(__u32 s)
{
	s = (s & 0xffff) + (s >> 16);
	return (s & 0xffff) + (s >> 16);
}

static __always_inline __u32 sum_half(union half h)
{
	return sum_fold((h.v & 0xffff) + (h.v >> 16 & 0xffff) + (h.v >> 32 & 0xffff) + (h.v >> 48));
}

/* Adds two halves, as v has them, and more, which is at most 0xffff: a sum of 18 bits, which
 * is still to be folded. Clang copies a union byte by byte.
 */
static __always_inline __u32 add_halves(__u64 a, __u64 b, __u32 more)
{
	__u64 s = (a & 0xffffffff) + (a >> 32) + (b & 0xffffffff) + (b >> 32) + more;

	return (s & 0xffff) + (s >> 16 & 0xffff) + (s >> 32);
}

static __always_inline __u32 sum_halves(__u64 a, __u64 b, __u32 more)
{
	return sum_fold(add_halves(a, b, more));
}

static __always_inline __u32 sum_bytes(const __u8 b[2])
{
	return b[0] | (__u32)b[1] << 8; /* little endian: the bytes as a word in memory */
}

/* Minus, in one's complement. */
static __always_inline __u32 sum_neg(__u32 s)
{
	return ~sum_fold(s) & 0xffff;
}

/* Adds diff to the transport checksum of the upper-layer header at l4. The
 * kernel knows whether that checksum is finished or only the seed that a device is
 * to finish; a program cannot tell the two apart.
 */
static __always_inline int csum_adjust(struct __sk_buff *skb, __u32 l4, __u8 proto, __u32 diff)
{
	__u64 flags = csum_flags;

	switch (proto) {
	case IPPROTO_TCP:
		return bpf_l4_csum_replace(skb, l4 + TCP_CSUM_AT, 0, diff, flags);
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
		return bpf_l4_csum_replace(skb, l4 + UDP_CSUM_AT, 0, diff, flags | BPF_F_MARK_MANGLED_0);
	case IPPROTO_ICMPV6:
		return bpf_l4_csum_replace(skb, l4 + ICMP6_CSUM_AT, 0, diff, flags);
	case IPPROTO_DCCP:
		return bpf_l4_csum_replace(skb, l4 + UDP_CSUM_AT, 0, diff, flags);
	}
	return 0; /* no known checksum over addresses */
}

/* The state of the checksum of a packet, ip_summed of the kernel. */
enum checksum_state {
	CHECKSUM_NONE,
	CHECKSUM_UNNECESSARY,
	CHECKSUM_COMPLETE, /* a device has summed the whole packet */
	CHECKSUM_PARTIAL,  /* the field holds the sum of the pseudo-header, and a device is to finish it */
	CHECKSUM_UNKNOWN,  /* the kernel does not show it */
};

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym __weak;

static __always_inline enum checksum_state checksum_state(struct __sk_buff *skb)
{
	const __u8 *packet;
	__u16 at = summed_at;

	if (!at)
		return CHECKSUM_UNKNOWN;
	packet = bpf_cast_to_kern_ctx(skb);
	return packet[at] >> summed_shift & 3;
}

/* Does what csum_adjust does for TCP and UDP, with field the checksum in the linear part
 * of the packet. The change of the field takes back that of the addresses, so a device's
 * sum of the whole packet stays true.
 */
static __always_inline void csum_adjust_at(__u16 *field, __u8 proto, __u32 diff, enum checksum_state state)
{
	__u32 s = *field;

	if (proto == IPPROTO_UDP && !s)
		return;
	if (state == CHECKSUM_PARTIAL)
		s = sum_fold(s + diff);
	else
		s = ~sum_fold(0xffff + (~s & 0xffff) + diff) & 0xffff;
	*field = proto == IPPROTO_UDP && !s ? 0xffff : s;
}

/* Has no device summed the whole packet, for certain? */
static __always_inline int is_summed_by_nobody(enum checksum_state state)
{
	return state != CHECKSUM_COMPLETE && state != CHECKSUM_UNKNOWN;
}

#endif
