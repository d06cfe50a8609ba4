/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The maps: with types.h, the ABI between data plane and daemon. Each map has one writer;
 * docs/maps.md names it, and says how long entries live.
 */
#ifndef ROAM_ILNP_MAPS_H
#define ROAM_ILNP_MAPS_H

#include "pathtypes.h"
#include "pendingtypes.h"
#include "records.h"
#include "../lib/abi.h"

struct {
	/* Who are we? */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* begins on a page, and so a cache line */
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct host);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} hosts SEC(".maps");

struct {
	/* Which locators do we have, and how does one send from them? */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* as hosts: one line each */
	__uint(max_entries, MAX_UPLINKS);
	__type(key, __u32);
	__type(value, struct uplink);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} uplinks SEC(".maps");

struct {
	/* May the hardware address of an uplink's next hop have changed? */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_UPLINKS);
	__type(key, __u32);
	__type(value, struct uplink_live);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} uplink_lives SEC(".maps");

struct {
	/* Where is the session with these aliases? */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* the daemon writes an entry by one store */
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct bucket);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} session_index SEC(".maps");

struct {
	/* How is this session translated, and where may it be sent? */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* begins on a page, as session_lives */
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct session_entry);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} sessions SEC(".maps");

struct {
	/* From which places beyond those of its entry may a session's packets come? */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct allowance_key);
	__type(value, __u8);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} sources SEC(".maps");

struct {
	/* What does a packet of the settled session in this slot read and write? The daemon
	 * writes one half of a value, the programs the other.
	 */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* begins on a page: entries keep to their cache lines */
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct session_live);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} session_lives SEC(".maps");

struct {
	/* What else was seen of the session in this slot? */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct session_details);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} session_details SEC(".maps");

struct {
	/* Which of several correspondents with one NID was validated at this locator, or
	 * has this nonce?
	 */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct collision_key);
	__type(value, struct session_key);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nid_collisions SEC(".maps");

struct {
	/* Which paths does a policy of this host obstruct? */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct obstruction_key);
	__type(value, __u8);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} obstructed SEC(".maps");

struct {
	/* Which pending peers claim this NID? */
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct session_key);
	__type(value, struct pending_peer);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pending_peers SEC(".maps");

struct {
	/* Who has spoken plain IPv6 to us without a session? */
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct session_key); /* NIDs */
	__type(value, __u8);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} plain_nodes SEC(".maps");

struct {
	/* Which TCP connections of sessions began as plain IPv6? */
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct flow_key);
	__type(value, struct flow_ends);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} plain_flows SEC(".maps");

struct {
	/* Do pending peers, or look-ups of unknown identifiers, exceed the rate that the
	 * daemon can handle?
	 */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RATES);
	__type(key, __u32);
	__type(value, struct rate_window);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} rate_windows SEC(".maps");

struct {
	/* What went to and came from a locator that is not validated? */
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct allowance_key);
	__type(value, struct allowance);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} allowances SEC(".maps");

struct {
	/* How much data went along this path, in both directions? */
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct path_key);
	__type(value, struct path_counts);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} path_counts SEC(".maps");

struct {
	/* Which paths do the TCP connections of a session take, and the flows of each rule? */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 32768);
	__type(key, struct table_key);
	__type(value, struct flow_table);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flow_tables SEC(".maps");

struct {
	/* Of which connections do data come by a long path, and since when has nothing more been there? */
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct crossed_key);
	__type(value, struct crossed_flow);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} crossed_flows SEC(".maps");

struct {
	/* By which key are the Locator Updates of this session the peer's own? */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct slot_user);
	__type(value, struct update_key);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} update_keys SEC(".maps");

struct {
	/* Which correspondents do we know, where only known ones may open sessions? */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, union half);
	__type(value, __u8);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} known_nids SEC(".maps");

struct {
	/* At which locators do records list their nodes? */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct addr);
	__type(value, __u8);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} places SEC(".maps");

struct {
	/* What must the daemon know at once? Only authentic packets are reported here. */
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} urgent SEC(".maps");

struct {
	/* What do local applications need from the daemon? */
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} requests SEC(".maps");

struct {
	/* What do pending peers send? */
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} unvalidated SEC(".maps");

#endif
