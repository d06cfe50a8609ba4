/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The MAC of Locator Updates in keyed sessions. The daemon judges every update. The programs
 * check the MAC too, so that what follows an update from a new locator need not wait for the
 * daemon, and so that forged ones do not use up the share of the ring that the peer's own have.
 * DEVIATION: docs/rfc/rfc6743.md.
 */
#ifndef ROAM_ILNP_UPDATEMAC_H
#define ROAM_ILNP_UPDATEMAC_H

#include "control.h"
#include "match.h"

#define OPT_EXPERIMENT 0x1e
#define KIND_MAC 2
#define UPDATE_FIXED 8  /* bytes of an update before its locators, */
#define UPDATE_ENTRY 12 /* and of each locator in the form of RFC 6743 */
#define UPDATE_ADVERTISEMENT 1

/* The option behind the nonce, or in UDP behind the message. */
struct mac_option {
	__u8 type, len, kind, zero;
	__u64 counter, answers, mac[2]; /* network order; the MAC as it is hashed */
} __attribute__((packed));

enum sealed {
	UNSEALED, /* no MAC, a wrong one, or a message of another form: the daemon decides */
	REPEATED, /* the MAC is right, but a newer message has come: whoever saw it may have sent a copy */
	SEALED,   /* the MAC is right */
	FOLLOWED, /* and it is the newest update, and lists the locator that it came from */
};

/* The key of the MACs of a session's peer, or null. */
static __always_inline struct update_key *key_of(const struct session_entry *p)
{
	struct slot_user user = { .slot = p->slot, .birth = p->birth };

	return bpf_map_lookup_elem(&update_keys, &user);
}

/* One half of the hash, SipHash-2-4 with 128 bits of output. */
static __always_inline __u64 sip_sum(struct sip *s)
{
	sip_round(s);
	sip_round(s);
	sip_round(s);
	sip_round(s);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

/* Hashes the locators of an update, n of them from at on, and the end of a message of len bytes. */
__noinline int hash_locators(struct __sk_buff *skb, struct sip *s, __u32 at, __u32 n)
{
	__u64 w;

	if (!s)
		return -1;
	for (int i = 0; i < MAX_REMOTE * UPDATE_ENTRY / 8; i++) {
		if (8 * i + 8 > n * UPDATE_ENTRY)
			break;
		if (bpf_skb_load_bytes(skb, at + 8 * i, &w, 8))
			return -1;
		sip_word(s, w);
	}
	w = 0;
	if (n & 1 && bpf_skb_load_bytes(skb, at + n * UPDATE_ENTRY - 4, &w, 4))
		return -1;
	sip_word(s, w | (__u64)(16 + UPDATE_FIXED + n * UPDATE_ENTRY) << 56);
	return 0;
}

/* Does an update list the locator of the peer that it came from? */
__noinline int lists_source(struct __sk_buff *skb, const struct inbound *in, __u32 n)
{
	union half l;
	int is = 0;

	if (!in)
		return 0;
	for (int i = 0; i < MAX_REMOTE; i++) {
		if (i >= n || bpf_skb_load_bytes(skb, in->c.at + UPDATE_FIXED + i * UPDATE_ENTRY, &l, 8))
			break;
		is |= l.v == in->src.l64.v;
	}
	return is;
}

/* Checks the MAC of an update or an acknowledgement of the session. The address in the header
 * is not covered, so only a locator that the update lists is followed.
 */
__noinline int check_update(struct __sk_buff *skb, const struct inbound *in, struct update_key *k)
{
	struct mac_option o;
	struct sip s;
	__u64 w, first, counter;
	__u32 n, at;

	if (!in || !k || bpf_skb_load_bytes(skb, in->c.at, &w, 8))
		return UNSEALED;
	n = w >> 32 & 0xff; /* type, code, checksum, number of locators, operation */
	if (w >> 8 & 0xff || !n || n > MAX_REMOTE)
		return UNSEALED;
	at = in->encap ? in->c.at + UPDATE_FIXED + n * UPDATE_ENTRY + 2 : in->c.option_at + 2 + in->c.nonce.len;
	if (bpf_skb_load_bytes(skb, at, &o, sizeof(o)) || o.type != OPT_EXPERIMENT || o.len != sizeof(o) - 2 ||
	    o.kind != KIND_MAC)
		return UNSEALED;
	sip_init(&s, k->key[0], k->key[1]);
	s.v1 ^= 0xee;
	sip_word(&s, o.counter);
	sip_word(&s, o.answers);
	sip_word(&s, w & ~0xffff0000ULL);
	if (hash_locators(skb, &s, in->c.at + UPDATE_FIXED, n))
		return UNSEALED;
	s.v2 ^= 0xee;
	first = sip_sum(&s);
	s.v1 ^= 0xdd;
	if (first != o.mac[0] || sip_sum(&s) != o.mac[1])
		return UNSEALED;
	counter = bpf_be64_to_cpu(o.counter);
	if ((w >> 40 & 0xff) != UPDATE_ADVERTISEMENT) {
		if (counter <= k->acks)
			return REPEATED;
		k->acks = counter;
		return SEALED;
	}
	if (counter <= k->counter)
		return REPEATED;
	k->counter = counter;
	return lists_source(skb, in, n) ? FOLLOWED : SEALED;
}

/* Notes a Locator Update of a session, and says whether the daemon gets it. strange: it
 * came from a locator that the session does not have, with a nonce that may be forged.
 */
__noinline int takes_update(struct __sk_buff *skb, const struct session_entry *p, struct session_details *d,
			    const struct inbound *in, int strange)
{
	struct update_key *k;
	__u32 len;
	int sealed;

	if (!p || !d || !in)
		return 0;
	len = skb->len - in->l3;
	k = key_of(p);
	if (!k)
		return strange ? has_share(d, len) : has_update_share(d, len);
	sealed = check_update(skb, in, k);
	if (sealed == UNSEALED || sealed == REPEATED)
		return has_share(d, len);
	if (sealed == FOLLOWED && strange) {
		d->hint = in->src.l64;
		count(RX_UPDATE_FOLLOWED);
		note_more(skb, p, d, in, 0);
		settle(p, d);
	}
	return has_update_share(d, len);
}

/* Does the daemon get a packet from a locator that the session does not have, with a nonce that
 * may be forged?
 */
static __always_inline int takes_unconfirmed(struct __sk_buff *skb, const struct session_entry *p,
					     struct session_details *d, const struct inbound *in)
{
	if (in->c.fragment != WHOLE || in->c.proto != IPPROTO_ICMPV6)
		return 0;
	if (in->c.type == ICMP6_LOCATOR_UPDATE)
		return takes_update(skb, p, d, in, 1);
	return is_probe_reply(skb, &in->c) && has_share(d, skb->len - in->l3);
}

#endif
