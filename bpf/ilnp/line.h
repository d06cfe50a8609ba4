/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Reads what the line of a session says of its entry, of another processor's time perhaps:
 * the daemon may write the line at any moment, and the programs its state.
 */
#ifndef ROAM_ILNP_LINE_H
#define ROAM_ILNP_LINE_H

#include "index.h"
#include "live.h"

/* What goes with the rest of the line as long as is_still() says so. */
static __always_inline __u64 settled_word(const struct session_live *l)
{
	return *(const volatile __u64 *)&l->settled;
}

static __always_inline __u32 settled_flags(__u64 word)
{
	return word >> SETTLED_FLAGS;
}

/* The sum of the NIDs less that of the aliases. */
static __always_inline __u32 settled_delta(__u64 word)
{
	return (__u16)(word >> SETTLED_DELTA);
}

/* Does what was read of the line belong to what it said before? */
static __always_inline int is_still(const struct session_live *l, __u64 word)
{
	__u64 read = l->local_nid.v ^ l->remote_nid.v ^ l->remote.v;

	return settled_word(after(l, read)) == word;
}

/* The entry of the session, or null if the line says of another one. */
static __always_inline struct session_entry *settled_entry(__u32 place, __u64 word)
{
	struct session_entry *p = bpf_map_lookup_elem(&sessions, &place);

	return p && edition_of(p) == (__u16)word ? p : 0;
}

#endif
