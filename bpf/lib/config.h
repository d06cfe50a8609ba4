/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Constants of any object that the loader sets before the verifier runs. */
#ifndef ROAM_CONFIG_H
#define ROAM_CONFIG_H

#include "addr.h"

#define CSUM_IPV6 (1 << 7) /* BPF_F_IPV6 */

/* Flags of bpf_l4_csum_replace for a changed IPv6 pseudo-header: BPF_F_PSEUDO_HDR, and
 * BPF_F_IPV6 where the kernel has it. Without BPF_F_IPV6 the helper spoils the sum of
 * CHECKSUM_COMPLETE packets, which the object has to keep true itself.
 */
const volatile __u64 csum_flags = 1 << 4;

/* Where the kernel's own packet has the state of its checksum: bits from summed_shift on of
 * the byte at summed_at. 0: the kernel does not let programs look there.
 */
const volatile __u16 summed_at = 0;
const volatile __u8 summed_shift = 0;

#endif
