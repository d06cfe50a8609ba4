/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Counters of a site border router. Each packet that it does not pass on has a reason and a
 * counter. The daemon takes the names from here (BTF).
 */
#ifndef ROAM_SBR_DROP_H
#define ROAM_SBR_DROP_H

#include "../lib/counter.h"
#include "../lib/verdict.h"

enum counter {
	TX_FLOW,           /* packets of flows, rewritten and sent outside */
	TX_FALLBACK,       /* packets of no flow, rewritten to the preferred locator and sent outside */
	TX_HAIRPIN,        /* packets between inside nodes that used a site locator */
	TX_PROBE_REPLY,    /* answers to probes, sent from the locator that these came to */
	TX_KERNEL_HOP,     /* of those sent outside, by the kernel's way to the next hop; else by its hardware address */
	TX_XDP,            /* of packets of flows, by an XDP program */
	RX_FLOW,           /* packets of flows, rewritten for inside */
	RX_FALLBACK,       /* packets of no flow, rewritten for inside */
	RX_DIRECT,         /* of packets of flows from outside, by a known hardware address without the stack */
	RX_XDP,            /* of these, by an XDP program */
	RX_DELIVERED,      /* packets to internal locators that left by a link to the inside */
	PASS_FALLBACK,     /* packets of no flow, forwarded as they are */
	PASS_STACK,        /* packets left to the stack of this host, for their hop limit */
	PASS_OTHER_LINK,   /* packets of a VLAN, or to another hardware address: not of this link */
	FLOW_CONFIRMED,    /* flows of which both nodes have sent a nonce */
	FLOW_TABLE_FULL,   /* not lost: flows for which there was no space, which keep to the preferred locator */
	DROP_HANDED_OVER,  /* not lost: Locator Update or ICMPv6 error given to the daemon, or too big for its link */
	DROP_RING_FULL,    /* the daemon did not keep up, or is not there */
	DROP_RING_SHARE,   /* a flow exceeded its share of the ring to the daemon */
	DROP_TOO_LONG,     /* Locator Update or ICMPv6 error too long to be given to the daemon */
	DROP_MALFORMED,    /* truncated or contradictory headers */
	DROP_FALLBACK,     /* packets of no flow, which border.fallback refuses */
	DROP_NO_LINK,      /* no link of the group is up */
	DROP_SPOOFED,      /* an internal source came in from outside */
	DROP_INTERNAL,     /* an internal destination came in from outside */
	DROP_FRAGMENT,     /* later fragments of ICMPv6 messages with a nonce that came before the first one */
	DROP_LEAK,         /* an internal locator was about to leave */
	DROP_KERNEL_HELPER, /* the kernel refused to change the packet */
	COUNTERS,
};

struct {
	/* How often did each thing happen? */
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, enum counter);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} counters SEC(".maps");

static __always_inline void count(enum counter which)
{
	count_in(&counters, which);
}

static __always_inline int drop(enum counter why)
{
	count(why);
	return SHOT;
}

#endif
