/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The compact path: whole TCP and UDP packets of settled sessions, whose header stands
 * right behind that of IPv6 and lies in the linear part of the packet. A session is
 * settled while its packets need neither a nonce, nor a choice or a report. Between the
 * packets of a host the processor forgets code, so this path is one short line, which
 * calls only what every such packet needs. Whatever else a packet may be, the result is
 * UNSETTLED before anything is written, and the packet takes the full path. Both paths
 * give the same result: TestCompactPath compares them.
 */
#ifndef ROAM_ILNP_SETTLED_H
#define ROAM_ILNP_SETTLED_H

#include "inbound.h"
#include "line.h"
#include "outbound.h"

/* The protocols of the compact path, as bits: the verifier follows each alternative of a
 * comparison.
 */
#define STRAIGHT_PROTOS (1U << IPPROTO_TCP | 1U << IPPROTO_UDP)

/* Is this a whole packet of TCP or UDP, with its header in the linear part, and no first
 * segment?
 */
static __always_inline int is_straight(const struct __sk_buff *skb, const __u8 *upper, __u8 next)
{
	const __u8 *end = (void *)(long)skb->data_end;

	if (next == IPPROTO_UDP)
		return upper + 8 <= end;
	return next == IPPROTO_TCP && upper + 20 <= end && !(upper[TCP_FLAGS_AT] & TCP_SYN);
}

/* Has the state of the session these bits, and not those, and is it that of the entry? */
static __always_inline int has_state(const struct session_live *l, __u64 word, __u32 wanted, __u32 unwanted)
{
	__u32 differs = *(const volatile __u32 *)&l->state ^ ((__u32)word << STATE_EDITION | wanted);

	return !(differs & (-1U << STATE_EDITION | wanted | unwanted));
}

/* The checksum in the header behind that of IPv6. */
static __always_inline __u16 *checksum_of(struct ip6 *ip, __u8 proto)
{
	return (void *)(ip + 1) + (proto == IPPROTO_UDP ? UDP_CSUM_AT : TCP_CSUM_AT);
}

#endif
