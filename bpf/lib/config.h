/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the loader sets before the verifier sees the program. */
#ifndef ROAM_CONFIG_H
#define ROAM_CONFIG_H

#include "types.h"

#define CSUM_IPV6 (1 << 7) /* BPF_F_IPV6 */

/* Flags of bpf_l4_csum_replace for a changed IPv6 pseudo-header.
 * BPF_F_PSEUDO_HDR, and where the kernel has it BPF_F_IPV6: without the latter
 * the helper spoils CHECKSUM_COMPLETE, which keep_device_sum makes good.
 */
const volatile __u64 csum_flags = 1 << 4;

/* How long a session may send without hearing anything before the daemon is
 * told, and how long before it is told again.
 */
const volatile __u64 silence_after = 2000000000ULL;
const volatile __u64 silence_again = 15000000000ULL;

/* Port that control in UDP goes from and to, as it lies in a packet; 0: none
 * is sent, none is taken.
 */
const volatile __u16 encap_port = 0;

/* Number of buckets of the index, a power of two, less one. */
const volatile __u32 index_mask = 0;

#endif
