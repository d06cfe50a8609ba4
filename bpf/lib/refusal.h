/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What programs keep of packets that they refuse: part of the ABI of each object that does. */
#ifndef ROAM_REFUSAL_H
#define ROAM_REFUSAL_H

#include "addr.h"

#define REFUSAL_EACH 1000000000ULL /* ns between two packets that are noted for one reason */

/* A packet that was refused, as a security log wants it (RFC 6741 §11.1). */
struct refusal {
	__u64 at;
	struct addr remote; /* as on the wire */
	struct addr local;
	__u32 ifindex;
	__u8 proto;         /* upper layer */
	__u8 type;          /* ICMPv6 */
	__u8 pad[2];
	__u8 ports[4];      /* TCP and UDP: source and destination; else zero */
	__u32 pad2;
};

#endif
