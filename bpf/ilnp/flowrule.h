/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Finds the user's rule for a packet out of a session. The session says which rules are for its
 * peer, so sessions without rules pay nothing. Each packet shows all that a rule may ask for, and a reload
 * therefore changes live connections with their next packet. Where the flows of a rule go its
 * table says: flow.h.
 */
#ifndef ROAM_ILNP_FLOWRULE_H
#define ROAM_ILNP_FLOWRULE_H

#include "answer.h"
#include "flow.h"
#include "path.h"

#define CGROUP_LEVELS 16

/* What a packet shows of its flow. */
struct flow_facts {
	__u64 cgroups; /* bit i: the program is in the cgroup of rule i, or below */
	__u16 port, own_port;
	__u8 proto;
	__u8 dscp;
	__u8 has_ports;
	__u8 pad;
};

/* Without branches, each of which older verifiers would follow anew for each range. */
static __always_inline int in_ranges(const struct port_range *list, __u16 port)
{
	__u32 in = 0;

	for (int i = 0; i < PORT_RANGES; i++) {
		__u32 width = (__u16)(list[i].last - list[i].first), at = (__u16)(port - list[i].first);

		in |= ((0U - list[i].last) & ~(width - at)) >> 31;
	}
	return in;
}

/* Does rule i of a set match a flow? index: in flow_rules. */
__noinline int rule_matches(__u32 index, __u32 i, const struct flow_facts *f)
{
	struct flow_rule *r = bpf_map_lookup_elem(&flow_rules, &index);

	if (!r || !f || (r->proto && r->proto != f->proto) || (r->dscp && !(r->dscp >> (f->dscp & 63) & 1)) ||
	    (r->flags & (FLOW_RULE_PORTS | FLOW_RULE_OWN_PORTS) && !f->has_ports))
		return 0;
	if (r->flags & FLOW_RULE_CGROUP && !(f->cgroups >> (i & 63) & 1))
		return 0;
	return (!(r->flags & FLOW_RULE_PORTS) || in_ranges(r->ports, f->port)) &&
	       (!(r->flags & FLOW_RULE_OWN_PORTS) || in_ranges(r->own_ports, f->own_port));
}

/* Notes the rules whose cgroup is that of the sending program, or above it. A packet of no
 * socket has none: neither have segments that the segmentation device has cut.
 */
__noinline int read_cgroups(struct __sk_buff *skb, __u32 set, struct flow_facts *f)
{
	struct cgroup_key key = { .set = set };

	if (!f)
		return 0;
	for (int level = 0; level < CGROUP_LEVELS; level++) {
		__u64 *rules;

		key.id = bpf_skb_ancestor_cgroup_id(skb, level);
		if (!key.id)
			break;
		rules = bpf_map_lookup_elem(&rule_cgroups, &key);
		if (rules)
			f->cgroups |= *rules;
	}
	return 0;
}

/* Reads a packet at roam0. */
static __always_inline void read_facts(struct __sk_buff *skb, const struct session_entry *p, const struct chain *c,
				       struct flow_facts *f)
{
	__u8 class[2] = {};
	__be16 ports[2];

	f->proto = c->proto;
	bpf_skb_load_bytes(skb, ETH_LEN, class, 2);
	f->dscp = (class[0] << 4 | class[1] >> 4) >> 2 & 63;
	if ((c->proto == IPPROTO_TCP || c->proto == IPPROTO_UDP) && c->fragment != LATER_FRAGMENT &&
	    !bpf_skb_load_bytes(skb, c->at, ports, 4)) {
		f->own_port = bpf_ntohs(ports[0]);
		f->port = bpf_ntohs(ports[1]);
		f->has_ports = 1;
	}
	if (p->rules_at & RULES_BY_CGROUP)
		read_cgroups(skb, p->rules_at & MAX_RULES, f);
}

/* Does a rule send each of its flows by one path at a time? Then the peer answers it there. */
static __always_inline int is_one_path(__u32 rule)
{
	struct flow_rule *r = bpf_map_lookup_elem(&flow_rules, &rule);

	return r && r->flags & FLOW_RULE_ONE_PATH;
}

/* The path that the first matching rule wants, as table_path has it, else of the path by which the peer has
 * sent the flow by a rule of its own; -1 if there is none, or none of the rule's links works.
 */
__noinline int ruled_path(struct __sk_buff *skb, const struct session_entry *p, const struct chain *c)
{
	struct flow_facts f = {};
	__u32 i, ports;
	int path;

	if (!p || !c)
		return -1;
	read_facts(skb, p, c, &f);
	for (i = 0; i < MAX_RULES; i++) {
		if (p->rules >> i & 1 && rule_matches((p->rules_at & MAX_RULES) + i, i, &f))
			break;
	}
	if (i == MAX_RULES)
		return p->flags & ENTRY_ANSWERS ? answer_path(skb, p, c) : -1;
	i += p->rules_at & MAX_RULES;
	ports = ports_of(f.port, f.own_port);
	path = table_path(p, i + 1, ports, c->proto == IPPROTO_TCP && p->flags & ENTRY_PER_FLOW);
	if (path >= 0 && f.has_ports && c->fragment == WHOLE && is_one_path(i))
		mark_flow(skb, p, c->proto, ports);
	return path;
}

#endif
