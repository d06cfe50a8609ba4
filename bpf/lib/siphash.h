/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* SipHash-2-4 over whole 64-bit words: a keyed function of identifiers and locators. A
 * value that is computed in place of being stored survives the eviction of an entry,
 * and a flood of new entries cannot exhaust it.
 */
#ifndef ROAM_SIPHASH_H
#define ROAM_SIPHASH_H

#include "addr.h"

struct sip {
	__u64 v0, v1, v2, v3;
};

static __always_inline __u64 rotl64(__u64 x, int n)
{
	return (x << n) | (x >> (64 - n));
}

static __always_inline void sip_round(struct sip *s)
{
	s->v0 += s->v1; s->v1 = rotl64(s->v1, 13); s->v1 ^= s->v0; s->v0 = rotl64(s->v0, 32);
	s->v2 += s->v3; s->v3 = rotl64(s->v3, 16); s->v3 ^= s->v2;
	s->v0 += s->v3; s->v3 = rotl64(s->v3, 21); s->v3 ^= s->v0;
	s->v2 += s->v1; s->v1 = rotl64(s->v1, 17); s->v1 ^= s->v2; s->v2 = rotl64(s->v2, 32);
}

static __always_inline void sip_init(struct sip *s, __u64 k0, __u64 k1)
{
	s->v0 = k0 ^ 0x736f6d6570736575ULL;
	s->v1 = k1 ^ 0x646f72616e646f6dULL;
	s->v2 = k0 ^ 0x6c7967656e657261ULL;
	s->v3 = k1 ^ 0x7465646279746573ULL;
}

static __always_inline void sip_word(struct sip *s, __u64 m)
{
	s->v3 ^= m;
	sip_round(s);
	sip_round(s);
	s->v0 ^= m;
}

/* words is the number of words hashed; it goes into the length byte. */
static __always_inline __u64 sip_final(struct sip *s, __u64 words)
{
	sip_word(s, (words * 8) << 56);
	s->v2 ^= 0xff;
	sip_round(s);
	sip_round(s);
	sip_round(s);
	sip_round(s);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

#endif
