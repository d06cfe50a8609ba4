// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The lab's packet generator and its sink. A test run with live frames calls the generator for
 * each frame, which it redirects into a link; no socket and no system call is involved. The
 * kernel hands frames out again as the stack left them, so all headers are written each time.
 */
#include "../lib/addr.h"

#define HEAD 78     /* bytes written: Ethernet, IPv6, UDP, 16 of payload */
#define NONCE_LEN 8 /* of destination options with a nonce of 4 bytes, behind the IPv6 header */
#define NEXT_AT 20
#define SOURCE_AT 34      /* the last four bytes of the source */
#define DESTINATION_AT 50 /* of the destination */
#define PORT_AT 56        /* the destination's, without a nonce */
#define WORD_AT 62        /* two bytes of payload that keep the checksum, without a nonce */
#define PASS_ON (-1)
#define SHOT 2

/* What is sent, and how much was. */
struct generator {
	__u32 ifindex;
	__u32 flows;  /* so many sources or destinations there are */
	__u32 to;     /* the flows differ by their destination */
	__u32 random; /* a flow is drawn for each frame; else they follow each other */
	__u32 nonce;  /* the head has one */
	__u32 pad;
	__u64 sent;
	__u8 head[88];
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

static __always_inline void add_to(__u8 *at, __u32 flow)
{
	*(__be32 *)at = bpf_htonl(bpf_ntohl(*(__be32 *)at) + flow);
}

/* Writes the head of a frame. The number of the flow is added to an address; a word of the
 * payload takes it back, so that the UDP checksum stays right. A number of 32 bits and the sum
 * of its halves are the same in one's-complement arithmetic.
 */
static __always_inline int write_frame(struct xdp_md *ctx, const struct generator *g, __u32 flow, __u32 nonce)
{
	__u8 *data = (void *)(long)ctx->data;
	__u32 word = (flow & 0xffff) + (flow >> 16);

	if (data + HEAD + nonce > (__u8 *)(long)ctx->data_end)
		return -1;
	__builtin_memcpy(data, g->head, HEAD + nonce);
	if (g->to)
		add_to(data + DESTINATION_AT, flow);
	else
		add_to(data + SOURCE_AT, flow);
	*(__be16 *)(data + WORD_AT + nonce) = bpf_htons(0xffff - (word & 0xffff) - (word >> 16));
	return 0;
}

/* Sends a frame of the next flow, or of any one. */
SEC("xdp")
int frames_generate(struct xdp_md *ctx)
{
	struct generator *g;
	__u32 zero = 0, flow = 0;

	g = bpf_map_lookup_elem(&generators, &zero);
	if (!g)
		return XDP_ABORTED;
	if (g->flows > 1)
		flow = (g->random ? bpf_get_prandom_u32() : g->sent) % g->flows;
	if (g->nonce ? write_frame(ctx, g, flow, NONCE_LEN) : write_frame(ctx, g, flow, 0))
		return XDP_ABORTED;
	g->sent++;
	return bpf_redirect(g->ifindex, 0);
}

/* Does a datagram to that port begin behind so many bytes of destination options? */
static __always_inline int is_frame(const __u8 *data, const __u8 *end, __be16 port, __u32 nonce)
{
	return data + HEAD + nonce <= end && data[NEXT_AT] == (nonce ? IPPROTO_DSTOPTS : IPPROTO_UDP) &&
	       *(const __be16 *)(data + PORT_AT + nonce) == port;
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
	if (!s || skb->protocol != bpf_htons(0x86dd) ||
	    (!is_frame(data, end, s->port, 0) && !is_frame(data, end, s->port, NONCE_LEN)))
		return PASS_ON;
	s->received++;
	return SHOT;
}
