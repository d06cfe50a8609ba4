/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Counters of the ILNP host. Each packet that it does not deliver, and each refusal, has
 * a reason and a counter. The daemon takes the names from here (BTF).
 */
#ifndef ROAM_ILNP_DROP_H
#define ROAM_ILNP_DROP_H

#include "../lib/counter.h"
#include "../lib/verdict.h"
#include "records.h"

enum counter {
	TX_PACKETS,             /* translated and sent */
	TX_PLAIN,               /* of those, as plain IPv6 */
	TX_PENDING,              /* of those, to pending peers */
	TX_NONCE,               /* of those, with a nonce */
	TX_NONCE_LEFT_OUT,      /* a nonce was due, but segmentation, MTU or a header order forbade it */
	TX_SEGDEV,              /* packets sent through the segmentation device before translation: nonce policy `always`, or checksums over NIDs */
	TX_PROBE_COPY,                /* packets sent under the other checksum rule as well, since no answer has shown the peer's */
	TX_PROBE_COPY_MOOT,           /* not lost: probe copies of first packets, not sent as an answer or the rule had come */
	TX_ENCAP,             /* ICMPv6 messages of sessions that went in UDP, as the path drops options or ICMPv6 */
	TX_RETRIED,             /* first segments retransmitted as plain IPv6, out of the error that refused their nonce */
	RX_PACKETS,             /* translated and delivered */
	RX_NONCE,               /* of those, with a nonce that was stripped */
	RX_PLAIN,               /* of those, of sessions that fell back to plain IPv6 */
	RX_ENCAP,             /* control messages that came in UDP */
	RX_STALE_LOCATOR,       /* of those delivered or taken, from a locator that is only accepted: withdrawn, and in grace */
	RX_HELD,                /* not lost: packets of pending peers, given to the daemon until these are validated */
	RX_NOT_ADMITTED,        /* not lost: packets with a nonce from nodes that nobody knows here, left to the stack */
	RX_PENDING_UNREPORTED,     /* not lost: first packets of pending peers beyond the rate that is reported */
	RX_ECHO_REFLECTED,      /* echo requests answered here */
	RX_LISTENER,              /* first segments given to a server that is bound to one real address */
	RX_ECHO_FORGOTTEN,      /* segments whose echoed time stamp was removed, soon after a silence */
	RX_REAL_SOCKET,         /* of plain IPv6 between nodes that have a session, left to its own sockets */
	RX_UPDATE_FOLLOWED,     /* Locator Updates from a new locator that were followed, as their MAC is right */
	DROP_NOT_SESSION,       /* on roam0, but not between session addresses */
	DROP_MISS_HANDED_OVER,  /* not lost: first packet given to the daemon */
	DROP_ERROR_HANDED_OVER, /* not lost: ICMPv6 error given to the daemon */
	DROP_CONTROL_HANDED_OVER, /* not lost: control message given to the daemon */
	DROP_MISS_TOO_BIG,      /* first packet too large to be handed over */
	DROP_MISS_RATE,         /* first packets to identifiers that nobody knows, beyond the rate that is reported */
	DROP_RING_FULL,         /* the daemon did not keep up, or is not there */
	DROP_RING_SHARE,        /* a session exceeded its share of the ring */
	DROP_NO_PATH_SILENT,    /* no usable path: the sender is left to its timers */
	DROP_NO_PATH_RETRY,     /* no usable path: TCP gets an error, and tries again within 500 ms */
	DROP_OBSTRUCTED,        /* an answer would bypass a policy of IPsec or routing: not sent */
	DROP_LEAK,              /* a session address was about to leave untranslated */
	DROP_SESSION_OUTSIDE,   /* a session address came in from outside */
	DROP_OWN_NID,           /* a packet from outside claims an identifier of this host */
	DROP_SESSION_LINK,      /* a session address came in on a link that is no uplink, such as a container's */
	DROP_FORWARDED,         /* a session address, sent by another node and forwarded by this host */
	DROP_MALFORMED,         /* truncated or contradictory headers */
	DROP_TWO_NONCES,        /* RFC 6744 §2: at most one nonce in a packet */
	DROP_NONCE_LENGTH,      /* nonce neither of 4 nor of 12 bytes */
	DROP_UNKNOWN_LOCATOR,   /* known NID, unknown source locator, no nonce */
	DROP_SESSION_LOST,      /* no nonce and no session, of a connection that we have between session addresses */
	DROP_NO_NONCE_YET,      /* session being set up, and the packet has no nonce */
	DROP_WRONG_NONCE,       /* another nonce than the session's */
	DROP_ICMP_NO_NONCE,     /* RFC 6744 §7: an ICMPv6 message of a session without nonce */
	DROP_UPDATE_NO_NONCE,   /* RFC 6743 §6: a Locator Update without nonce */
	DROP_UPDATE_NO_SESSION, /* a Locator Update from someone without a session */
	DROP_UNVALIDATED,          /* more than the allowance of a locator that is not validated */
	DROP_NOT_HELD,          /* packets of pending peers, too many to be held until validation */
	DROP_KERNEL_HELPER,     /* a packet rewrite failed in the kernel */
	COUNTERS_MAX,
};

struct {
	/* How often did each of enum counter happen? */
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS_MAX);
	__type(key, enum counter);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} counters SEC(".maps");

struct {
	/* What was the last packet like that was refused for this reason? */
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS_MAX);
	__type(key, enum counter);
	__type(value, struct refusal);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} refusals SEC(".maps");

static __always_inline void count(__u32 which)
{
	count_in(&counters, which);
}

static __always_inline int drop(__u32 reason)
{
	count(reason);
	return SHOT;
}

#endif
