/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* How much of the urgent ring one session gets: its correspondent has the right
 * nonce, and still is not to crowd out what others have to say.
 */
#ifndef ROAM_ILNP_RINGBUDGET_H
#define ROAM_ILNP_RINGBUDGET_H

#include "session.h"

#define SHARE_EACH 10000000ULL /* ns of a session's share that a small record costs: a hundred a second, */
#define SHARE_BURST 64         /* after so many at once: the replies to three probes of every path, and updates */

/* May the daemon be told of so many bytes of a packet of this session? They are
 * paid for if so. A record costs by its size, so what a session gets at once is at
 * most a twentieth of the ring, whatever it sends. Instead of a fill level there is the time
 * at which the bucket will be full again: one number, of which the later value is
 * as good when two processors write.
 */
static __always_inline int take_share(__u64 *full, __u32 len)
{
	__u64 now = bpf_ktime_get_coarse_ns(), until = *full > now ? *full : now;

	if (until - now > (SHARE_BURST - 1) * SHARE_EACH)
		return 0;
	*full = until + SHARE_EACH * (1 + len / EVENT_DATA_SMALL);
	return 1;
}

__noinline int has_share(struct session_live *l, __u32 len)
{
	return l ? take_share(&l->told_until, len) : 0;
}

/* The same for Locator Updates and their acknowledgements, which have a share of their
 * own: whoever makes us probe the correspondent, by a nonce of its own in the
 * correspondent's name, draws authentic answers that would else take all of it.
 */
__noinline int has_update_share(struct session_live *l, __u32 len)
{
	return l ? take_share(&l->updates_until, len) : 0;
}

#endif
