// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Finds out whether anybody filters, translates, protects or routes by rules what this network
 * namespace forwards. The structs name only the members that are used; their offsets come from
 * the BTF of the running kernel.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char _license[] SEC("license") = "Dual BSD/GPL";

#define KERNEL __attribute__((preserve_access_index))
#define NF_INET_PRE_ROUTING 0
#define NF_INET_FORWARD 2
#define NF_INET_LOCAL_OUT 3
#define NF_INET_POST_ROUTING 4
#define XFRM_POLICY_OUT 1
#define XFRM_POLICY_FWD 2

struct netns_nf {
	void *hooks_ipv6[5];
} KERNEL;

struct netns_xfrm {
	unsigned int policy_count[6];
} KERNEL;

struct netns_ipv6 {
	_Bool fib6_has_custom_rules;
	unsigned int fib6_routes_require_src;
} KERNEL;

struct net {
	struct netns_nf nf;
	struct netns_xfrm xfrm;
	struct netns_ipv6 ipv6;
} KERNEL;

struct nsproxy {
	struct net *net_ns;
} KERNEL;

struct task_struct {
	struct nsproxy *nsproxy;
} KERNEL;

static __always_inline struct net *this_net(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, nsproxy, net_ns);
}

/* Has IPv6 hooks of netfilter for packets of local sockets, or for all that leave, in the
 * network namespace of the calling thread? nftables, iptables and connection tracking
 * have.
 */
SEC("syscall")
int has_output_hooks(void *ctx)
{
	struct net *net = this_net();

	return BPF_CORE_READ(net, nf.hooks_ipv6[NF_INET_LOCAL_OUT]) ||
	       BPF_CORE_READ(net, nf.hooks_ipv6[NF_INET_POST_ROUTING]);
}

/* Has IPv6 hooks of netfilter for packets that are forwarded, an IPsec policy, rules of
 * routing, or routes by source, in the network namespace of the calling thread?
 */
SEC("syscall")
int has_forward_hooks(void *ctx)
{
	struct net *net = this_net();

	if (BPF_CORE_READ(net, nf.hooks_ipv6[NF_INET_PRE_ROUTING]) ||
	    BPF_CORE_READ(net, nf.hooks_ipv6[NF_INET_FORWARD]) ||
	    BPF_CORE_READ(net, nf.hooks_ipv6[NF_INET_POST_ROUTING]))
		return 1;
	if (bpf_core_field_exists(net->xfrm) && (BPF_CORE_READ(net, xfrm.policy_count[XFRM_POLICY_OUT]) ||
						 BPF_CORE_READ(net, xfrm.policy_count[XFRM_POLICY_FWD])))
		return 1;
	if (bpf_core_field_exists(net->ipv6.fib6_routes_require_src) && BPF_CORE_READ(net, ipv6.fib6_routes_require_src))
		return 1;
	return bpf_core_field_exists(net->ipv6.fib6_has_custom_rules) && BPF_CORE_READ(net, ipv6.fib6_has_custom_rules);
}
