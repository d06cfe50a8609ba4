/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The types and maps that the observer shares with the daemon: its ABI. docs/maps.md says
 * who writes each map, and how long entries live.
 */
#ifndef ROAM_OBSERVER_TYPES_H
#define ROAM_OBSERVER_TYPES_H

#include "../lib/abi.h"

/* The number of this layout, see ../lib/abi.h. */
enum abi_number { ABI = 1 };

enum class_flags {
	CLASS_EGRESS = 1,
	CLASS_NONCE = 2,
	CLASS_LOCATOR_UPDATE = 4,
	CLASS_UNREADABLE = 8, /* next is that of the IPv6 header */
};

/* Packets that are counted together. Link 0: those of all classes for which there is no
 * space, on any link.
 */
struct traffic_class {
	__u32 link;
	__u8 next;     /* upper-layer protocol, behind extension headers */
	__u8 flags;    /* enum class_flags */
	__u8 checksum; /* ip_summed of the kernel: 0 none, 1 unnecessary, 2 complete, 3 partial */
	__u8 pad;
};

struct traffic {
	__u64 packets; /* a GSO packet counts as its segments, where the kernel has their number */
	__u64 bytes;   /* from the IPv6 header on; headers of a GSO packet count once */
};

struct {
	/* How many packets of this class passed this link? */
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct traffic_class);
	__type(value, struct traffic);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} traffic SEC(".maps");

#endif
