/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The types and maps that a site border router shares with the daemon: its ABI.
 * docs/maps.md says who writes each map, and how long entries live.
 */
#ifndef ROAM_SBR_TYPES_H
#define ROAM_SBR_TYPES_H

#include "../lib/abi.h"
#include "../lib/nonce.h"
#include "../lib/refusal.h"

/* The number of this layout, see ../lib/abi.h. */
enum abi_number { ABI = 10 };

#define MAX_SITES 16 /* locators of providers */
#define MAX_GROUP 8  /* of them, that one internal locator is rewritten to */
#define MAX_LABEL 8

/* What happens to a packet of no flow. */
enum fallback {
	FALLBACK_TRANSLATE, /* to and from the most preferred locator */
	FALLBACK_FORWARD,   /* as it is */
	FALLBACK_DROP,
};

struct border {
	enum fallback fallback;
	__u32 tcp_packets; /* TCP is divided by packets, not by connections */
	__u64 macs_until;  /* when hardware addresses are to be renewed by the daemon, in ns */
	__u64 locator_bits; /* locator_bit of each locator of the policy */
	__u32 direct;       /* packets that come in need not pass the stack */
	__u32 pad0;
	__u64 own_bits;      /* locator_bit of each NID in own_addresses */
	__be16 probe_id;     /* of the border's own echo requests; 0: there are none */
	__u16 flow_label;    /* packets whose flow label has its highest bit are of a session */
	__u16 pad[2];
	__u8 site_hint[64];  /* by the number of a locator's bit: 1 more than the index of such a site, or 0 */
	__u8 group_hint[64]; /* the same for internal locators in groups */
};

enum locator_kind { LOCATOR_SITE = 1, LOCATOR_INTERNAL = 2 };

/* A locator of the policy. Of one of a provider only kind and site[0] are used. */
struct locator {
	enum locator_kind kind;
	__u8 n;               /* members: site locators that are up, the most preferred first */
	__u8 spread;          /* advice vlb */
	__u8 label;           /* of the members, which names their credits */
	__u8 pad;
	__u32 generation;     /* changes with the members and their weights */
	__u32 total;          /* of the weights */
	__u32 sites;          /* bits of the members' indices */
	__u8 site[MAX_GROUP]; /* index of each in sites */
	__u32 weight[MAX_GROUP];
	union half l64;       /* in groups: the locator itself */
};

enum site_flags {
	SITE_UP = 1,
	SITE_MACS = 2, /* macs is that of the next hop for certain */
	SITE_NEXT_HOP = 4,
};

/* A locator that a provider assigned, and how packets leave from it. */
struct site {
	union half l64;
	union half behind; /* internal locator, where no flow says which */
	__u32 ifindex;
	__u32 mtu;
	enum site_flags flags;
	__u8 macs[12]; /* of the next hop, then of the link */
	__u8 next_hop[16]; /* with SITE_NEXT_HOP: else the routing table knows */
	__u32 pad;
};

/* Two nodes, one of them inside the site. */
struct flow_key {
	union half inside;
	union half outside;
};

/* What TCP and UDP checksums cover. */
enum checksum_rule {
	RULE_UNKNOWN, /* treated as the next */
	RULE_IPV6,    /* the addresses */
	RULE_RFC6741, /* the NIDs alone: rewriting changes nothing */
};

/* What two nodes have shown of their session, as far as packets without nonce need it: half a cache
 * line in flow_sets.
 */
struct flow {
	struct flow_key key; /* inside is 0 in a place of flow_sets that is free */
	__u32 came;          /* when a packet from outside passed last, in units of 2^26 ns */
	__u32 sent;          /* the same from the inside node, from its locator and by its link */
	__u16 announced;     /* bits of the site locators, by index in sites, that the outside node has acknowledged */
	__u8 rule;           /* enum checksum_rule */
	__u8 came_to;        /* 1 more than the index of the site locator to which the latest packet from outside came */
	__u8 internal_at;    /* where in internals the locator of the inside node is; 0: in flow_nonces alone */
	__u8 sealed;         /* its Locator Updates have MACs, so that the inside node alone announces locators */
	__u16 link;          /* the lower half of ifindex in flow_nonces */
};

/* The rest of it: who may change it. A cache line in nonce_sets. */
struct flow_nonces {
	union half internal; /* locator of the inside node */
	union half remote;   /* locator of the outside node, where the inside node sent its latest nonce */
	struct nonce inward; /* of packets from outside; len 0: none yet */
	struct nonce outward;
	__u32 ifindex; /* link to the inside node; 0: not seen yet */
	__u32 locked;  /* of the first place of a set: a program adds a flow to it, or changes or removes one */
	__u64 pad;
};

/* How packets that come by a link get to an inside node, as the kernel said. */
struct way {
	union half nid;      /* of the node */
	union half internal; /* its locator */
	__u64 asked_at;      /* in ns */
	__u32 from;          /* that link */
	__u32 dev;
	__u32 mtu;     /* of the route; 0: the stack knows the way */
	__u8 macs[12]; /* of the next hop, then of the link */
};

#define WAYS 4096     /* both powers of two */
#define INTERNALS 256

/* Both, in a hash table. */
struct whole_flow {
	struct flow flow;
	struct flow_nonces nonces;
};

#define SET_FLOWS 4

/* Where flows lie whose keys have the same hash: all that a search reads. */
struct flow_set {
	struct flow flow[SET_FLOWS];
};

/* The rest of these flows. */
struct nonce_set {
	struct flow_nonces nonces[SET_FLOWS];
};

/* What the daemon has sbr_announce write. */
enum announcing {
	ANNOUNCED,          /* of a flow: bits of what the outside node has acknowledged */
	WITHDRAWN_FROM_ALL, /* bits that no flow has any more: their indices name other site locators */
	SEALED,             /* sealed of a flow */
	RENEWED,            /* the nonces of a flow; nothing is announced or sealed */
};

struct announcement {
	struct flow_key flow;
	enum announcing what;
	__u32 value;
	struct nonce inward;
	struct nonce outward;
};

/* A probe from outside that an inside node is to answer. */
struct probe {
	struct flow_key flow;
	__be16 id;
	__be16 seq;
	__u32 pad;
};

/* A message in fragments (RFC 8200 §4.5). */
struct message {
	struct addr src;
	struct addr dst;
	__be32 id;
	__u32 pad;
};

/* The state of the division of packets among the members of a label. */
struct credits {
	__u32 generation;
	__u32 pad;
	__s64 credit[MAX_GROUP];
};

/* What passed one site locator. A GSO packet counts as its segments. */
struct share {
	__u64 tx_packets;
	__u64 tx_bytes; /* from the IPv6 header on */
	__u64 rx_packets;
	__u64 rx_bytes;
	__u64 checked; /* when a packet took the kernel's way last, in ns */
};

/* What the daemon is handed. */
enum handover_kind {
	HAND_FLOW = 1, /* both nonces of a flow are known, or its inside node has moved; no packet */
	HAND_INSIDE,   /* a Locator Update or an error, from inside */
	HAND_OUTSIDE,  /* the same from outside */
	HAND_OWN,      /* an error of this host that quotes an internal locator */
	HAND_TOO_BIG,  /* the beginning of a packet from inside that does not fit into its link */
};

#define HANDOVER_DATA 2048
#define ERROR_QUOTES 1232 /* bytes of a packet in an ICMPv6 error: the least MTU less both headers (RFC 4443 §2.4) */
#define HANDOVERS_LEN (1 << 20) /* bytes of the ring */

/* Which messages have a share of the ring of their own. */
struct share_key {
	struct flow_key flow;
	enum handover_kind kind;
	__u32 is_error; /* about a packet of the flow */
};

struct handover {
	enum handover_kind kind;
	__u32 ifindex;
	__u32 len; /* of data */
	__u32 detail; /* the MTU, of HAND_TOO_BIG; flow.came_to, of HAND_INSIDE */
	struct flow_key flow;
	__u8 data[HANDOVER_DATA];
};

#endif
