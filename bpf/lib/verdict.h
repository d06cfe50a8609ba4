/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What becomes of a packet. */
#ifndef ROAM_VERDICT_H
#define ROAM_VERDICT_H

#include "drop.h"

/* Verdicts that mean the same under tcx and under clsact; tcx takes all others
 * for PASS_ON, TC_ACT_STOLEN among them. CONSUMED is for the session device: the
 * sender is told that all is well, and the packet ends in ilnp_session_sink at
 * the other end of the veth pair.
 */
#define PASS_ON -1 /* TCX_NEXT, TC_ACT_UNSPEC */
#define CONSUMED 0 /* TCX_PASS, TC_ACT_OK */
#define SHOT 2     /* TCX_DROP, TC_ACT_SHOT */

static __always_inline int drop(__u32 reason)
{
	count(reason);
	return SHOT;
}

#endif
