/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Packets in records of a ring buffer. */
#ifndef ROAM_RING_H
#define ROAM_RING_H

#include "addr.h"

/* Copies so many bytes of a packet from an offset into a record. The caller has checked that
 * these are at least one and less than room, a power of two, and that the packet has them. Returns
 * the number of bytes; 0: the kernel refused to load them.
 */
static __always_inline __u32 load_packet(struct __sk_buff *skb, __u32 at, __u64 len, __u8 *to, const __u64 room)
{
	/* The verifier has lost the bounds by now, and before Linux 6.8 it does not
	 * conclude "at least 1" from "not 0": so the mask applies to the length less 1.
	 */
	len--;
	barrier_var(len);
	len = (len & (room - 1)) + 1;
	return bpf_skb_load_bytes(skb, at, to, len) ? 0 : len;
}

#endif
