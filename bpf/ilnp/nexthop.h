/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Sends a translated packet to the next hop of its uplink. While the daemon knows the
 * hardware address of that neighbour, the program writes the Ethernet header itself. The
 * kernel's own way, bpf_redirect_neigh, costs more, and does more: it has the kernel check
 * whether the neighbour is still there (RFC 4861 §7.3), and passes on what TCP knows of
 * that. So it gets one packet of each uplink in HOP_CHECK, and all packets whenever the
 * neighbour may have changed.
 */
#ifndef ROAM_ILNP_NEXTHOP_H
#define ROAM_ILNP_NEXTHOP_H

#include "session.h"

#define AF_INET6 10

/* How often a packet takes the kernel's way, in ns. A neighbour that is not confirmed for
 * DELAY_FIRST_PROBE_TIME, 5 s, is probed: fifty packets of TCP may confirm it before.
 */
#define HOP_CHECK 100000000ULL

/* How long after a message of neighbour discovery what the daemon knows may still be from
 * before it, in ns: far above the time in which the kernel handles that message and
 * notifies the daemon. The time of such a message is coarse.
 */
#define HOP_SETTLED 50000000ULL

#define ICMP6_ROUTER_ADVERT 134
#define ICMP6_NEIGHBOUR_ADVERT 136
#define ICMP6_REDIRECT 137
#define ND_HOP_LIMIT 255   /* other hop limits came through a router (RFC 4861 §7.1) */
#define ND_TARGET 8        /* where the target of an advertisement or redirect is */
#define ND_SOURCE_MAC 1    /* options: link-layer address of the sender, */
#define ND_TARGET_MAC 2    /* and of the target */
#define ND_OPTIONS 12      /* how many options are read */

#define MAC_LEN 6
#define MACS_LEN 12

/* How a packet gets to its next hop. */
enum hop_way {
	HOP_KERNEL,  /* the kernel sends it to the router of the uplink */
	HOP_KNOWN,   /* the program writes the hardware address of that router */
	HOP_ON_LINK, /* the kernel looks up where it goes: to the correspondent itself, in the same network */
};

/* How does a packet get to the next hop of its uplink, or to a correspondent in our own network? */
static __always_inline enum hop_way hop_way(const struct uplink *u, __u32 index, const union half *remote, __u64 now)
{
	struct uplink_live *l;

	if (unlikely(u->l64.v == remote->v))
		return HOP_ON_LINK;
	if (unlikely(!(u->flags & UPLINK_MACS)))
		return HOP_KERNEL;
	l = bpf_map_lookup_elem(&uplink_lives, &index);
	if (unlikely(!l || u->known_at < l->discovery + HOP_SETTLED))
		return HOP_KERNEL;
	if (likely(now - l->checked < HOP_CHECK))
		return HOP_KNOWN;
	l->checked = now;
	return HOP_KERNEL;
}

/* Is this a message about a neighbour's hardware address? Reads of which neighbour.
 * Returns where its options begin; 0: it is none.
 */
static __always_inline __u32 read_subject(struct __sk_buff *skb, __u32 l3, struct addr *subject)
{
	__u32 at = l3 + IP6_LEN;
	__u8 type;

	if (bpf_skb_load_bytes(skb, at, &type, 1) || type < ICMP6_ROUTER_ADVERT || type > ICMP6_REDIRECT)
		return 0;
	if (bpf_skb_load_bytes(skb, type >= ICMP6_NEIGHBOUR_ADVERT ? at + ND_TARGET : l3 + 8, subject, sizeof(*subject)))
		return 0;
	if (type == ICMP6_REDIRECT)
		return at + 40;
	return type == ICMP6_ROUTER_ADVERT ? at + 16 : at + 24;
}

/* Reads the hardware address that a message gives; 0 if it gives none. An address of
 * zeros stands for options that cannot be read.
 */
static __always_inline int read_hardware_address(struct __sk_buff *skb, __u32 at, __u16 mac[MAC_LEN / 2])
{
	__u8 option[2 + MAC_LEN] = {};

	for (int i = 0; i < ND_OPTIONS; i++) {
		if (at == skb->len)
			return 0;
		if (bpf_skb_load_bytes(skb, at, option, sizeof(option)) || !option[1])
			break;
		if (option[0] == ND_SOURCE_MAC || option[0] == ND_TARGET_MAC) {
			__builtin_memcpy(mac, option + 2, MAC_LEN);
			return 1;
		}
		at += 8 * option[1];
	}
	mac[0] = mac[1] = mac[2] = 0;
	return 1;
}

/* What a message of neighbour discovery says. */
struct discovery {
	struct addr subject;
	__u32 ifindex;
	__u16 mac[MAC_LEN / 2];
	__u16 pad;
};

/* Does the message give the next hop of an uplink another hardware address? A function of
 * its own, so that the verifier looks at it once, not once for each uplink.
 */
__noinline int note_change(__u32 index, const struct discovery *d, __u64 now)
{
	struct uplink *u = bpf_map_lookup_elem(&uplinks, &index);
	const struct addr *hop;
	struct uplink_live *l;
	const __u16 *known;

	if (!u || !d || u->ifindex != d->ifindex)
		return 0;
	hop = (const struct addr *)u->next_hop;
	known = (const __u16 *)u->macs;
	if (hop->l64.v != d->subject.l64.v || hop->nid.v != d->subject.nid.v ||
	    (known[0] == d->mac[0] && known[1] == d->mac[1] && known[2] == d->mac[2]))
		return 0;
	l = bpf_map_lookup_elem(&uplink_lives, &index);
	if (l)
		l->discovery = now;
	return 0;
}

/* Notes neighbour discovery that changes the next hop of an uplink, before the kernel
 * handles it: until the daemon has made sure again, packets of that uplink take the
 * kernel's way. So no packet goes to a hardware address that the kernel knows to be
 * outdated, not even without a daemon.
 */
__noinline int note_discovery(struct __sk_buff *skb, __u32 l3)
{
	struct discovery d = { .ifindex = skb->ifindex };
	__u32 at = read_subject(skb, l3, &d.subject);
	__u64 now;

	if (!at || !read_hardware_address(skb, at, d.mac))
		return 0;
	now = coarse_ns();
	for (__u32 i = 0; i < MAX_UPLINKS; i++)
		note_change(i, &d, now);
	return 0;
}

/* Writes destination and source of the Ethernet header, which is in the linear part. Clang copies
 * bytes one by one.
 */
static __always_inline void write_macs_at(void *frame, const struct uplink *u)
{
	*(__u64 *)frame = *(const __u64 *)u->macs;
	*(__u32 *)(frame + 8) = *(const __u32 *)(u->macs + 8);
}

/* The same where that is not known. */
static __always_inline int write_macs(struct __sk_buff *skb, const struct uplink *u)
{
	void *there = (void *)(long)skb->data;

	if (there + ETH_LEN > (void *)(long)skb->data_end)
		return bpf_skb_store_bytes(skb, 0, u->macs, MACS_LEN, 0);
	write_macs_at(there, u);
	return 0;
}

/* Is this a packet of a socket at the egress of that uplink, where the direct route has
 * brought it? Then it needs no redirect.
 */
static __always_inline int is_at_uplink(const struct __sk_buff *skb, __u32 ifindex)
{
	struct host *h = this_host();

	return skb->ifindex == ifindex && !skb->ingress_ifindex && h && h->device != ifindex;
}

/* Sends a packet that is translated out of a link. hop: the uplink with its next hop, if
 * UPLINK_NEXT_HOP is set; null: the kernel looks it up.
 */
static __always_inline int send_to_hop(struct __sk_buff *skb, __u32 ifindex, const struct uplink *hop, enum hop_way way)
{
	if (hop && way == HOP_KNOWN && !write_macs(skb, hop))
		return is_at_uplink(skb, ifindex) ? PASS_ON : bpf_redirect(ifindex, 0);
	if (hop && way != HOP_ON_LINK && hop->flags & UPLINK_NEXT_HOP) {
		struct bpf_redir_neigh nh = { .nh_family = AF_INET6 };

		__builtin_memcpy(nh.ipv6_nh, hop->next_hop, 16);
		return bpf_redirect_neigh(ifindex, &nh, sizeof(nh), 0);
	}
	return bpf_redirect_neigh(ifindex, 0, 0, 0);
}

#endif
