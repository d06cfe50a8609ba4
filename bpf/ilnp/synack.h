/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Validates a pending peer by its acknowledgement of our SYN-ACK. Only a node that has
 * received the SYN-ACK knows its sequence number: a peer that acknowledges it from the
 * locator to which it went is there, if no other peer is answered under that NID
 * elsewhere (ilnp/pendingecho.go). Later acknowledgements prove nothing, as the peer can
 * derive those numbers from the ones before.
 */
#ifndef ROAM_ILNP_SYNACK_H
#define ROAM_ILNP_SYNACK_H

#include "deliver.h"

#define GUESSES 64 /* acknowledgements that are compared with one SYN-ACK */

/* A TCP header up to its window. */
struct segment {
	__be16 from, to;
	__be32 seq, ack;
	__u8 words, flags;
	__u8 pad[2];
};

/* A SYN-ACK as one word, so that another processor reads it whole: a keyed hash of the
 * locator to which it went, the ports of the peer and of ours, and the number that
 * acknowledges it.
 */
__noinline __u64 syn_ack_hash(__u64 l64, __u32 ports, __u32 ack)
{
	struct host *h = this_host();
	struct sip s;

	if (!h)
		return 0;
	sip_init(&s, h->secret[0], h->secret[1] ^ 4);
	sip_word(&s, l64);
	sip_word(&s, (__u64)ports << 32 | ack);
	return sip_final(&s, 2) | 1;
}

/* Notes a SYN-ACK that leaves to a locator. */
__noinline int note_syn_ack(struct __sk_buff *skb, struct pending_peer *e, __u32 at, __u64 l64)
{
	struct segment t = {};

	if (!e || bpf_skb_load_bytes(skb, at, &t, TCP_FLAGS_AT + 1) || (t.flags & (TCP_SYN | TCP_ACK)) != (TCP_SYN | TCP_ACK))
		return 0;
	e->guesses = 0;
	e->syn_ack = syn_ack_hash(l64, (__u32)t.to << 16 | t.from, bpf_ntohl(t.seq) + 1);
	return 0;
}

/* Does this packet with the nonce of a pending peer acknowledge the SYN-ACK that went to
 * its source?
 */
__noinline int acks_syn_ack(struct __sk_buff *skb, struct pending_peer *e, const struct inbound *in)
{
	struct segment t = {};

	if (!e || !in || !e->syn_ack || in->c.proto != IPPROTO_TCP || in->c.fragment != WHOLE ||
	    !same_nonce(&e->remote_nonce, &in->c.nonce) || bpf_skb_load_bytes(skb, in->c.at, &t, TCP_FLAGS_AT + 1) ||
	    (t.flags & (TCP_SYN | TCP_RST | TCP_ACK)) != TCP_ACK)
		return 0;
	if (e->syn_ack == syn_ack_hash(in->src.l64.v, (__u32)t.from << 16 | t.to, bpf_ntohl(t.ack)))
		return 1;
	if (++e->guesses >= GUESSES)
		e->syn_ack = 0;
	return 0;
}

#endif
