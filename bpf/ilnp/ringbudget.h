/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The share of the urgent ring that one session gets: a correspondent with the right
 * nonce must not displace the reports of others.
 */
#ifndef ROAM_ILNP_RINGBUDGET_H
#define ROAM_ILNP_RINGBUDGET_H

#include "session.h"

#define SHARE_SHIFT 16                            /* the unit of these times: 2^16 ns */
#define SHARE_EACH (10000000U >> SHARE_SHIFT) /* of a session's share for a small record: a hundred a second, */
#define SHARE_BURST 64                        /* and so many at once: the replies to three probes of each path, and updates */
#define SHARE_AHEAD (1U << 20)                /* more than a packet can cost: such a time is past, since days */

/* Takes the share for a record with so many bytes of a packet; false if the session has
 * exceeded it. A record costs by its size, so at once a session gets at most a twentieth
 * of the ring. In place of a fill level there is the time at which the bucket will be
 * full again: one number, and the later value is as good when two processors write.
 */
static __always_inline int take_share(__u32 *full, __u32 len)
{
	__u32 now = coarse_ns() >> SHARE_SHIFT, ahead = *full - now;

	if (ahead > SHARE_AHEAD)
		ahead = 0;
	if (ahead > (SHARE_BURST - 1) * SHARE_EACH)
		return 0;
	*full = now + ahead + SHARE_EACH * (1 + len / EVENT_DATA_SMALL);
	return 1;
}

__noinline int has_share(struct session_details *d, __u32 len)
{
	return d ? take_share(&d->told_until, len) : 0;
}

/* The same for Locator Updates and their acknowledgements, which have a share of their
 * own. An attacker that makes us probe the correspondent, by a nonce of its own in the
 * correspondent's name, provokes authentic replies that would otherwise use up the share.
 */
__noinline int has_update_share(struct session_details *d, __u32 len)
{
	return d ? take_share(&d->updates_until, len) : 0;
}

#endif
