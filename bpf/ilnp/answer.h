/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Answers flows that a rule of the peer sends, along the path by which they came. The peer
 * marks their packets by the flow label, which depends on the flow, and asks for such answers
 * in its probes. A label changes no decision but this one: whatever it is, an answer takes a
 * path that the entry has, to a validated locator. A packet without the mark ends it.
 */
#ifndef ROAM_ILNP_ANSWER_H
#define ROAM_ILNP_ANSWER_H

#include "flowruletypes.h"
#include "flow.h"

#define LABEL_MASK 0xfffff

/* The flow label of a flow with a rule, never 0. Other labels of the kernel are random. */
static __always_inline __u32 label_of(union half a, union half b, __u32 proto, __u32 ports)
{
	return (flow_weight(a, b, ports + (proto << 24)) & LABEL_MASK) | 1;
}

/* Marks a packet of ours at roam0. The label is in no checksum. */
__noinline int mark_flow(struct __sk_buff *skb, const struct session_entry *p, __u32 proto, __u32 ports)
{
	__be32 word;

	if (!p || bpf_skb_load_bytes(skb, ETH_LEN, &word, sizeof(word)))
		return 0;
	word = (word & bpf_htonl(~LABEL_MASK)) | bpf_htonl(label_of(p->local_nid, p->remote_nid, proto, ports));
	bpf_skb_store_bytes(skb, ETH_LEN, &word, sizeof(word), 0);
	return 0;
}

/* Notes by which path a packet of TCP or UDP has come, if the peer has marked it. */
__noinline int note_flow(struct __sk_buff *skb, __u32 l3, __u32 at, __u32 proto)
{
	struct answer_key key = { .proto = proto };
	struct flow_ends ends, *was;
	__be32 word;

	if ((proto != IPPROTO_TCP && proto != IPPROTO_UDP) || bpf_skb_load_bytes(skb, l3, &word, sizeof(word)) ||
	    bpf_skb_load_bytes(skb, l3 + 8, &ends.remote_l64, 8) || bpf_skb_load_bytes(skb, l3 + 16, &key.far_nid, 8) ||
	    bpf_skb_load_bytes(skb, l3 + 24, &ends.local_l64, 8) || bpf_skb_load_bytes(skb, l3 + 32, &key.near_nid, 8) ||
	    bpf_skb_load_bytes(skb, at, &key.far_port, 2) || bpf_skb_load_bytes(skb, at + 2, &key.near_port, 2))
		return 0;
	was = bpf_map_lookup_elem(&answer_paths, &key);
	if ((bpf_ntohl(word) & LABEL_MASK) !=
	    label_of(key.near_nid, key.far_nid, proto, ports_of(bpf_ntohs(key.near_port), bpf_ntohs(key.far_port)))) {
		if (was)
			bpf_map_delete_elem(&answer_paths, &key);
	} else if (!was || was->local_l64.v != ends.local_l64.v || was->remote_l64.v != ends.remote_l64.v) {
		bpf_map_update_elem(&answer_paths, &key, &ends, BPF_ANY);
	}
	return 0;
}

/* Does path i of a session, which may take it for an answer, lead between these ends? Global, so
 * that the verifier looks at it once.
 */
__noinline int leads_back(const struct session_entry *p, __u32 i, __u64 near, __u64 far)
{
	__u32 first, index, remote;
	struct uplink *u;

	if (!p)
		return 0;
	first = p->n_paths + p->n_reserve + p->n_ruled;
	index = path_uplink(p, i);
	remote = path_remote(p, i);
	if ((i >= p->n_paths && (i < first || i >= first + p->n_answers)) || p->remote[remote].v != far ||
	    p->unvalidated >> remote & 1)
		return 0;
	u = bpf_map_lookup_elem(&uplinks, &index);
	return u && u->flags & UPLINK_USABLE && u->l64.v == near;
}

/* Index of the path that leads back to where a flow came from, or -1. */
__noinline int answer_path(struct __sk_buff *skb, const struct session_entry *p, const struct chain *c)
{
	struct answer_key key = {};
	struct flow_ends *ends;
	__u32 i;

	if (!p || !c || c->fragment != WHOLE || (c->proto != IPPROTO_TCP && c->proto != IPPROTO_UDP) ||
	    bpf_skb_load_bytes(skb, c->at, &key.near_port, 4))
		return -1;
	key.near_nid = p->local_nid;
	key.far_nid = p->remote_nid;
	key.proto = c->proto;
	ends = bpf_map_lookup_elem(&answer_paths, &key);
	if (!ends)
		return -1;
	for (i = 0; i < MAX_PATHS; i++)
		if (leads_back(p, i, ends->local_l64.v, ends->remote_l64.v))
			return i;
	return -1;
}

#endif
