/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The records that the daemon gets from the data plane: part of the ABI, as types.h. */
#ifndef ROAM_ILNP_RECORDS_H
#define ROAM_ILNP_RECORDS_H

#include "types.h"

/* Bytes of a packet for which a record has room. */
#define EVENT_DATA_SMALL 256
#define EVENT_DATA 2048
#define EVENT_DATA_LARGE 8192

#define REFUSAL_EACH 1000000000ULL /* ns between packets that are noted */

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

enum event_kind {
	EV_MISS,        /* requests: a local packet to a session address without a session, or beyond the allowance of a pending peer, whole */
	EV_PENDING,      /* pending peers: a nonce packet from an unknown correspondent; whole, where it waits for its sender's validation */
	EV_OTHER_NONCE, /* pending peers: the same with another nonce than the pair's */
	EV_ERROR_IN,    /* pending peers: an ICMPv6 error about a packet that we translated, whole */
	EV_ERROR_OUT,   /* urgent: an ICMPv6 error that our stack sends about a session packet, whole */
	EV_CONTROL,     /* a Locator Update, a reply to a probe or a conntrack resync, whole; urgent: authentic by nonce; pending peers: from a pending peer */
	EV_NONCE,       /* urgent: first nonce of a peer that we contacted */
	EV_LOCATOR,     /* urgent: the right nonce from a locator not in the pair */
	EV_SILENCE,     /* urgent: we send and nothing comes back */
	EV_LIFE,        /* urgent: a dead pair was heard again */
	EV_RULE,        /* urgent: the peer uses the other rule of checksums than was guessed */
	EV_FIRST,       /* requests: a packet of ours leaves with the nonce of a preinstalled entry, whole */
	EV_RETRIED,     /* requests: a first segment whose nonce was refused has left again as plain IPv6, whole as on the wire; without it: it could not */
	EV_PER_FLOW,    /* urgent: the peer's probe asks for TCP to be spread by connection */
	EV_STALL,       /* urgent: TCP sends again after a time-out, or most of what it sends, in a session with several paths */
	EV_QUEUE,       /* urgent: its segments wait on the way, in such a session */
	EV_MORE,        /* urgent: more has come from a locator that is not validated */
	EV_ACKED,       /* pending peers: as EV_PENDING, of a packet that acknowledges our SYN-ACK, which went to that very locator */
};

/* What the daemon is told. */
struct event {
	enum event_kind kind;
	__u32 ifindex;
	__u64 at;
	struct session_key key;
	struct addr remote;     /* as on the wire */
	struct addr local;      /* as on the wire */
	struct nonce nonce;
	struct nonce own_nonce; /* what the pending peer is answered with; EV_MISS, EV_ERROR_OUT: only where they are for one */
	__u16 len;              /* of the packet that follows, from its IPv6 header */
	__u16 encap;          /* its nonce came in UDP */
	enum rule_found rule;   /* EV_PENDING, EV_OTHER_NONCE, EV_RULE */
	__u32 bytes;            /* of the packet; EV_MORE: in all, */
	__u32 packets;          /* and how many; EV_PENDING: that have gone to the one that is answered there */
};

struct packet_event {
	struct event e;
	__u8 data[EVENT_DATA];
};

#endif
