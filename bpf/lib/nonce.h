/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The value of a Nonce option, RFC 6744 §2. */
#ifndef ROAM_NONCE_H
#define ROAM_NONCE_H

#include "addr.h"

/* len is 4, 12, or 0 for none; bytes beyond len are zero. */
struct nonce {
	__u8 len;
	__u8 pad[3];
	__u8 b[12];
} __attribute__((aligned(8)));

static __always_inline int same_nonce(const struct nonce *a, const struct nonce *b)
{
	const __u64 *x = (const __u64 *)a, *y = (const __u64 *)b;

	return x[0] == y[0] && x[1] == y[1];
}

#endif
