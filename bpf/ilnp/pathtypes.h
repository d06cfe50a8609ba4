/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What is counted along paths, and reported in answers to probes. */
#ifndef ROAM_ILNP_PATHTYPES_H
#define ROAM_ILNP_PATHTYPES_H

#include "../lib/addr.h"

/* A path: two addresses on the wire. */
struct path_key {
	struct addr near, far; /* of this host, and of the peer */
};

/* Whole segments of TCP and datagrams of UDP along a path, each one of a GSO packet by
 * itself, and the bytes behind their headers.
 */
struct path_counts {
	__u32 epoch; /* ticks: when counting began */
	__u32 pad;
	__u64 rx_packets, rx_bytes;
	__u64 tx_packets, tx_bytes;
};

#endif
