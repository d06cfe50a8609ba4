/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Tables of flows: for each bucket of them the paths that they take, as the daemon has decided
 * (multipath/choice.go).
 */
#ifndef ROAM_ILNP_FLOWTABLE_H
#define ROAM_ILNP_FLOWTABLE_H

#include "path.h"

/* The weight of a path for a connection: both ends compute the same number. */
static __always_inline __u32 flow_weight(union half a, union half b, __u32 ports)
{
	__u64 x = bpf_be64_to_cpu(a.v ^ b.v) + ports;

	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
	return x >> 37;
}

/* A number of two ports that is the same at both ends. */
static __always_inline __u32 ports_of(__u16 a, __u16 b)
{
	return (__u32)a * b + (a ^ b);
}

/* The table of a rule, or that of TCP without one, of the present entry; null: there is none. */
static __always_inline struct flow_table *table_of(const struct session_entry *p, __u32 table)
{
	struct table_key key = { .slot = p->slot, .birth = p->birth, .table = table, .seq = p->seq };

	return bpf_map_lookup_elem(&flow_tables, &key);
}

/* The bucket of a flow by its ports. */
static __always_inline __u32 bucket_of(const struct session_entry *p, __u32 ports)
{
	return flow_weight(p->local_nid, p->remote_nid, ports) % FLOW_BUCKETS;
}

/* A path by a table, for count_turn: the index in the low bits, then these flags, the bucket and the table. */
#define WAY_BY_TABLE (1 << 5)
#define WAY_BY_TURN (1 << 6)
#define WAY_BUCKET 8
#define WAY_TABLE 16

/* The path of a packet by a table of its session, for count_turn too, or -1. The daemon has decided for each
 * bucket of flows which paths they take; here they only take turns. keep: the flow keeps to its home, and
 * takes the other paths of its bucket only while that cannot be used. table: a rule's index in
 * flow_rules, plus 1; 0: that of TCP without a rule, whose bytes are counted.
 */
__noinline int table_path(const struct session_entry *p, __u32 table, __u32 ports, int keep)
{
	__u32 bucket, set, way;
	struct flow_table *t;
	int i = -1;

	if (!p)
		return -1;
	t = table_of(p, table);
	if (!t)
		return -1;
	bucket = bucket_of(p, ports);
	way = t->ways[bucket];
	set = t->crossed >> bucket & 1 ? t->across : t->several;
	if (t->alone >> bucket & 1)
		set = 1U << (way >> 4);
	if (keep)
		i = choose_path(p, &t->turns, ~(1U << (way & (MAX_PATHS - 1))) << NO_PATH, MAX_PATHS);
	if (i < 0)
		i = choose_path(p, &t->turns, ~set << NO_PATH, MAX_PATHS);
	if (i < 0)
		return i;
	i |= WAY_BY_TABLE | bucket << WAY_BUCKET | table << WAY_TABLE;
	return keep || !(set & (set - 1)) ? i : i | WAY_BY_TURN;
}

/* Counts a packet by a table. Not before it is known that it leaves from here: one that takes the
 * segmentation device asks for its path once more behind it.
 */
__noinline int count_turn(const struct session_entry *p, __u32 way, __u32 len)
{
	__u32 i = way & (MAX_PATHS - 1);
	struct flow_table *t;

	if (!p)
		return 0;
	t = table_of(p, way >> WAY_TABLE);
	if (!t)
		return 0;
	if (!(way >> WAY_TABLE))
		__sync_fetch_and_add(&t->bytes[way >> WAY_BUCKET & (FLOW_BUCKETS - 1)], len);
	if (!(way & WAY_BY_TURN))
		return 0;
	__sync_fetch_and_add(&t->turns.bytes[i], len * t->costs[i]);
	if (!((t->several | t->across) & 1))
		t->turns.bytes[0] = t->turns.bytes[i];
	return 0;
}

#endif
