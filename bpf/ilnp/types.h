/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The types that the data plane shares with the daemon: with maps.h, the ABI. Halves of
 * addresses, nonces and checksums are bytes in network order, so that neither side can
 * confuse byte orders. Times are nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef ROAM_ILNP_TYPES_H
#define ROAM_ILNP_TYPES_H

#include "../lib/nonce.h"

/* The number of this layout, see ../lib/abi.h: raised with every change of a struct here, in
 * pendingtypes.h, records.h, listener.h or the other objects of this folder.
 */
enum abi_number { ABI = 36 };

#define MIN_MTU 1280   /* of IPv6, RFC 8200 §5: no stack sends smaller packets on account of a path */
#define MAX_UPLINKS 16
#define MAX_NIDS 4
#define CROSSED_LONGS 4 /* long paths of a session that carry data beside short ones */
#define MAX_REALS 8    /* real addresses of this host to which servers may be bound */
#define MAX_REMOTE 8   /* locators of a correspondent in its entry */
#define MAX_PATHS 16   /* (uplink, remote locator) combinations of one session */
#define FLOW_BUCKETS 64 /* of the TCP connections of one session */
#define BUCKET 8         /* entries of the index in one cache line */
#define UNTIL_SHIFT 26   /* nonce_until of an entry is in units of 2^26 ns, 67 ms: 32 bits for nine years */
#define RATE_SHIFT 8     /* the rate of sending is measured over so many ticks, as a power of two: */
#define RATE_WINDOW (1ULL << (20 + RATE_SHIFT)) /* in ns, about a quarter of a second */

/* The key of a session inside this host: the low halves of its two session addresses. */
struct session_key {
	union half local;
	union half remote;
};

enum host_flags {
	HOST_ACCEPT_ANY = 1, /* any node that sends a nonce may open a session */
	HOST_NID_COLLISIONS = 2,   /* the map nid_collisions has entries, or had */
	HOST_REAL_NIDS = 4,  /* the NIDs are those of addresses of plain IPv6 */
	HOST_OBSTRUCTED = 8, /* the map obstructed has entries */
};

/* Settings of the host. What every packet needs comes first, in one cache line. */
struct host {
	union half session_prefix;
	__u64 index_key[2];        /* with which aliases are hashed for the index */
	enum host_flags flags;
	__u32 device;              /* index of the session device */
	__u64 tick_zero;           /* what was the time, in ns modulo 2^64, when the counter of ticks was 0? 0: unknown */
	union half nids[MAX_NIDS]; /* unused ones are zero */
	__u64 secret[4];           /* two SipHash keys: epoch 0, epoch 1 */
	__u32 epoch;               /* the one in use, 0 or 1 */
	__u16 probe_id;            /* ICMPv6 echo identifier of the daemon, network order */
	__u8 nonce_len;            /* of pending peers */
	__u8 pad;
	__u32 segdev;              /* index of the link that cuts GSO packets; 0: none */
	__u32 segdev_end;          /* and of the far end of segdev */
	struct addr reals[MAX_REALS]; /* of its uplinks; unused ones, at the end, are zero */
};

enum uplink_flags {
	UPLINK_USABLE = 1,   /* it has carrier, router and locator */
	UPLINK_NEXT_HOP = 2, /* next_hop is known valid */
	UPLINK_PHYSICAL = 4, /* a device that may compute checksums of segments, by the rule of IPv6 */
	UPLINK_MACS = 8,     /* macs are known valid */
};

/* One local locator on one link. */
struct uplink {
	union half l64;
	enum uplink_flags flags;
	__u32 ifindex;
	__u32 mtu;
	__u8 pad[4];
	__u8 next_hop[16];
	__u8 macs[12];  /* destination and source of a frame to next_hop */
	__u8 pad2[4];
	__u64 known_at; /* when the daemon last made sure of macs */
};

/* What the programs see of an uplink's next hop. */
struct uplink_live {
	__u64 discovery; /* when neighbour discovery last gave it another hardware address */
	__u64 checked;   /* when the kernel last got a packet to send to it */
};

enum entry_flags {
	ENTRY_INITIATED = 1, /* the peer has not sent its nonce yet */
	ENTRY_PLAIN = 2,     /* it fell back: same locators, plain IPv6, no option */
	ENTRY_DEAD = 4,      /* liveness says that no path works */
	ENTRY_RFC6741 = 8,   /* locators count as zero in TCP and UDP checksums */
	ENTRY_RULE_SOUGHT = 16,   /* the rule is a guess: packets of the peer decide */
	ENTRY_NONCE_ALWAYS = 32,  /* the peer wants the option on every packet */
	ENTRY_REAL_SOCKETS = 64,  /* plain IPv6 may have sockets on the same real addresses */
	ENTRY_BY_ALIAS = 128,     /* the aliases are not the NIDs */
	ENTRY_ENCAP = 256,         /* the path drops options or ICMPv6: data goes without, control in UDP */
	ENTRY_PREINSTALLED = 512,      /* it is preinstalled: packets from outside see it once a packet of ours has used it */
	ENTRY_PER_FLOW = 1024,     /* each TCP connection keeps to its home: flow_tables */
	ENTRY_NAMED = 2048,        /* it is found by its alias and by its NIDs too: connections of the name belong to it */
	ENTRY_PLAIN_FLOWS = 8192,  /* connections that began before the peer had ILNP may stay plain IPv6: plain_flows */
	ENTRY_ICMP_RFC6741 = 16384, /* locators count as zero in the checksums of ICMPv6 that bears our nonce */
	ENTRY_UNRECORDED = 32768,    /* no record names its node: packets without nonce do not count from a place that it only announced */
	ENTRY_COUNTED = 65536,       /* data are counted by path: path_counts */
	ENTRY_RULED = 131072,        /* there are rules for its flows, here or at the peer */
	ENTRY_ANSWERS = 262144,      /* with ENTRY_RULED, the peer has rules: flows that it marks are answered on their path, see answer.h */
	ENTRY_PLACED = 524288,       /* segments take the paths of their bucket: flow_tables */
	ENTRY_NARROW = 1048576,      /* a path has no space for a nonce besides 1280 bytes */
	ENTRY_HELD = 2097152,        /* until the line is written, all goes to the daemon: it sends what has waited */
	ENTRY_CUT = 4194304,         /* paths of unequal shares take turns: GSO packets of TCP are cut first */
	ENTRY_UNCONFIRMED = 4096,  /* it may be forged: packets do not follow the nonce, but the MAC of an update */
};

/* What a packet shows of the stack that sent it. */
enum rule_found {
	RULE_NOT_FOUND,
	RULE_IPV6,    /* valid for the addresses on the wire */
	RULE_RFC6741, /* locators count as zero */
	IS_PROBE,     /* no rule: a probe of Roam; no other known stack sends its like */
	RULE_OTHER,   /* no rule for certain: only packets under the other one are answered */
};

/* What the last probe of a correspondent asks for. */
enum asked {
	ASKED = 1,          /* it has sent a probe */
	ASKED_PER_FLOW = 2, /* which asks for TCP spread by connection, */
	ASKED_COUNTS = 4,   /* for data counted by path, */
	ASKED_ANSWERS = 8,  /* and for flows with rules answered on their paths */
};

/* A path: index of an uplink times 16, plus index in remote[]. */
typedef __u8 path;

/* A bucket of the index: one cache line. The hash of its aliases names two buckets for
 * each session. An entry is 0, or 22 bits of the hash, the index in sessions plus one in
 * 21 bits, and that in session_lives in 21 bits.
 */
struct bucket {
	__u64 entry[BUCKET];
};

/* A session, written by the daemon: three cache lines. The fields that a packet needs most
 * come first, in one of them.
 */
struct session_entry {
	enum entry_flags flags;
	__u32 slot;                     /* index in session_lives */
	__u32 seq;                      /* grows with every write */
	__u32 birth;                    /* differs between users of one slot */
	union half local_nid;
	union half remote_nid;
	__u32 nonce_until;              /* the option goes on every packet until then, see UNTIL_SHIFT */
	__u16 grace;                    /* ms for which unvalidated locators get the rate before the move */
	__u8 n_reserve;                 /* of paths[], behind n_paths: for packets beyond the allowance of unvalidated locators */
	__u8 given;                     /* bit i: a record lists remote[i], which is not validated */
	__u8 n_remote;                  /* entries of remote[] to which packets go, */
	__u8 n_accept;                  /* and behind them, that are only accepted as sources */
	__u8 n_paths;
	__u8 unvalidated;                  /* bit i: remote[i] is not validated */
	__u8 nid_delta[2];              /* sum(NIDs) - sum(aliases), one's complement */
	__u8 n_sources;                 /* further locators to accept, in the map sources */
	path first;                     /* paths[0] again, in this cache line */
	union half remote[MAX_REMOTE];  /* unused ones are zero */
	path paths[MAX_PATHS];
	struct nonce local_nonce;
	struct nonce remote_nonce;
	struct session_key alias;
	__u64 costs;                    /* four bits for each of paths[]: the cost of a byte, path_cost() */
	__u32 rules;                    /* bit i: rule i of the set may match its flows */
	__u8 n_ruled;                   /* of paths[], behind those in reserve: for flows with rules */
	__u8 rules_at;                  /* index of the set's first rule, and RULES_BY_CGROUP */
	__u8 n_answers;                 /* of paths[], behind those for rules: for answers to flows that the peer has marked */
	__u8 pad;
};

/* What the line of a session says of its entry. */
enum settled_flags {
	SETTLED_WRITTEN = 1,       /* the line has a session; all else is 0 without it */
	SETTLED_OUT_UDP = 2,       /* datagrams out need nothing but the line, */
	SETTLED_OUT_PATHS = 4,     /* or besides it a choice among the paths of the entry */
	SETTLED_OUT_TCP = 8,       /* segments out need nothing but the line */
	SETTLED_IN = 16,           /* packets in may go without a nonce, */
	SETTLED_IN_FIRST = 32,     /* and from the locator in the line without a look at the entry */
	SETTLED_RFC6741 = 64,      /* as ENTRY_RFC6741, */
	SETTLED_REAL_SOCKETS = 128, /* ENTRY_REAL_SOCKETS, */
	SETTLED_BY_ALIAS = 256,     /* ENTRY_BY_ALIAS, */
	SETTLED_NAMED = 512,        /* ENTRY_NAMED */
	SETTLED_PREINSTALLED = 1024, /* ENTRY_PREINSTALLED */
	SETTLED_COUNTED = 2048,     /* ENTRY_COUNTED */
	SETTLED_ANSWERS = 4096,     /* and ENTRY_ANSWERS */
};

/* The line of a session in session_lives: all that a packet of a settled session reads
 * and writes. The first half says of the entry what such a packet needs. The daemon writes
 * it, by whole words: settled first becomes 0, then come the others, then settled. The
 * second half has the programs alone as its writers. Ticks are 2^20 ns, about a
 * millisecond, and are compared by difference; 0 stands for never.
 */
struct session_live {
	union half local_nid;
	union half remote_nid;
	union half remote;  /* locator of the first path */
	__u64 settled;      /* from bit 0: edition of the entry, nid_delta, first; from bit 48: settled_flags. Of an entry
			     * with ENTRY_HELD, until it is written: how many packets have gone to the daemon
			     */

	__u32 state;        /* from bit 0: STATE_..., from bit 16: the edition for which these hold */
	__u32 unanswered_tx; /* tick: first send since last_rx that wants an answer; 0: none */
	__u32 last_tx;      /* ticks */
	__u32 last_rx;
	__u64 tx, rx;       /* bytes, and packets from bit TALLY_PACKETS on, not yet in session_details; TALLY_RATED */
};

#define SETTLED_DELTA 16
#define SETTLED_FIRST 32
#define SETTLED_FLAGS 48

/* What the details of a session make of its state: of its next packets */
#define STATE_PAST_NONCES 1 /* those out need no nonce any more, */
#define STATE_HINT 2        /* but follow the correspondent to another locator; */
#define STATE_RETURNED 4    /* those in come soon after a silence, */
#define STATE_BARE 8        /* and are not the first ones without nonce; */
#define STATE_RULE 16       /* the rule of the entry may be taken for certain */
#define STATE_EDITION 16

#define TALLY_PACKETS 36
#define TALLY_RATED (1ULL << 63) /* of tx: its window began with 0. Without it rate_last in session_details is 0 */
#define SLOW 1024                /* bytes in a window below which a session has no rate: a power of two */
#define TALLY_LARGE (1ULL << 62 | 1ULL << (TALLY_PACKETS - 1)) /* half of what the word has room for */

/* What each path has carried of what is divided among several, in bytes times path_cost(). */
struct path_turns {
	__u32 bytes[MAX_PATHS];
};

/* What else the programs know of a session, in session_details: an odd number of cache
 * lines, as entries of 256 bytes would all begin in a quarter of the sets of the cache.
 */
struct session_details {
	__u32 birth;                /* session_entry.birth to which all this belongs */
	__u32 seq;                  /* session_entry.seq to which hint, turns and life_told belong */
	__u64 tx_packets, tx_bytes, rx_packets, rx_bytes;
	__u32 rate_last;            /* bytes sent in the last window of RATE_WINDOW; 0: less than SLOW */
	__u32 last_nonce_rx;        /* ticks: with the session's own remote nonce */
	union half hint;            /* locator that the peer was last seen at; 0: none */
	union half nonce_at;        /* our locator at which TCP or UDP last came with the session's nonce */
	struct nonce learned;       /* first nonce of a peer that we contacted */
	struct path_turns turns;    /* where there are several paths */
	__u32 told_until;           /* see ringbudget.h: when the share of the urgent ring is whole again */
	__u32 updates_until;        /* the same, of Locator Updates alone */
	__u32 with_nonce;           /* received packets of TCP and UDP with a nonce */
	__u32 silence_told;         /* ticks */
	__u32 returned;             /* ticks: first packet after a silence; 0: none lately */
	__u32 stall_told;           /* ticks: when EV_STALL was last reported, */
	__u32 queue_told;           /* and EV_QUEUE */
	__u32 sought_since;         /* ms: first packet whose answer would have shown the rule */
	__u32 copy_sent;            /* ms: last packet that went under both rules */
	__u16 copy_ports[2];        /* ports of a datagram that answers the last one under both rules, */
	__u8 copy_open;             /* set until one has come, */
	__u8 copy_answers;          /* and the number of such answers, with no others between */
	__u8 bare;                  /* packets of TCP or UDP came without nonce */
	__u8 life_told;             /* EV_LIFE was reported */
	__u8 rule;                  /* enum rule_found, of a session whose rule is sought */
	__u8 cuts;                  /* GSO packets of ours have taken the segmentation device */
	__u8 retried;               /* its first segment was retransmitted as plain IPv6 */
	__u8 asks;                  /* enum asked */
};

/* A TCP connection of a session, by its aliases and ports. */
struct flow_key {
	struct session_key alias;
	__u8 ports[8]; /* our port, the peer's, as in a segment that we send; then zeros */
};

/* The locators that a connection of plain IPv6 is bound to. */
struct flow_ends {
	union half local_l64, remote_l64;
};

#define KNOWN_AT_PLACES 1 /* value of known_nids: the name is bound to the locators of its record */
#define KNOWN_ANYWHERE 2  /* the name is its node's wherever that is validated */

/* A path, with the value 1 if a policy of this host obstructs it, and 0 if none is known
 * to. A remote of zero stands for all other paths from that locator.
 */
struct obstruction_key {
	union half local_l64;
	struct addr remote;
};

#define NO_LOCATOR 0xff /* first byte of a multicast address, so no locator begins with it */

/* Distinguishes correspondents with one NID: by their locator, or 0xff, seven bytes of
 * the nonce, and the NID. No locator starts with 0xff, so the two forms cannot collide.
 */
struct collision_key {
	union half local_nid;
	struct addr remote;
};

#endif
