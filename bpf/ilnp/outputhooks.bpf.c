// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Finds out whether anybody filters or translates what this network namespace sends. The
 * structs name only the members that are used; their offsets come from the BTF of the
 * running kernel.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char _license[] SEC("license") = "Dual BSD/GPL";

#define KERNEL __attribute__((preserve_access_index))
#define NF_INET_LOCAL_OUT 3
#define NF_INET_POST_ROUTING 4

struct netns_nf {
	void *hooks_ipv6[5];
} KERNEL;

struct net {
	struct netns_nf nf;
} KERNEL;

struct nsproxy {
	struct net *net_ns;
} KERNEL;

struct task_struct {
	struct nsproxy *nsproxy;
} KERNEL;

/* Has IPv6 hooks of netfilter for packets of local sockets, or for all that leave, in the
 * network namespace of the calling thread? nftables, iptables and connection tracking
 * have.
 */
SEC("syscall")
int has_output_hooks(void *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct net *net = BPF_CORE_READ(task, nsproxy, net_ns);

	return BPF_CORE_READ(net, nf.hooks_ipv6[NF_INET_LOCAL_OUT]) ||
	       BPF_CORE_READ(net, nf.hooks_ipv6[NF_INET_POST_ROUTING]);
}
