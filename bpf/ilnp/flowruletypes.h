/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The user's rules for flows, as the daemon writes them (package flowrule), and their maps. */
#ifndef ROAM_ILNP_FLOWRULETYPES_H
#define ROAM_ILNP_FLOWRULETYPES_H

#include "types.h"

#define MAX_RULES 32   /* of one set; there is room for two sets: sessions change over one by one */
#define PORT_RANGES 4
#define RULES_BY_CGROUP 128 /* of session_entry.rules_at: a rule of the session asks for the cgroup */

enum flow_rule_flags {
	FLOW_RULE_PORTS = 1,     /* it names ports of the peer, */
	FLOW_RULE_OWN_PORTS = 2, /* ports of this host, */
	FLOW_RULE_CGROUP = 4,    /* a cgroup */
	FLOW_RULE_ONE_PATH = 8,  /* each of its flows takes one path, by which the peer answers it */
};

struct port_range {
	__u16 first, last; /* host order; last 0: none */
};

struct flow_rule {
	__u64 dscp; /* bit i: code point i; 0: any */
	struct port_range ports[PORT_RANGES];
	struct port_range own_ports[PORT_RANGES];
	enum flow_rule_flags flags;
	__u8 proto; /* 0: any */
	__u8 pad[3];
};

struct cgroup_key {
	__u64 id;
	__u64 set; /* index of the first rule of the set */
};

/* A flow of a session by its NIDs and ports. */
struct answer_key {
	union half near_nid, far_nid;
	__be16 near_port, far_port;
	__u8 proto;
	__u8 pad[3];
};

struct {
	/* By which path did the last packet of a flow come that the peer has marked? */
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct answer_key);
	__type(value, struct flow_ends);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} answer_paths SEC(".maps");

struct {
	/* Which flows does each rule match? */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * MAX_RULES);
	__type(key, __u32);
	__type(value, struct flow_rule);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flow_rules SEC(".maps");

struct {
	/* Which rules of a set, as bits, name this cgroup? */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 2 * MAX_RULES);
	__type(key, struct cgroup_key);
	__type(value, __u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} rule_cgroups SEC(".maps");

#endif
