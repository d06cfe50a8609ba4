/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The types that the data plane shares with the daemon: with maps.h, the ABI.
 * Halves of addresses, nonces and checksums are kept as bytes in network
 * order, so that neither side can confuse byte orders. Times are nanoseconds
 * of CLOCK_MONOTONIC.
 */
#ifndef ROAM_ILNP_TYPES_H
#define ROAM_ILNP_TYPES_H

#include "../lib/nonce.h"

/* The number of this layout, see ../lib/abi.h: raised with every change of a struct here, in
 * pendingtypes.h, records.h, listener.h or the other objects of this folder.
 */
enum abi_number {
	ABI = 22,
};

#define MAX_UPLINKS 16
#define MAX_NIDS 4
#define MAX_REALS 8    /* addresses of this host that servers may be bound to */
#define MAX_REMOTE 8   /* locators of a correspondent in its entry */
#define MAX_PATHS 16   /* (uplink, remote locator) combinations of one pair */
#define BUCKET 8         /* entries of the index in one cache line */
#define RATE_WINDOW 250000000ULL /* ns over which the rate of sending is taken */

/* A session inside this host: the low halves of its two session addresses. */
struct session_key {
	union half local;
	union half remote;
};

enum host_flags {
	HOST_ACCEPT_ANY = 1, /* who shows a nonce may open a session */
	HOST_NID_COLLISIONS = 2,   /* the map of that name is not empty, or was not */
	HOST_REAL_NIDS = 4,  /* the NIDs are those of addresses of plain IPv6 */
	HOST_OBSTRUCTED = 8, /* the map obstructed is not empty */
};

/* Settings of the host. */
struct host {
	union half session_prefix;
	union half nids[MAX_NIDS]; /* unused ones are zero */
	__u64 secret[4];           /* two SipHash keys: epoch 0, epoch 1 */
	__u32 epoch;               /* the one in use, 0 or 1 */
	enum host_flags flags;
	__u16 probe_id;            /* ICMPv6 echo identifier of the daemon, network order */
	__u8 nonce_len;            /* of pending peers */
	__u8 pad;
	__u32 segdev;              /* index of the link that cuts GSO packets; 0: none */
	__u64 index_key[2];        /* with which aliases are hashed for the index */
	struct addr reals[MAX_REALS]; /* of its uplinks; unused ones, at the end, are zero */
};

enum uplink_flags {
	UPLINK_USABLE = 1,   /* carrier, router and locator are there */
	UPLINK_NEXT_HOP = 2, /* next_hop is known valid */
	UPLINK_PHYSICAL = 4, /* a device that may sum segments by itself, by the rule of IPv6 */
};

/* One local locator on one link. */
struct uplink {
	union half l64;
	enum uplink_flags flags;
	__u32 ifindex;
	__u32 mtu;
	__u32 pad;
	__u8 next_hop[16];
};

enum entry_flags {
	ENTRY_INITIATED = 1, /* the peer has shown no nonce yet */
	ENTRY_PLAIN = 2,     /* fell back: same locators, plain IPv6, no option */
	ENTRY_DEAD = 4,      /* liveness says that no path works */
	ENTRY_RFC6741 = 8,   /* locators count as zero in TCP and UDP checksums */
	ENTRY_RULE_SOUGHT = 16,   /* that is a guess: what the peer sends decides */
	ENTRY_NONCE_ALWAYS = 32,  /* the peer wants the option on every packet */
	ENTRY_REAL_SOCKETS = 64,  /* plain IPv6 may have sockets on the same addresses */
	ENTRY_BY_ALIAS = 128,     /* the aliases are not the NIDs */
	ENTRY_ENCAP = 256,         /* the path drops options or ICMPv6: data without, control in UDP */
	ENTRY_PREINSTALLED = 512,      /* it is preinstalled: there only once a packet of ours has used it */
	ENTRY_PER_FLOW = 1024,     /* TCP is spread by connection, not by packet, over the paths that are not long */
	ENTRY_NAMED = 2048,        /* by handle, and by its NIDs besides: the name's connections are its too */
	ENTRY_PLAIN_FLOWS = 8192,  /* connections that began before the peer had ILNP may stay plain IPv6: plain_flows */
	ENTRY_ICMP_RFC6741 = 16384, /* locators count as zero in the checksums of ICMPv6 that bears our nonce */
	ENTRY_UNRECORDED = 32768,    /* no record names its node: without nonce nothing counts from where it only says to be */
	ENTRY_UNCONFIRMED = 4096,  /* the nonce may be a forgery's, as no probe was answered with it: it is followed nowhere */
};

/* What a packet shows of its sender's stack. */
enum rule_found {
	RULE_NOT_FOUND,
	RULE_IPV6,    /* valid for the addresses on the wire */
	RULE_RFC6741, /* locators count as zero */
	IS_PROBE,     /* no rule: it asks as Roam does, and no other stack we know of */
	RULE_OTHER,   /* no rule for certain: only what goes under the other one is answered */
};

/* What its last probe shows of a correspondent. */
enum asked {
	ASKED = 1,          /* it has sent one */
	ASKED_PER_FLOW = 2, /* and wants TCP spread by connection */
};

/* One way to send: index of an uplink times 16, plus index in remote[]. */
typedef __u8 path;

/* Where sessions are, by a hash of their aliases: each in one of two such
 * buckets. An entry is 0, or 22 bits of the hash, the index in pairs plus one
 * in 21 bits, and that in session_lives in 21 bits. One bucket is a cache line.
 */
struct bucket {
	__u64 entry[BUCKET];
};

/* A session, written by the daemon. What a packet needs most comes first, in
 * one cache line.
 */
struct session_entry {
	enum entry_flags flags;
	__u32 slot;                     /* index in session_lives */
	__u32 seq;                      /* grows with every write */
	__u32 birth;                    /* differs between users of one slot */
	union half local_nid;
	union half remote_nid;
	__u64 nonce_until;              /* the option goes on every packet until then */
	__u8 n_remote;                  /* of remote[], that are sent to */
	__u8 n_accept;                  /* behind them, that are only accepted as sources */
	__u8 n_paths;
	__u8 unvalidated;                  /* bit i: remote[i] is not validated */
	__u8 nid_delta[2];              /* sum(NIDs) - sum(aliases), one's complement */
	__u8 n_sources;                 /* further ones to accept, in the map of that name */
	path first;                     /* paths[0] once more, in this cache line */
	union half remote[MAX_REMOTE];  /* unused ones are zero */
	path paths[MAX_PATHS];
	struct nonce local_nonce;
	struct nonce remote_nonce;
	struct session_key alias;
	__u32 grace;                    /* ns for which unvalidated locators get the rate before */
	__u16 long_paths;               /* bit i: TCP does not take paths[i], as others are much shorter */
	__u8 n_reserve;                 /* of paths[], behind the n_paths: for what unvalidated locators may not get */
	__u8 given;                     /* bit i: a record names remote[i], not the peer alone; of unvalidated ones */
	__u64 costs;                    /* four bits for each of paths[]: what a byte counts there, path_cost(); 0 while any is long */
};

/* What the data plane saw of a session, written by it alone. What every packet
 * touches comes first: on its way out the first 64 bytes, in the next 64 too.
 * Ticks are 2^20 ns, about a millisecond.
 */
struct session_live {
	__u32 birth;                /* session_entry.birth that all this is about */
	__u32 path_seq;             /* session_entry.seq for which path_bytes counts */
	__u32 hint_seq;             /* session_entry.seq for which hint is valid */
	__u32 life_seq;             /* session_entry.seq for which SEEN_LIFE was told */
	__u64 unanswered_tx;        /* first send since last_rx; 0: none */
	__u64 last_tx;
	__u64 tx_packets, tx_bytes;
	__u64 rate_since;           /* when the present window of sending began */
	__u32 rate_last;            /* bytes of the window before */
	__u32 rate_now;             /* bytes of this one so far */

	__u64 last_rx;
	__u64 last_nonce_rx;        /* with the session's own remote nonce */
	__u64 rx_packets, rx_bytes;
	__u32 with_nonce;           /* packets of TCP and UDP that came, */
	__u32 without_nonce;        /* apart */
	__u32 silence_told;         /* ticks */
	__u32 returned;             /* ticks: first packet after a silence, 0: none of late */
	union half hint;            /* locator that the peer was last seen at */
	__u8 rule;                  /* enum rule_found, of a session whose rule is sought */
	__u8 cuts;                  /* GSO packets of ours have taken the segmentation device */
	__u8 retried;               /* its first segment was sent again as plain IPv6 */
	__u8 pad[1];
	enum asked asks;

	__u32 path_bytes[MAX_PATHS]; /* spread over each path, where there are several, at its cost */
	struct nonce learned;       /* first nonce of a peer that we contacted */
	__u32 sought_since;         /* ms: first packet whose answer would show the rule */
	__u32 copy_sent;            /* ms: last packet that went under both rules */
	__u64 told_until;           /* ringbudget.h: when what the daemon was told of is paid for */
	__u32 stall_told;           /* ticks: when the daemon last heard of a time-out of TCP, */
	__u32 queue_told;           /* and of a queue */
	__u64 updates_until;        /* as told_until, of Locator Updates alone */
	union half nonce_at;        /* our locator at which TCP or UDP last came with the pair's nonce */
	__u16 copy_ports[2];        /* of a datagram that answers the last one that went under both rules, */
	__u8 copy_open;             /* of which there was none yet, */
	__u8 copy_answers;          /* and how many there were for such ones, and no others */
	__u8 pad2[2];               /* an entry begins with a cache line */
};

/* A TCP connection of a session, by its aliases and ports. */
struct flow_key {
	struct session_key alias;
	__u8 ports[8]; /* ours, the peer's, as in a segment that we send; then zeros */
};

/* The locators that a connection of plain IPv6 is bound to. */
struct flow_ends {
	union half local_l64, remote_l64;
};

#define KNOWN_AT_PLACES 1 /* of a known NID: its name is where its record says, */
#define KNOWN_ANYWHERE 2  /* or wherever it is validated */

/* A path that a policy of this host obstructs, or none of which is known that, if the
 * value is 0; with a remote of zero, all other paths from that locator.
 */
struct obstruction_key {
	union half local_l64;
	struct addr remote;
};

#define NONCE_KEY 0xff /* first byte of a multicast address, so of no locator */

/* Tells two correspondents with one NID apart: by where they are, or by their
 * nonce, whose first seven bytes then stand behind NONCE_KEY for the locator.
 */
struct collision_key {
	union half local_nid;
	struct addr remote;
};

#endif
