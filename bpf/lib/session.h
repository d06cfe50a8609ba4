/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Look-ups that both directions need. */
#ifndef ROAM_SESSION_H
#define ROAM_SESSION_H

#include "csum.h"
#include "drop.h"
#include "events.h"
#include "index.h"
#include "maps.h"
#include "parse.h"
#include "siphash.h"
#include "verdict.h"

/* Time in ticks, to be compared by difference. */
static __always_inline __u32 tick(__u64 ns)
{
	return ns >> 20;
}

/* What was seen of the pair; cleared when the slot changed hands. */
static __always_inline struct pair_live *live_of(const struct pair *p)
{
	__u32 slot = p->slot;
	struct pair_live *l = bpf_map_lookup_elem(&pair_lives, &slot);

	if (l && l->birth != p->birth) {
		__builtin_memset(l, 0, sizeof(*l));
		l->birth = p->birth;
	}
	return l;
}

static __always_inline path path_at(const struct pair *p, __u32 i)
{
	return i ? p->paths[i & (MAX_PATHS - 1)] : p->first;
}

static __always_inline __u32 path_uplink(const struct pair *p, __u32 i)
{
	return path_at(p, i) >> 4;
}

static __always_inline __u32 path_remote(const struct pair *p, __u32 i)
{
	return path_at(p, i) & (MAX_REMOTE - 1);
}

static __always_inline int same_nonce(const struct nonce *a, const struct nonce *b)
{
	const __u64 *x = (const __u64 *)a, *y = (const __u64 *)b;

	return x[0] == y[0] && x[1] == y[1];
}

/* The nonce with which an embryo is answered. */
__noinline int embryo_nonce(const struct embryo *e, const struct pair_key *nids, struct nonce *out)
{
	struct host *h = this_host();
	struct sip s;
	__u64 a, b;
	__u32 k;

	if (!h || !e || !nids || !out)
		return 0;
	k = e->epoch & 1;
	sip_init(&s, h->secret[2 * k], h->secret[2 * k + 1]);
	sip_word(&s, nids->local.v);
	sip_word(&s, nids->remote.v);
	sip_word(&s, e->first_local.v);
	sip_word(&s, e->first_remote.v);
	a = sip_final(&s, 4);
	__builtin_memset(out, 0, sizeof(*out));
	out->len = h->nonce_len;
	__builtin_memcpy(out->b, &a, 4);
	if (h->nonce_len == 12) {
		sip_init(&s, h->secret[2 * k], h->secret[2 * k + 1] ^ 1);
		sip_word(&s, a);
		b = sip_final(&s, 1);
		__builtin_memcpy(out->b + 4, &b, 8);
	}
	return 0;
}

#endif
