/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The maps of a site border router. */
#ifndef ROAM_SBR_MAPS_H
#define ROAM_SBR_MAPS_H

#include "types.h"
#include "drop.h"

struct {
	/* What is to be done with packets of no flow? */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct border);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} borders SEC(".maps");

struct {
	/* Is this locator internal, or a provider's, and what is it rewritten to? */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, union half);
	__type(value, struct locator);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} locators SEC(".maps");

struct {
	/* What is the internal locator that a hint names rewritten to? */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct locator);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} groups SEC(".maps");

struct {
	/* How do packets leave from this site locator? */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_SITES);
	__type(key, __u32);
	__type(value, struct site);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} sites SEC(".maps");

struct {
	/* Is this an address of the border itself? */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, struct addr);
	__type(value, __u8);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} own_addresses SEC(".maps");

struct {
	/* Of which flows have both nodes sent a nonce? */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 21846);
	__uint(map_flags, BPF_F_MMAPABLE); /* begins on a page, hence on a cache line */
	__type(key, __u32);
	__type(value, struct flow_set);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flow_sets SEC(".maps");

struct {
	/* Which nonces have the flows of these sets? */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 21846);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct nonce_set);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} nonce_sets SEC(".maps");

struct {
	/* Which locators of inside nodes do flows have? */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, INTERNALS);
	__type(key, __u32);
	__type(value, union half);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} internals SEC(".maps");

struct {
	/* How do packets get to inside nodes? */
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WAYS);
	__type(key, __u32);
	__type(value, struct way);
} ways SEC(".maps");

struct {
	/* Which of these flows found no place in their sets? */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, 1); /* BPF_F_NO_PREALLOC */
	__type(key, struct flow_key);
	__type(value, struct whole_flow);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flows SEC(".maps");

struct {
	/* How many flows are there? */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flow_counts SEC(".maps");

struct {
	/* Of which flows has one node sent a nonce? */
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct flow_key);
	__type(value, struct whole_flow);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pending_flows SEC(".maps");

struct {
	/* To which site locator did this probe come? */
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct probe);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} probes SEC(".maps");

struct {
	/* Do fragments of this message go to the daemon? */
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct message);
	__type(value, __u8);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} split_control SEC(".maps");

struct {
	/* Which member of this label has the next packet? */
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_LABEL + 1);
	__type(key, __u32);
	__type(value, struct credits);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} credits SEC(".maps");

struct {
	/* How many packets passed this site locator? */
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_SITES);
	__type(key, __u32);
	__type(value, struct share);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} shares SEC(".maps");

struct {
	/* Which links may frames be sent by that an XDP program has rewritten? */
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} xdp_links SEC(".maps");

struct {
	/* What was a packet that was recently refused for this reason? */
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, enum counter);
	__type(value, struct refusal);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} refusals SEC(".maps");

struct {
	/* When will this flow have its whole share of the ring again, in units of 2^16 ns? */
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct share_key);
	__type(value, __u32);
} ring_shares SEC(".maps");

struct {
	/* What must the daemon do? */
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, HANDOVERS_LEN);
} handovers SEC(".maps");

#endif
