/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* More of the ABI: pending peers, locators that are not validated, and how many
 * packets of a kind come at a time.
 */
#ifndef ROAM_ILNP_PENDINGTYPES_H
#define ROAM_ILNP_PENDINGTYPES_H

#include "types.h"

/* Of a pending peer's nonce: it came in UDP the last time, as where the path drops
 * options; it came so at any time.
 */
#define PENDING_CAME 1
#define PENDING_SPOKE 2

#define OTHERS 3 /* pending peers of one NID that are kept besides the one that is answered */

/* Another pending peer with the NID: one where its NID is not known to be. */
struct other {
	__u64 nonce;         /* nonce_id() of it; 0: none */
	union half l64;      /* where it was last seen */
	__u64 encap;       /* its nonce came in UDP there */
};

/* Pending peers with one NID. The first one that is where a record or the session has
 * its NID, or has an NID without a record, is answered under that NID; a second nonce
 * neither moves nor delays it.
 */
struct pending_peer {
	union half remote_l64;
	union half local_l64;
	union half first_remote; /* locators of its first packet: our nonce hangs on them, */
	union half first_local;  /* so that it is one nonce for all of its paths */
	struct nonce remote_nonce; /* len 0: none is answered */
	__u32 ifindex;
	__u16 epoch;
	__u8 encap;                /* PENDING_CAME and PENDING_SPOKE */
	__u8 cuts;                   /* GSO packets to it have taken the segmentation device */
	__u64 since;                 /* when the first nonce came */
	__u64 syn_ack;               /* hash of the last SYN-ACK that went to remote_l64; 0: none */
	__u64 rx_bytes, rx_packets, tx_bytes, tx_packets; /* since it was seen at remote_l64 */
	enum rule_found rule;
	__u32 given;                 /* a record names remote_l64 */
	__u32 next;                  /* of others, to be replaced */
	__u32 guesses;               /* acknowledgements that were not of the SYN-ACK */
	struct other others[OTHERS];
};

/* A locator of a session that is not validated. */
struct allowance_key {
	union half l64;
	__u32 slot;
	__u32 birth;
};

struct allowance {
	__u64 since;      /* when it was first heard from, or sent to */
	__u64 rx_bytes;
	__u64 tx_bytes;
	__u64 tx_packets;
	__u64 rx_packets;
};

#define RATE_PENDING 0 /* first packets of pending peers */
#define RATE_MISSES 1    /* first packets of local programs to identifiers that nobody knows */
#define RATE_REPLIES 2   /* answers to probes, of pending peers */
#define RATES 3

/* How many of a kind come at a time. */
struct rate_window {
	__u64 since; /* when the present window began */
	__u32 last;  /* in the window before */
	__u32 now;   /* in this one so far */
};

#endif
