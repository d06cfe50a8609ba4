/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* IPv6 addresses as locator and identifier. The halves are bytes in network order, so
 * that neither a program nor its loader can confuse byte orders.
 */
#ifndef ROAM_ADDR_H
#define ROAM_ADDR_H

#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

/* Upper or lower half of an address. */
union half {
	__u8 b[8];
	__u64 v;
};

struct addr {
	union half l64;
	union half nid;
};

#endif
