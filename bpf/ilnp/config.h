/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Constants of the ILNP host that the loader sets before the verifier runs. */
#ifndef ROAM_ILNP_CONFIG_H
#define ROAM_ILNP_CONFIG_H

#include "../lib/config.h"

/* How long a session may send without receiving anything before the program reports
 * EV_SILENCE, and how long before it reports that again. In ns.
 */
const volatile __u64 silence_after = 2000000000ULL;
const volatile __u64 silence_again = 15000000000ULL;

/* UDP port from and to which encapsulated control messages go, in network order.
 * 0: none is sent, and none is accepted.
 */
const volatile __u16 encap_port = 0;

/* Do packets of sessions bear LABEL_BIT, by which site borders recognise them? */
const volatile __u8 label_bit = 0;

/* Do packets of settled sessions take the compact path? Tests compare both paths. */
enum compact_path {
	COMPACT_OFF,   /* all take the full path */
	COMPACT_FIRST, /* the full path takes those that the compact path leaves */
	COMPACT_ALONE, /* nothing takes those, and the verdict is UNSETTLED or more */
};
const volatile __u8 compact = COMPACT_FIRST;

/* Number of buckets of the index, a power of two, less one. */
const volatile __u32 index_mask = 0;

#endif
