/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Where sockets on real addresses of this host may be: a table that hooks of sockets mark
 * before a packet can reach such a socket (socketwatch.bpf.c), so that the programs on
 * links look sockets up only for packets that may be for one.
 */
#ifndef ROAM_ILNP_REALMARKS_H
#define ROAM_ILNP_REALMARKS_H

#include "types.h"

#define REAL_MARKS 65536

struct socket_marks {
	__u32 epoch;  /* the number of the last search for sockets, which the daemon counts */
	__u32 valid;  /* a mark below it counts no more; 0: all count, also those never set */
	__u32 missed; /* sockets on real addresses that the last search found without a mark */
	__u32 pad;
	/* The epoch in which a socket was last seen: one that is connected at the hash of its
	 * correspondent's NID, any other at its port. So a mark may be another socket's, but
	 * no socket is without.
	 */
	__u32 mark[REAL_MARKS];
};

struct {
	/* Where may sockets on real addresses of this host be? */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* the daemon writes a number by one store */
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct socket_marks);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} real_sockets SEC(".maps");

/* The mark of sockets that are connected to a node. */
static __always_inline __u32 node_mark(union half nid)
{
	return nid.v * 0x9e3779b97f4a7c15ULL >> 48;
}

/* The mark of sockets that are bound to a port and not connected. */
static __always_inline __u32 port_mark(__be16 port)
{
	return bpf_ntohs(port);
}

/* May a socket on a real address be for a packet of this node to this port of ours? If
 * not, there is none for certain.
 */
static __always_inline int may_be_real(union half node, __be16 port)
{
	__u32 zero = 0;
	struct socket_marks *r = bpf_map_lookup_elem(&real_sockets, &zero);
	__u32 valid;

	if (!r)
		return 1;
	valid = r->valid;
	return r->mark[node_mark(node)] >= valid || r->mark[port_mark(port)] >= valid;
}

#endif
