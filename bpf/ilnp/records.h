/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The records that the data plane writes for the daemon: part of the ABI, as types.h. */
#ifndef ROAM_ILNP_RECORDS_H
#define ROAM_ILNP_RECORDS_H

#include "../lib/refusal.h"
#include "types.h"

/* Bytes that a record has for a packet. */
#define EVENT_DATA_SMALL 256
#define EVENT_DATA 2048
#define EVENT_DATA_LARGE 8192

enum event_kind {
	EV_MISS,        /* requests: a local packet to a session address without session, or beyond the allowance of a pending peer, whole */
	EV_PENDING,      /* unvalidated: a packet with the nonce of a pending peer; whole, if it waits until that peer is validated */
	EV_OTHER_NONCE, /* unvalidated: the same with another nonce than the session's */
	EV_ERROR_IN,    /* unvalidated: an ICMPv6 error about a packet that we translated, whole */
	EV_ERROR_OUT,   /* urgent: an ICMPv6 error of our stack about a session packet, whole */
	EV_CONTROL,     /* a Locator Update, a reply to a probe or a conntrack resync, whole; urgent: authentic by nonce; unvalidated: of a pending peer */
	EV_NONCE,       /* urgent: first nonce of a peer that we contacted */
	EV_LOCATOR,     /* urgent: the right nonce from a locator that the entry does not list */
	EV_SILENCE,     /* urgent: the session sends and receives nothing */
	EV_LIFE,        /* urgent: a packet came in a dead session */
	EV_RULE,        /* urgent: the peer uses the other checksum rule than the daemon has guessed */
	EV_FIRST,       /* requests: a packet of ours leaves with the nonce of a preinstalled entry, whole */
	EV_RETRIED,     /* requests: a first segment whose nonce was refused was retransmitted as plain IPv6, whole as on the wire; without a packet: that failed */
	EV_PER_FLOW,    /* urgent: the peer's probe asks for TCP to be spread by connection */
	EV_STALL,       /* urgent: TCP retransmits after a time-out, or much of its data, in a session with several paths */
	EV_QUEUE,       /* urgent: segments of such a session wait in queues */
	EV_MORE,        /* urgent: more packets have come from a locator that is not validated, or were refused there */
	EV_ACKED,       /* unvalidated: as EV_PENDING, for a packet that acknowledges our SYN-ACK to that very locator */
};

/* A report to the daemon. */
struct event {
	enum event_kind kind;
	__u32 ifindex;
	__u64 at;
	struct session_key key;
	struct addr remote;     /* as on the wire */
	struct addr local;      /* as on the wire */
	struct nonce nonce;
	struct nonce own_nonce; /* our nonce towards the pending peer; EV_MISS, EV_ERROR_OUT: only if they are for one */
	__u16 len;              /* of the packet that follows, from its IPv6 header */
	__u16 encap;          /* the nonce came in UDP */
	enum rule_found rule;   /* EV_PENDING, EV_OTHER_NONCE, EV_RULE */
	__u32 bytes;            /* of the packet; EV_MORE: of all packets from there, */
	__u32 packets;          /* and their number; EV_PENDING: of packets that have gone to the peer that is answered there;
				 * EV_MISS: 1 if the packet waits for its turn (ENTRY_HELD); EV_STALL, after a time-out: segments that the
				 * connection has delivered, whose ports are `bytes`, ours first
				 */
};

struct packet_event {
	struct event e;
	__u8 data[EVENT_DATA];
};

#endif
