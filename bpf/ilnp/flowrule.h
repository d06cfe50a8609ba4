/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Finds the user's rule for a packet out of a session, and the path that the rule wants. The
 * session says which rules are for its peer, so sessions without rules pay nothing. Nothing
 * is remembered of flows of ours: each packet shows all that a rule may ask for, and a reload
 * therefore changes live connections with their next packet.
 */
#ifndef ROAM_ILNP_FLOWRULE_H
#define ROAM_ILNP_FLOWRULE_H

#include "answer.h"
#include "flow.h"
#include "path.h"

#define CGROUP_LEVELS 16
#define MOST_BEHIND 18 /* what an uplink has missed and still gets: so many bytes, as a power of two */
#define PLACES (1ULL << 52) /* more than one can be behind, or ahead by a packet */

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

/* How far an uplink is behind the one that was chosen last; less than 0: ahead. What it missed
 * while it did not work is not made up for.
 */
static __always_inline __s64 turns_behind(const struct rule_turns *t, __u32 index, __u64 cost)
{
	__s64 behind = t->floor - t->spent[index], most = cost << MOST_BEHIND;

	return behind > most ? most : behind;
}

/* The place of path i in the order of delays: the four shortest are known. */
static __always_inline __u32 place_by_delay(const struct session_entry *p, __u32 i)
{
	for (__u32 k = 0; k < 4; k++) {
		if ((p->shortest >> (4 * k) & 15) == i)
			return k;
	}
	return 4;
}

/* The place of path i for a rule: the path with the least number is taken, and the number ends
 * in i. -1: the rule does not take it.
 */
__noinline __u64 place_of_path(const struct session_entry *p, const struct rule_turns *t, __u32 rule, __u32 i,
			       __u32 ports)
{
	struct flow_rule *r = bpf_map_lookup_elem(&flow_rules, &rule);
	__u32 index, cost, remote;
	struct uplink *u;

	if (!r || !p)
		return -1ULL;
	i &= MAX_PATHS - 1;
	barrier_var(i);
	index = path_uplink(p, i) & (MAX_UPLINKS - 1);
	remote = path_remote(p, i);
	u = bpf_map_lookup_elem(&uplinks, &index);
	index &= MAX_UPLINKS - 1; /* the verifiers of 6.1 and 6.12 forget the bound of a key */
	cost = r->cost[index];
	if (!u || !(u->flags & UPLINK_USABLE) || !cost || p->unvalidated >> remote & 1)
		return -1ULL;
	if (t)
		return (PLACES - turns_behind(t, index, cost)) << 8 | (i - t->next & 15) << 4 | i;
	if (r->policy == FLOW_LOW_DELAY)
		return place_by_delay(p, i) << 4 | i;
	if (r->policy == FLOW_FAILOVER)
		return (__u64)cost << 4 | i;
	return (__u64)~flow_weight(u->l64, p->remote[remote & (MAX_REMOTE - 1)], ports) << 4 | i;
}

static const struct rule_turns no_turns; /* of a session that has not sent by turns yet */

/* The turns of a session by a rule. */
static __always_inline struct rule_turns *turns_of(const struct session_entry *p, __u32 rule)
{
	struct turns_key key = { .slot = p->slot, .birth = p->birth, .rule = rule };
	struct rule_turns *t = bpf_map_lookup_elem(&rule_turns, &key);

	if (!t) {
		bpf_map_update_elem(&rule_turns, &key, &no_turns, BPF_NOEXIST);
		t = bpf_map_lookup_elem(&rule_turns, &key);
	}
	return t;
}

/* Charges a packet to the uplink that it takes. */
static __always_inline void spend(const struct session_entry *p, struct rule_turns *t, const struct flow_rule *r,
				  __u32 i, __u32 len)
{
	__u32 index = path_uplink(p, i) & (MAX_UPLINKS - 1);
	__u64 cost = r->cost[index], spent = t->spent[index], missed;

	missed = t->floor - turns_behind(t, index, cost) - spent;
	t->floor = spent + missed;
	t->next = i + 1;
	__sync_fetch_and_add(&t->spent[index], missed + len * cost);
}

/* Index of the path that a rule wants for a packet, or -1 if none of its links works. ports: of
 * the flow, the same number both ways. A connection keeps to one path where something tracks
 * connections, whatever the rule says.
 */
__noinline int path_of_rule(struct __sk_buff *skb, const struct session_entry *p, __u32 rule, __u32 ports, int tracked)
{
	struct flow_rule *r = bpf_map_lookup_elem(&flow_rules, &rule);
	struct rule_turns *t = 0;
	__u64 best = -1ULL;
	__u32 i;

	if (!r || !p || r->policy == FLOW_ADAPTIVE)
		return -1;
	if (!tracked && (r->policy == FLOW_EQUAL || r->policy == FLOW_WEIGHTED)) {
		t = turns_of(p, rule);
		if (!t)
			return -1;
	}
	for (i = 0; i < MAX_PATHS; i++) {
		__u64 place;

		/* Paths in reserve lie between. */
		if (i >= p->n_paths && (i < p->n_paths + p->n_reserve || i >= p->n_paths + p->n_reserve + p->n_ruled))
			continue;
		place = place_of_path(p, t, rule, i, ports);
		if (place < best)
			best = place;
	}
	if (best == -1ULL)
		return -1;
	i = best & (MAX_PATHS - 1);
	if (t)
		spend(p, t, r, i, skb->len);
	return i;
}

/* Does a rule send each of its flows by one path at a time? Then the peer answers it there. */
static __always_inline int is_one_path(__u32 rule)
{
	struct flow_rule *r = bpf_map_lookup_elem(&flow_rules, &rule);

	return r && r->policy != FLOW_EQUAL && r->policy != FLOW_WEIGHTED;
}

/* Index of the path that the first matching rule wants, else of the path by which the peer has
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
	path = path_of_rule(skb, p, i, ports, c->proto == IPPROTO_TCP && p->flags & ENTRY_PER_FLOW);
	if (path >= 0 && f.has_ports && c->fragment == WHOLE && is_one_path(i))
		mark_flow(skb, p, c->proto, ports);
	return path;
}

#endif
