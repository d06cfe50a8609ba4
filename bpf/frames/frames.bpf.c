// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The lab's packet generator and its sink. A test run with live frames calls the generator for
 * each frame, which it redirects into a link; no socket and no system call is involved. The
 * kernel hands frames out again as the stack left them, so all headers are written each time.
 */
#include "../lib/addr.h"

#define HEAD 78 /* bytes written: Ethernet, IPv6, UDP, 16 of payload */
#define NEXT_AT 20
#define NID_AT 36  /* the last two bytes of the source */
#define PORT_AT 56 /* the destination's */
#define WORD_AT 62 /* two bytes of payload that keep the checksum */
#define PASS_ON (-1)
#define SHOT 2

/* What is sent, and how much was. */
struct generator {
	__u32 ifindex;
	__u32 flows; /* so many sources follow each other */
	__u64 sent;
	__u8 head[80];
};

struct {
	/* What does the next frame look like? */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct generator);
} generators SEC(".maps");

/* What the sink counts. */
struct sink {
	__be16 port;
	__u16 pad[3];
	__u64 received;
};

struct {
	/* Which datagrams end here, and how many did on this processor? */
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sink);
} sinks SEC(".maps");

char _license[] SEC("license") = "Dual BSD/GPL";

/* Sends a frame of the next flow. Its number is added to the source; a word of the payload
 * takes it back, so that the UDP checksum stays right.
 */
SEC("xdp")
int frames_generate(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct generator *g;
	__u32 zero = 0, flow;

	g = bpf_map_lookup_elem(&generators, &zero);
	if (!g || data + HEAD > end)
		return XDP_ABORTED;
	flow = g->flows > 1 ? g->sent % g->flows : 0;
	__builtin_memcpy(data, g->head, HEAD);
	*(__be16 *)(data + NID_AT) = bpf_htons(bpf_ntohs(*(__be16 *)(data + NID_AT)) + flow);
	*(__be16 *)(data + WORD_AT) = bpf_htons(0xffff - flow);
	g->sent++;
	return bpf_redirect(g->ifindex, 0);
}

/* Drops the datagrams of the generator. Everything else passes: a sink of neighbour discovery
 * would starve the router before it. They are counted there.
 */
SEC("tc")
int frames_count(struct __sk_buff *skb)
{
	__u8 *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct sink *s;
	__u32 zero = 0;

	s = bpf_map_lookup_elem(&sinks, &zero);
	if (!s || skb->protocol != bpf_htons(0x86dd) || data + HEAD > end || data[NEXT_AT] != IPPROTO_UDP ||
	    *(__be16 *)(data + PORT_AT) != s->port)
		return PASS_ON;
	s->received++;
	return SHOT;
}
