/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Drops packets of sessions that have no usable path: silently, or with an error where TCP
 * gains by it.
 */
#ifndef ROAM_ILNP_SILENTDROP_H
#define ROAM_ILNP_SILENTDROP_H

#include "session.h"

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
	return CONSUMED;
}

#endif
