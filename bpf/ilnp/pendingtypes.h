/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* More of the ABI: pending peers, allowances of locators that are not validated, and
 * rates.
 */
#ifndef ROAM_ILNP_PENDINGTYPES_H
#define ROAM_ILNP_PENDINGTYPES_H

#include "types.h"

/* How the nonce of a pending peer came: in UDP the last time, as on paths that drop
 * options; in UDP at any time.
 */
#define PENDING_CAME 1
#define PENDING_SPOKE 2

#define OTHERS 3 /* pending peers of one NID besides the one that is answered */

/* A pending peer with the NID that is not answered under it: it is where the NID is not
 * known to be.
 */
struct other {
	__u64 nonce;         /* nonce_id() of its nonce; 0: none */
	union half l64;      /* where it was first seen */
	__u64 encap;       /* its nonce came in UDP there */
};

/* Pending peers with one NID. The first peer that is where a record or the session has
 * the NID, or whose NID has no record, is answered under the NID; a second nonce neither
 * moves nor delays it.
 */
struct pending_peer {
	union half remote_l64;
	union half local_l64;
	union half also; /* another locator that it has sent its nonce from; 0: none */
	__u64 heard;     /* when a packet with its nonce last came from remote_l64 */
	struct nonce remote_nonce; /* len 0: no peer is answered */
	__u32 ifindex;
	__u16 epoch;
	__u8 encap;                /* PENDING_CAME and PENDING_SPOKE */
	__u8 cuts;                   /* GSO packets to it have taken the segmentation device */
	__u64 since;                 /* when the first nonce came */
	__u64 syn_ack;               /* hash of the last SYN-ACK that went to remote_l64; 0: none */
	__u64 rx_bytes, rx_packets, tx_bytes, tx_packets; /* since it was first seen at remote_l64 */
	enum rule_found rule;
	__u32 given;                 /* a record lists remote_l64 */
	__u32 next;                  /* index of others to be replaced next */
	__u32 guesses;               /* acknowledgements of other numbers than the SYN-ACK's */
	struct other others[OTHERS];
};

/* A locator of a session that is not validated. */
struct allowance_key {
	union half l64;
	__u32 slot;
	__u32 birth;
};

struct allowance {
	__u64 since;      /* of the first packet from or to it */
	__u64 rx_bytes;
	__u64 tx_bytes;
	__u64 tx_packets;
	__u64 rx_packets;
};

#define RATE_PENDING 0 /* first packets of pending peers */
#define RATE_MISSES 1    /* first packets of local programs to identifiers that nobody knows */
#define RATE_REPLIES 2   /* answers to probes, of pending peers */
#define RATES 3

/* Packets of a kind in this window and the one before. */
struct rate_window {
	__u64 since; /* when the present window began */
	__u32 last;  /* packets in the window before */
	__u32 now;   /* in the present one so far */
};

#endif
