/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What is counted along paths, and reported in answers to probes; and where connections go. */
#ifndef ROAM_ILNP_PATHTYPES_H
#define ROAM_ILNP_PATHTYPES_H

#include "types.h"

/* A path: two addresses on the wire. */
struct path_key {
	struct addr near, far; /* of this host, and of the peer */
};

enum { COST_TOLD = 256 };

/* Whole segments of TCP and datagrams of UDP along a path, each one of a GSO packet by
 * itself, and the bytes behind their headers.
 */
struct path_counts {
	__u32 epoch; /* ticks: when counting began */
	__u32 told;  /* what the path costs by the peer's measure, as its last probe said, and COST_TOLD; 0: none did */
	__u64 rx_packets, rx_bytes;
	__u64 tx_packets, tx_bytes;
};

/* A session that has used a slot. */
struct slot_user {
	__u32 slot, birth;
};

/* The key of the MACs of the peer's Locator Updates, in a keyed session. */
struct update_key {
	__u64 key[2];  /* SipHash; the daemon writes it, */
	__u64 counter; /* and the programs: of the newest update with a right MAC, */
	__u64 acks;    /* and of the newest acknowledgement */
};

/* A table of a session that has used a slot, for one entry of it: its paths are named by their places there. */
struct table_key {
	__u32 slot, birth;
	__u32 table; /* 0: of TCP without a rule; else the index of a rule in flow_rules, plus 1 */
	__u32 seq;
};

/* Where flows go, each by the bucket of its ports. The daemon writes which paths they take, the programs the
 * rest.
 */
struct flow_table {
	__u64 alone;               /* bit b: packets of bucket b take one path; the others take turns */
	__u64 crossed;             /* bit b: those of bucket b take turns among the paths of across */
	__u16 several;             /* bit i: among those of the others is paths[i] of the entry */
	__u16 across;              /* bit i: the same, of those that are crossed */
	__u16 longs;                /* bit i: paths[i] is a long one: see cross.h, */
	__u16 waits[CROSSED_LONGS]; /* ms: and for how long data may be missing of which some come by each of them */
	__u8 ways[FLOW_BUCKETS];   /* index of the path to which first segments keep, and from bit 4 on of that one path */
	__u16 costs[MAX_PATHS];    /* of a byte, for the turns */
	__u32 bytes[FLOW_BUCKETS]; /* that segments of ours had, with headers */
	struct path_turns turns;   /* of those with several paths; the first one's are compared with */
};

/* A TCP connection of a session that has used a slot. */
struct crossed_key {
	__u32 slot, birth;
	__be16 near_port, far_port;
};

/* A TCP connection of which data come by a long path, too: see cross.h. */
struct crossed_flow {
	__u32 both;  /* ms: when data last came by a short path, or the peer asked, */
	__u32 at;    /* by the long one, */
	__u32 wait;  /* and for how long data may be missing then */
	__u32 ack;   /* up to where all was there in our last segment with blocks, in host order, */
	__u32 moved; /* ms: and when that was first so, or newer data came by the long path */
	__u32 newest; /* the end of the newest data that did, in host order, */
	__u32 came;   /* if any have */
};

#endif
