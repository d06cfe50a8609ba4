/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Reports to the daemon, through three ring buffers: neither pending peers nor local
 * programs can displace the reports of sessions, nor each other.
 */
#ifndef ROAM_ILNP_EVENTS_H
#define ROAM_ILNP_EVENTS_H

#include "../lib/ring.h"
#include "drop.h"
#include "maps.h"

static __always_inline void event_fill(struct event *e, struct __sk_buff *skb, __u32 kind,
				       const struct event *about)
{
	*e = *about;
	e->kind = kind;
	if (!e->ifindex)
		e->ifindex = skb->ifindex;
	e->at = bpf_ktime_get_ns();
	e->len = 0;
}

static __always_inline void tell(void *ring, struct __sk_buff *skb, __u32 kind, const struct event *about)
{
	struct event *e = bpf_ringbuf_reserve(ring, sizeof(*e), 0);

	if (!e) {
		count(DROP_RING_FULL);
		return;
	}
	event_fill(e, skb, kind, about);
	bpf_ringbuf_submit(e, 0);
}

/* Reports an event of a session that our own packet has shown, with what `bytes` and `packets` say of it. */
__noinline int tell_session(struct __sk_buff *skb, const struct session_entry *p, __u32 kind, __u32 bytes,
			    __u32 packets)
{
	struct event about = {};

	if (!p)
		return 0;
	about.key = p->alias;
	about.bytes = bytes;
	about.packets = packets;
	tell(&urgent, skb, kind, &about);
	return 0;
}

static __always_inline int tell_packet_in(void *ring, struct __sk_buff *skb, __u32 l3, __u32 kind,
					  const struct event *about, const __u64 room)
{
	struct packet_event *p = bpf_ringbuf_reserve(ring, sizeof(struct event) + room, 0);
	__u32 len;

	if (!p) {
		count(DROP_RING_FULL);
		return -1;
	}
	event_fill(&p->e, skb, kind, about);
	len = load_packet(skb, l3, skb->len - l3, p->data, room);
	if (!len) {
		bpf_ringbuf_discard(p, 0);
		count(DROP_KERNEL_HELPER);
		return -1;
	}
	p->e.len = len;
	bpf_ringbuf_submit(p, 0);
	return 0;
}

enum ring {
	RING_REQUESTS,
	RING_URGENT,
	RING_UNVALIDATED,
};

/* Hands the whole packet over, from its IPv6 header at l3, through one of the rings. A
 * reservation has a fixed size: small for probes and most updates, of which many may come
 * at once, large for rare packets, such as an update of 255 locators. Global, as all
 * functions for rare events: the verifier looks at it once, and not for each caller.
 */
__noinline int tell_packet(struct __sk_buff *skb, __u32 l3, __u32 kind, const struct event *about, int which)
{
	void *ring = which == RING_URGENT ? (void *)&urgent : which == RING_UNVALIDATED ? (void *)&unvalidated : (void *)&requests;
	__u64 len = skb->len - l3;

	if (!about)
		return -1;
	if (len == 0 || len >= EVENT_DATA_LARGE) {
		count(DROP_MISS_TOO_BIG);
		return -1;
	}
	if (len < EVENT_DATA_SMALL)
		return tell_packet_in(ring, skb, l3, kind, about, EVENT_DATA_SMALL);
	if (len < EVENT_DATA)
		return tell_packet_in(ring, skb, l3, kind, about, EVENT_DATA);
	return tell_packet_in(ring, skb, l3, kind, about, EVENT_DATA_LARGE);
}

#endif
