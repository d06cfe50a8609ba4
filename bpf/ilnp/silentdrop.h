/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Drops packets of sessions that have no usable path: silently, or with an error where TCP
 * gains by it.
 */
#ifndef ROAM_ILNP_SILENTDROP_H
#define ROAM_ILNP_SILENTDROP_H

#include "session.h"

/* Drops a packet so that its sender sees success. What is accepted at roam0 ends at the far end
 * of that device; from an uplink it would leave untranslated. So the kernel is given it for a
 * link that does not exist: it frees the packet, and reports no error. TC_ACT_STOLEN would do
 * the same, but not under tcx.
 */
__noinline int drop_silently(struct __sk_buff *skb)
{
	struct host *h = this_host();

	return h && skb->ifindex == h->device ? CONSUMED : bpf_redirect(0, 0);
}

/* There is no usable path. TCP with data in flight gets an error, and then tries again
 * every 500 ms. An idle connection that got an error would end, and all other senders
 * have timers of their own, so these see success.
 */
static __always_inline int drop_without_path(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct bpf_tcp_sock *tp;

	if (sk) {
		sk = bpf_sk_fullsock(sk);
		tp = sk ? bpf_tcp_sock(sk) : 0;
		if (tp && tp->packets_out) {
			count(DROP_NO_PATH_RETRY);
			return SHOT;
		}
	}
	count(DROP_NO_PATH_SILENT);
	return drop_silently(skb);
}

#endif
